package objects

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

// Previewer finds out what runs would do.
type Previewer struct {
	Content    *content.Reader
	Targets    *Targets
	Objects    *Writer
	Neighbours *Neighbours
}

// Preview finds out what a run would change; nil if that is not known. Nothing is written, neither to the
// ManagedResource nor to the target: applies are sent with the server's own dry run.
func (p *Previewer) Preview(ctx context.Context, s *run.Subject) (*hubv1alpha1.DryRunReport, error) {
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
func (p *Previewer) previewDeletes(ctx context.Context, s *run.Subject, report *hubv1alpha1.DryRunReport,
	refs []resourcesv1alpha1.ObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	status, _ := p.Targets.Clusters.GetStatus(s.Target)
	target, err := p.Targets.Access(ctx, s.Target, status.UID)
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
	policy := p.Objects.PrunePolicy(p.Neighbours.In(ctx, s, status.UID, s.Target), nil)
	for i, head := range p.Objects.heads(ctx, target, looks) {
		if head.absent() || head.err == nil && prune.KeptBecause(head.live, refs[i], policy) != "" {
			continue
		}
		report.Deletes++
		s.Log.Info("Dry run", "object", looks[i].Key.String(), "would", "delete")
	}
	return nil
}

// previewApply reports what applying would change. planned is false if that is not known.
func (p *Previewer) previewApply(
	ctx context.Context, s *run.Subject, report *hubv1alpha1.DryRunReport,
) (planned bool, err error) {
	if !s.Decision.HasTarget {
		s.Log.Info("Dry run: no target", "reason", s.Decision.Reason)
		return false, nil
	}
	b, _, err := p.Content.Read(ctx, s)
	if _, busy := bundle.IsBusy(err); busy {
		return false, err
	}
	if err != nil {
		s.Log.Info("Dry run: cannot read the content", "error", err.Error())
		return false, nil
	}
	status, _ := p.Targets.Clusters.GetStatus(s.Target)
	if s.Access, err = p.Targets.Access(ctx, s.Target, status.UID); err != nil {
		return false, err
	}
	plan, err := NewPlan(ctx, s, p.Content.ManagedBy, b, s.Access)
	if content.IsError(err) {
		s.Log.Info("Dry run: the content cannot be applied", "error", err.Error())
		return false, nil
	}
	if err != nil {
		return false, err
	}
	p.Objects.NoteAutoscalers(ctx, s, s.Access, plan.Prepared(), false)
	book := s.Book()
	for i, in := range plan.Intents(book) {
		change, err := p.Objects.preview(ctx, s.Access, in)
		if err != nil {
			s.Log.Info("Dry run: the apply would fail", "object", plan.Objects[i].Key.String(), "error", err.Error())
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
		s.Log.Info("Dry run", "object", plan.Objects[i].Key.String(), "would", change)
	}
	if plan.Complete() {
		old, _ := plan.Leaving(book, s.MR.Status.Resources)
		if err := p.previewDeletes(ctx, s, report, old); err != nil {
			return false, err
		}
	}
	return true, nil
}

// preview asks the server what a run would make of an object: create, update or nothing.
func (o *Writer) preview(ctx context.Context, target apply.Target, in apply.Intent) (string, error) {
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
	preview, err := o.Applier.Preview(ctx, target, in)
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
	copied := obj.DeepCopy()
	copied.SetManagedFields(nil)
	copied.SetResourceVersion("")
	copied.SetGeneration(0)
	annotations := copied.GetAnnotations()
	delete(annotations, resourcesv1alpha1.DescriptionAnnotation)
	copied.SetAnnotations(annotations)
	return copied.Object
}
