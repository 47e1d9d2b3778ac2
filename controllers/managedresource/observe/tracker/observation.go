package tracker

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/ownership"
	"github.com/trellis-hub/trellis/untrusted"
)

// Observation is what is kept of a live object.
type Observation struct {
	UID             types.UID
	ResourceVersion string
	State           ownership.State
	// Terminating objects wait for their deletion to end.
	Terminating bool
	// Skipped objects are annotated to be left out of the checks.
	Skipped bool
	// Done is true for Jobs that have succeeded and are to be removed because of that.
	Done bool
	// Owner is the first owner that the object names; nil if it names none.
	Owner *string
	// Judgement is nil for objects that have no check.
	Judgement *Judgement
	// Pod is set for pods.
	Pod *health.Pod
}

// Judgement is the result of the checks of an object.
type Judgement struct {
	Health   health.Result
	Progress health.ProgressResult
}

// transform condenses an object. Checks run here, once an event, so that no content has to be kept for them.
func (t *Tracker) transform(obj client.Object) any {
	o := &Observation{
		UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Terminating: obj.GetDeletionTimestamp() != nil,
		Skipped:     obj.GetAnnotations()[resourcesv1alpha1.SkipHealthCheckAnnotation] == "true",
	}
	full, isFull := wholeOf(obj)
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		o.Owner = new(untrusted.Name(owners[0].Kind) + " " + untrusted.Name(owners[0].Name))
	}
	o.Done = isFull && health.IsDone(full)
	isPod := isFull && full.GroupVersionKind() == podKind
	if !isPod || t.mayHaveWritten(obj) {
		o.State = ownership.Observe(obj, t.fieldManager)
	}
	if !isFull {
		return o
	}
	if isPod {
		pod := health.PodOf(full)
		o.Pod = &pod
	}
	j := Judgement{Health: health.Check(full), Progress: health.Progress(full)}
	if j.Health.Checked || j.Progress.Checked {
		o.Judgement = &j
	}
	return o
}

// mayHaveWritten reports whether the hub may have written a pod itself: it did, or the server does not return field
// managers. Most pods it did not write, there are many, and they change often: the fields of these are not compared.
// Their state is that of an object that the hub never applied, which Accept takes into account.
func (t *Tracker) mayHaveWritten(pod client.Object) bool {
	entries := pod.GetManagedFields()
	for i := range entries {
		if entries[i].Manager == t.fieldManager {
			return true
		}
	}
	return len(entries) == 0
}

// wholeOf returns the content of an object that came as more than metadata.
func wholeOf(obj client.Object) (*unstructured.Unstructured, bool) {
	whole, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return nil, false
	}
	return &unstructured.Unstructured{Object: whole.UnstructuredContent()}, true
}

// sameJudgement reports whether two observations lead to the same conditions, pods aside. Where pods are not watched,
// what the object reports of them matters.
func sameJudgement(a, b *Observation, reported bool) bool {
	if a.Terminating != b.Terminating || a.Skipped != b.Skipped {
		return false
	}
	x, y := a.Judgement.orNone(), b.Judgement.orNone()
	if reported && x.Progress.Reported != y.Progress.Reported {
		return false
	}
	return x.Health.Healthy == y.Health.Healthy && x.Health.Problem == y.Health.Problem &&
		x.Progress.Progressing == y.Progress.Progressing && x.Progress.Problem == y.Progress.Problem &&
		x.Progress.CountPods == y.Progress.CountPods && x.Progress.Replicas == y.Progress.Replicas &&
		x.Progress.Ending == y.Progress.Ending &&
		selectorText(x.Progress) == selectorText(y.Progress)
}

// fails reports whether an object is worse than one that was just written.
func (o *Observation) fails() bool {
	return o.Judgement != nil && o.Judgement.Health.Severity > health.Waiting
}

// orNone returns what is to be said of an object that has no check: nothing is wrong with it.
func (j *Judgement) orNone() *Judgement {
	if j == nil {
		return &Judgement{Health: health.Result{Healthy: true}}
	}
	return j
}

func selectorText(p health.ProgressResult) string {
	if p.Selector == nil {
		return ""
	}
	return p.Selector.String()
}
