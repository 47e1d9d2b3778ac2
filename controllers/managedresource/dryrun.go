package managedresource

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// previewer finds out what runs would do.
type previewer struct {
	content    *content.Reader
	targets    *targets
	objects    *objects
	neighbours *neighbours
}

// preview finds out what a run would change; nil if that is not known. Nothing is written, neither to the
// ManagedResource nor to the target: applies are sent with the server's own dry run.
func (p *previewer) preview(ctx context.Context, s *run.Subject) (*hubv1alpha1.DryRunReport, error) {
	report := &hubv1alpha1.DryRunReport{}
	switch {
	case s.Goes():
		if ptr.Deref(s.MR.Spec.KeepObjects, false) {
			return report, nil
		}
		if err := p.previewDeletes(ctx, s, report, s.MR.Status.Resources); err != nil {
			return nil, err
		}
	case resourcesv1alpha1.IsTruthy(s.MR.Annotations[resourcesv1alpha1.IgnoreAnnotation]), s.Decision.AwaitFinalizer != "":
	default:
		if planned, err := p.previewApply(ctx, s, report); !planned || err != nil {
			return nil, err
		}
	}
	return report, nil
}

// previewDeletes reports what would be deleted: objects that exist, and that no other owner keeps.
func (p *previewer) previewDeletes(ctx context.Context, s *run.Subject, report *hubv1alpha1.DryRunReport,
	refs []resourcesv1alpha1.ObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	status, _ := p.targets.clusters.GetStatus(s.Target)
	target, err := p.targets.access(ctx, s.Target, status.UID)
	if err != nil {
		return err
	}
	looks := make([]apply.Intent, 0, len(refs))
	for _, ref := range refs {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		obj.SetNamespace(ref.Namespace)
		obj.SetName(ref.Name)
		looks = append(looks, apply.Intent{Object: obj, Key: inventory.KeyOf(ref)})
	}
	policy := p.objects.prunePolicy(p.neighbours.in(ctx, s, status.UID, s.Target), nil)
	for i, head := range p.objects.heads(ctx, target, looks) {
		if head.absent() || head.err == nil && prune.KeptBecause(head.live, refs[i], policy) != "" {
			continue
		}
		report.Deletes++
		s.Log.Info("Dry run", "object", looks[i].Key.String(), "would", "delete")
	}
	return nil
}

// previewApply reports what applying would change. planned is false if that is not known.
func (p *previewer) previewApply(
	ctx context.Context, s *run.Subject, report *hubv1alpha1.DryRunReport,
) (planned bool, err error) {
	if !s.Decision.HasTarget {
		s.Log.Info("Dry run: no target", "reason", s.Decision.Reason)
		return false, nil
	}
	b, _, err := p.content.Read(ctx, s)
	if _, busy := bundle.IsBusy(err); busy {
		return false, err
	}
	if err != nil {
		s.Log.Info("Dry run: cannot read the content", "error", err.Error())
		return false, nil
	}
	status, _ := p.targets.clusters.GetStatus(s.Target)
	if s.Access, err = p.targets.access(ctx, s.Target, status.UID); err != nil {
		return false, err
	}
	plan, err := newPlan(ctx, s, p.content.ManagedBy, b, s.Access)
	if content.IsError(err) {
		s.Log.Info("Dry run: the content cannot be applied", "error", err.Error())
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.objects.noteAutoscalers(ctx, s, s.Access, plan.prepared(), false)
	book := s.Book()
	for i, in := range plan.intents(book) {
		change, err := p.objects.preview(ctx, s.Access, in)
		if err != nil {
			s.Log.Info("Dry run: the apply would fail", "object", plan.objects[i].Key.String(), "error", err.Error())
			continue
		}
		switch change {
		case "create":
			report.Creates++
		case "update":
			report.Updates++
		default:
			continue
		}
		s.Log.Info("Dry run", "object", plan.objects[i].Key.String(), "would", change)
	}
	if plan.complete() {
		old, _ := plan.leaving(book, s.MR.Status.Resources)
		if err := p.previewDeletes(ctx, s, report, old); err != nil {
			return false, err
		}
	}
	return true, nil
}

// preview asks the server what a run would make of an object: create, update or nothing.
func (o *objects) preview(ctx context.Context, target apply.Target, in apply.Intent) (string, error) {
	ctx, done := clustercache.HoldAnswers(ctx)
	defer done()
	_, err := target.Head(ctx, in)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err): // its namespace or kind may be in the bundle, too
		return "create", nil
	case err != nil:
		return "", fmt.Errorf("reading the live object: %w", err)
	case in.CreateOnly:
		return "", nil
	}
	preview, err := o.applier.Preview(ctx, target, in)
	switch {
	case err != nil:
		return "", err
	case preview.Live == nil: // it is being created, or was deleted this moment
		return "create", nil
	case !preview.Recreated && equality.Semantic.DeepEqual(stripped(preview.Live), stripped(preview.After)):
		return "", nil
	}
	return "update", nil
}

// stripped removes what differs without a change of content. A Gardener resource manager describes its objects in other
// words.
func stripped(obj *unstructured.Unstructured) map[string]any {
	content := obj.DeepCopy()
	content.SetManagedFields(nil)
	content.SetResourceVersion("")
	content.SetGeneration(0)
	annotations := content.GetAnnotations()
	delete(annotations, resourcesv1alpha1.DescriptionAnnotation)
	content.SetAnnotations(annotations)
	return content.Object
}
