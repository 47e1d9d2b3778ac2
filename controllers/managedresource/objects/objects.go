package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
	"github.com/trellis-hub/trellis/engine/prune"
)

// Writer writes the objects of ManagedResources to their targets, and has the tracker know how they are right.
type Writer struct {
	Tracker *tracker.Tracker
	Applier *apply.Applier
	// KeepGarbageCollectable reports whether ConfigMaps and Secrets with the garbage collector's label are left to it in a
	// target. Nil: they never are.
	KeepGarbageCollectable func(target clustercache.ClusterKey) bool
}

// Exact is what of its objects' metadata a ManagedResource wants to have for itself.
func Exact(mr *resourcesv1alpha1.ManagedResource) tracker.Exact {
	return tracker.Exact{
		Labels:      ptr.Deref(mr.Spec.ForceOverwriteLabels, false),
		Annotations: ptr.Deref(mr.Spec.ForceOverwriteAnnotations, false),
	}
}

// Begin has what happens to the objects noted instead of notified until tracker.End. It returns what the watches show
// of them, and which are right.
func (o *Writer) Begin(s *run.Subject) (compared tracker.Comparison, right map[inventory.Key]tracker.Accepted) {
	compared = o.Tracker.Judge(s.Name)
	right = o.right(s, &compared)
	o.Tracker.Begin(s.Name)
	return compared, right
}

// WentMeanwhile reports whether one of some objects went since the run began to write, which caused no run. An object
// does not count that the watches did not show then, because another client had removed its label.
func (o *Writer) WentMeanwhile(
	s *run.Subject, present map[inventory.Key]tracker.Accepted, waitsFor map[inventory.Key]bool,
) bool {
	for key := range waitsFor {
		if _, was := present[key]; !was {
			continue
		}
		if _, found, synced := o.Tracker.Observed(s.Name, key); synced && !found {
			return true
		}
	}
	return false
}

// right returns the objects that are as they were sent last, as the watches show, or as the target answered and the
// watches cannot show yet: a run that is repeated while a busy hub opens its watches would send all of it once more. If
// an apply of everything is asked for, only those that are done.
func (o *Writer) right(s *run.Subject, compared *tracker.Comparison) map[inventory.Key]tracker.Accepted {
	right, _ := o.Tracker.AcceptedStates(s.Name)
	if s.State.Demanded {
		maps.DeleteFunc(right, func(_ inventory.Key, a tracker.Accepted) bool { return !a.Done })
		return right
	}
	for _, key := range slices.Concat(compared.Drifted, compared.Missing, compared.Unknown) {
		delete(right, key)
	}
	believed := sets.New(compared.Believed...)
	maps.DeleteFunc(right, func(key inventory.Key, _ tracker.Accepted) bool {
		_, observed := compared.Observed[key]
		return !observed && !believed.Has(key)
	})
	return right
}

// ApplyChanged applies intents but those that say what was sent last for an object that is right, and those that are
// left to others, whose outcomes are given. Of a large bundle of which one object changed, one is sent.
func (o *Writer) ApplyChanged(ctx context.Context, s *run.Subject, all []apply.Intent,
	right map[inventory.Key]tracker.Accepted, yields map[inventory.Key]apply.Outcome) []apply.Outcome {
	outcomes := make([]apply.Outcome, len(all))
	var changed []apply.Intent
	var indices []int
	for i, in := range all {
		if yielded, ok := yields[in.Key]; ok {
			outcomes[i] = yielded
			continue
		}
		// An object that is going is not written to: it is made again when it is gone.
		if obs, found, synced := o.Tracker.Observed(s.Name, in.Key); found && synced && obs.Terminating {
			outcomes[i] = apply.Outcome{Key: in.Key, Err: apply.ErrTerminating}
			continue
		}
		was, ok := right[in.Key]
		if ok && in.Digest != 0 && was.Intent == in.Digest {
			outcomes[i] = apply.Outcome{
				Key: in.Key, UID: was.UID, ResourceVersion: was.ResourceVersion, State: was.State, Unchanged: true,
			}
			continue
		}
		changed, indices = append(changed, in), append(indices, i)
	}
	for i, outcome := range o.Apply(ctx, s, changed) {
		outcomes[indices[i]] = outcome
	}
	return outcomes
}

