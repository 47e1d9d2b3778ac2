package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// sample is one measured change.
type sample struct {
	Target string  `json:"target"`
	Kind   string  `json:"kind"`
	Change string  `json:"change"`
	Millis float64 `json:"ms"`
	// ReferenceMillis is what the same change took right afterwards where the benchmark itself did the hub's part, knowing
	// beforehand what to write.
	ReferenceMillis float64 `json:"referencems"`
}

// samples are those of several runs, in which all targets are worked on at a time, each by one change after the other.
type samples struct {
	Runs [][]sample `json:"runs"`
}

// latencies are the figures of each run.
func (s samples) latencies(figure func(sample) float64) []figures.Latencies {
	out := make([]figures.Latencies, 0, len(s.Runs))
	for _, run := range s.Runs {
		values := make([]float64, 0, len(run))
		for _, one := range run {
			values = append(values, figure(one))
		}
		out = append(out, figures.LatenciesOf(values))
	}
	return out
}

func ofHub(s sample) float64       { return s.Millis }
func ofReference(s sample) float64 { return s.ReferenceMillis }

// referencePrefix is for objects that the hub does not know.
const referencePrefix = "reference-"

// measureDrift edits and deletes random objects.
func measureDrift(ctx context.Context, w *world) (samples, error) {
	decks := map[*testbed.Cluster]*deck{}
	references := map[schema.GroupVersionKind]victim{}
	for _, v := range victims(append(mixture(referencePrefix, "steady"), definition("Reference"))) {
		references[v.kind] = v
	}
	for i, target := range w.targets {
		decks[target] = newDeck(rand.New(rand.NewPCG(w.seed, uint64(i))), w.fixture)
		for _, v := range references {
			if err := target.Client.Create(ctx, decode(v.manifest)); err != nil {
				return samples{}, fmt.Errorf("creating %s %s: %w", v.kind.Kind, v.key, err)
			}
		}
	}
	return w.inRuns(ctx, w.edits, func(ctx context.Context, target *testbed.Cluster) (sample, error) {
		d := decks[target]
		victim := d.draw()
		how := randomEdit(d.random, victim.kind)
		s := sample{Target: target.Name, Kind: victim.kind.Kind, Change: how.name}
		took, err := restore(ctx, target, victim, how, nil)
		if err != nil {
			return s, err
		}
		s.Millis = figures.Milliseconds(took)
		reference := references[victim.kind]
		took, err = restore(ctx, target, reference, how, func(before, now *unstructured.Unstructured) error {
			if now == nil {
				return target.Client.Create(ctx, decode(reference.manifest))
			}
			again := before.DeepCopy()
			again.SetResourceVersion(now.GetResourceVersion())
			return target.Client.Update(ctx, again)
		})
		s.ReferenceMillis = figures.Milliseconds(took)
		return s, err
	})
}

// inRuns makes all runs. Each has a number of changes, spread over the targets, with short random pauses.
func (w *world) inRuns(ctx context.Context, changes int, change func(context.Context, *testbed.Cluster) (
	sample, error)) (samples, error) {
	var out samples
	for range w.runs {
		var mu sync.Mutex
		var run []sample
		group, ctx := errgroup.WithContext(ctx)
		for i, target := range w.targets {
			share := (changes + i) / len(w.targets)
			group.Go(func() error {
				for range share {
					time.Sleep(rand.N(20 * time.Millisecond))
					s, err := change(ctx, target)
					if err != nil {
						return err
					}
					mu.Lock()
					run = append(run, s)
					mu.Unlock()
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, run)
	}
	return out, nil
}

// restore changes an object and measures until it is as before. undo, if not nil, is called once when the change is
// seen, with the object before and after it.
func restore(ctx context.Context, target *testbed.Cluster, v victim, how edit,
	undo func(before, now *unstructured.Unstructured) error) (time.Duration, error) {
	follower, err := testbed.Follow(ctx, target, v.kind, v.key)
	if err != nil {
		return 0, err
	}
	defer follower.Stop()
	before := object(v.kind, v.key)
	if err := target.Client.Get(ctx, v.key, before); err != nil {
		return 0, fmt.Errorf("reading %s %s: %w", v.kind.Kind, v.key, err)
	}
	if how.patch == "" {
		err = target.Client.Delete(ctx, before)
	} else {
		err = target.Client.Patch(ctx, object(v.kind, v.key), client.RawPatch(types.MergePatchType, []byte(how.patch)),
			client.FieldOwner("another-client"))
	}
	answered := time.Now()
	if err != nil {
		return 0, fmt.Errorf("%s of %s %s: %w", how.name, v.kind.Kind, v.key, err)
	}
	var failed error
	seen, err := follower.Until(ctx, func(u *unstructured.Unstructured) bool {
		switch {
		case u == nil:
		case u.GetResourceVersion() == before.GetResourceVersion():
			return false
		case samePayload(before, u) && (how.patch != "" || u.GetUID() != before.GetUID()):
			return true
		}
		if undo != nil {
			if failed = undo(before, u); apierrors.IsConflict(failed) {
				failed = nil // the server wrote meanwhile, which is to be seen, too
				return false
			}
			undo = nil
		}
		return failed != nil
	})
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("after %q: %w", how.name, err)
	}
	return max(0, seen.Sub(answered)), nil
}

// deck deals all objects of the fixture in random order before it deals one again. The hub slows down corrections of
// objects that are changed again and again.
type deck struct {
	random *rand.Rand
	all    []victim
	left   []victim
}

func newDeck(random *rand.Rand, fixture int) *deck {
	d := &deck{random: random, all: victims(definitions())}
	for i := range fixture {
		d.all = append(d.all, victims(mixture(fixtureName(i)+"-", "steady"))...)
	}
	return d
}

func (d *deck) draw() victim {
	if len(d.left) == 0 {
		d.left = slices.Clone(d.all)
		d.random.Shuffle(len(d.left), func(i, j int) { d.left[i], d.left[j] = d.left[j], d.left[i] })
	}
	v := d.left[0]
	d.left = d.left[1:]
	return v
}
