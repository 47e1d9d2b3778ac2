package managedresource

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// dryRun finds out what an apply would do and reports it on the TargetCluster and in the logs. Nothing is written, neither
// to the ManagedResource nor to the target: applies are sent with the server's own dry run.
func (r *reconciler) dryRun(ctx context.Context, work *run) (reconcile.Result, error) {
	report := &hubv1alpha1.DryRunReport{}
	switch {
	case work.mr.DeletionTimestamp != nil || work.decision.Leaving:
		if !deref(work.mr.Spec.KeepObjects) {
			if err := r.planDeletes(ctx, work, report, work.mr.Status.Resources); err != nil {
				return r.resync(), err
			}
		}
	case resourcesv1alpha1.IsTruthy(work.mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]), work.decision.AwaitFinalizer != "":
	default:
		if planned, err := r.planApply(ctx, work, report); !planned || err != nil {
			return r.resync(), err
		}
	}
	r.memory.with(work.name, func(e *remembered) { e.target, e.dryRun = work.target, report })
	return r.resync(), nil
}

// planDeletes reports what would be deleted: what is there, and nobody else's.
func (r *reconciler) planDeletes(ctx context.Context, work *run, report *hubv1alpha1.DryRunReport, refs []resourcesv1alpha1.ObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	status, _ := r.clusters.GetStatus(work.target)
	target, err := r.access(ctx, work.target, status.UID)
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
	policy := r.prunePolicy(ctx, work, work.target, status.UID, nil)
	for i, head := range r.heads(ctx, target, looks) {
		if head.absent() || head.err == nil && prune.KeptBecause(head.live, refs[i], policy) != "" {
			continue
		}
		report.Deletes++
		work.log.Info("Dry run", "object", looks[i].Key.String(), "would", "delete")
	}
	return nil
}

// planApply reports what applying would change. planned is false if that cannot be told.
func (r *reconciler) planApply(ctx context.Context, work *run, report *hubv1alpha1.DryRunReport) (planned bool, err error) {
	if !work.decision.HasTarget {
		work.log.Info("Dry run: no target", "reason", work.decision.Reason)
		return false, nil
	}
	b, _, err := r.read(ctx, work)
	if _, busy := bundle.IsBusy(err); busy {
		return false, err
	}
	if err != nil {
		work.log.Info("Dry run: cannot read the content", "error", err.Error())
		return false, nil
	}
	status, _ := r.clusters.GetStatus(work.target)
	target, err := r.access(ctx, work.target, status.UID)
	if err != nil {
		return false, err
	}
	p, err := r.plan(ctx, work, b, target)
	if isContentError(err) {
		work.log.Info("Dry run: the content cannot be applied", "error", err.Error())
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r.noteAutoscalers(ctx, work, target, p.planned(), false)
	for i, in := range intents(p.objects, bookOf(work.mr)) {
		change, err := r.wouldChange(ctx, target, in)
		if err != nil {
			work.log.Info("Dry run: the apply would fail", "object", p.objects[i].Key.String(), "error", err.Error())
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
		work.log.Info("Dry run", "object", p.objects[i].Key.String(), "would", change)
	}
	if p.complete() {
		old, _ := p.leaving(bookOf(work.mr), work.mr.Status.Resources)
		if err := r.planDeletes(ctx, work, report, old); err != nil {
			return false, err
		}
	}
	return true, nil
}

// wouldChange asks the server what a run would make of an object: create, update or nothing.
func (r *reconciler) wouldChange(ctx context.Context, target apply.Target, in apply.Intent) (string, error) {
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
	preview, err := r.applier.Preview(ctx, target, in)
	switch {
	case err != nil:
		return "", err
	case preview.Live == nil: // it is being created, or was deleted this moment
		return "create", nil
	case !preview.Recreated && semantic.DeepEqual(stripped(preview.Live), stripped(preview.After)):
		return "", nil
	}
	return "update", nil
}

// stripped removes what differs without a change of content. A Gardener resource manager describes its objects in other words.
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