// Apply applies objects, and accepts each as soon as it is right.
func (o *Writer) Apply(ctx context.Context, s *run.Subject, todo []apply.Intent) []apply.Outcome {
	scaled := sets.Set[inventory.Key]{}
	for _, in := range todo {
		if in.Autoscaled {
			scaled.Insert(in.Key)
		}
	}
	return o.Applier.Run(ctx, s.Access, todo, func(outcome apply.Outcome) {
		if outcome.Err == nil {
			o.Tracker.Accept(s.Name, outcome.Key, tracker.Accepted{
				UID: outcome.UID, ResourceVersion: outcome.ResourceVersion, State: outcome.State,
				Autoscaled: scaled.Has(outcome.Key), Intent: outcome.Digest,
			})
		}
	})
}

// acceptForeign takes an object of another ManagedResource as it is: only a change of its ownership is of interest.
func (o *Writer) acceptForeign(s *run.Subject, key inventory.Key, live *metav1.PartialObjectMetadata) tracker.Accepted {
	accepted := tracker.Accepted{
		UID: live.UID, ResourceVersion: live.ResourceVersion, State: ownership.Observe(live, o.Applier.FieldManager),
	}
	o.Tracker.Accept(s.Name, key, accepted)
	return accepted
}

// Release takes our marks off objects that are not managed any longer, and returns what failed by the keys of their
// entries.
func (o *Writer) Release(ctx context.Context, s *run.Subject, orphans []Orphan) map[inventory.Key]error {
	failed := map[inventory.Key]error{}
	var mu sync.Mutex
	var releases errgroup.Group
	releases.SetLimit(max(o.Applier.Parallel, 1))
	at := prune.Target{Metadata: s.Access.Metadata, Client: s.Access.Client, Mapper: s.Access.Mapper}
	releaser := prune.NewReleaser(at, s.Origin(), o.Applier.FieldManager)
	for _, orphan := range orphans {
		releases.Go(func() error {
			err := releaser.Release(ctx, orphan.Entry)
			if err == nil && inventory.KeyOf(orphan.Entry) != inventory.KeyOf(orphan.manifest) {
				err = releaser.Release(ctx, orphan.manifest) // the old kind may not be served any longer
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[inventory.KeyOf(orphan.Entry)] = err
			}
			return nil
		})
	}
	_ = releases.Wait() // each has its own error
	return failed
}

// head is what a look at the metadata of an object showed.
type head struct {
	live *metav1.PartialObjectMetadata
	err  error
}

// absent reports whether it is certain that there is no such object.
func (h head) absent() bool { return apierrors.IsNotFound(h.err) || meta.IsNoMatchError(h.err) }

// heads reads the metadata of objects, several at a time, and returns it in the same order.
func (o *Writer) heads(ctx context.Context, target apply.Target, all []apply.Intent) []head {
	heads := make([]head, len(all))
	var looks errgroup.Group
	looks.SetLimit(max(o.Applier.Parallel, 1))
	for i, in := range all {
		looks.Go(func() error {
			if ctx.Err() != nil {
				heads[i].err = context.Cause(ctx)
				return nil //nolint:nilerr // it is noted
			}
			heads[i].live, heads[i].err = target.Head(ctx, in)
			return nil
		})
	}
	_ = looks.Wait() // each has its own error
	return heads
}

// explainedNamespaces is how many namespaces that are being deleted are asked what they wait for.
const explainedNamespaces = 5

// ExplainNamespaces adds to failures that come from the deletion of a namespace why that does not end: the objects
// cannot be applied before, and their manifests are not to blame.
func ExplainNamespaces(ctx context.Context, target apply.Target, outcomes []apply.Outcome) {
	waits := map[string]string{}
	for i := range outcomes {
		o := &outcomes[i]
		name := endingNamespace(o)
		if name == "" {
			continue
		}
		text, asked := waits[name]
		if !asked {
			if len(waits) == explainedNamespaces {
				continue
			}
			text = prune.NamespaceWaits(ctx, target.Client, name)
			waits[name] = text
		}
		if text != "" {
			o.Err = fmt.Errorf("%w; namespace %s waits: %s", o.Err, name, text)
		}
	}
}

// endingNamespace is the namespace whose deletion keeps an object from being applied, empty if there is none.
func endingNamespace(o *apply.Outcome) string {
	switch {
	case apierrors.HasStatusCause(o.Err, corev1.NamespaceTerminatingCause):
		return o.Key.Namespace
	case inventory.IsNamespace(o.Key.GroupKind()) && errors.Is(o.Err, apply.ErrTerminating):
		return o.Key.Name
	}
	return ""
}
