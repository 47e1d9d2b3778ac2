package faults

import (
	"context"
	"time"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// phase is a column of the matrix: what the hub does with a target.
type phase struct {
	name string
	// begin does what makes the hub do it.
	begin func(context.Context, *run, *fleetsim.Target) error
	// done reports whether the hub has done it since a time, from what is in the target.
	done func(ctx context.Context, r *run, target *fleetsim.Target, since time.Time) bool
}

// What a phase changes content to.
const changed = "changed"

var phases = []phase{
	{"connecting", func(ctx context.Context, r *run, target *fleetsim.Target) error {
		return r.Writers.Create(ctx, target.Registration(rig.Namespace(target)))
	}, func(ctx context.Context, _ *run, target *fleetsim.Target, _ time.Time) bool {
		return rig.Has(ctx, target, rig.Steady, 0, "value") && rig.Has(ctx, target, rig.Going, 0, "value") && rig.HasCustom(ctx, target)
	}},
	{"listing", func(ctx context.Context, r *run, target *fleetsim.Target) error {
		// All watches end, and what they knew is too old to continue from.
		target.Server().Compact()
		return r.foreigner.Edit(ctx, target)
	}, corrected},
	{"watching", func(ctx context.Context, r *run, target *fleetsim.Target) error {
		return r.foreigner.Edit(ctx, target)
	}, corrected},
	{"applying", func(ctx context.Context, r *run, target *fleetsim.Target) error {
		return r.Writers.UpdateSecret(ctx, rig.ContentOf(target, rig.Changing, changed, 0, time.Time{}))
	}, func(ctx context.Context, _ *run, target *fleetsim.Target, _ time.Time) bool {
		return rig.Has(ctx, target, rig.Changing, 0, changed) && rig.Has(ctx, target, rig.Changing, 1, changed)
	}},
	{"pruning", func(ctx context.Context, r *run, target *fleetsim.Target) error {
		return r.Writers.UpdateSecret(ctx, rig.ContentOf(target, rig.Shrinking, "value", 1, time.Time{}))
	}, func(ctx context.Context, _ *run, target *fleetsim.Target, _ time.Time) bool {
		return rig.Has(ctx, target, rig.Shrinking, 0, "value") && !rig.Has(ctx, target, rig.Shrinking, 1, "")
	}},
	{"deleting", func(ctx context.Context, r *run, target *fleetsim.Target) error {
		return r.Writers.DeleteManagedResources(ctx, rig.Namespace(target), rig.Going)
	}, func(ctx context.Context, r *run, target *fleetsim.Target, _ time.Time) bool {
		gone := r.Observer.Expect("", []testbed.Ref{testbed.ManagedResourceRef(rig.Namespace(target), rig.Going)}, rig.Gone)
		defer gone.End()
		n, _ := gone.Open()
		return n == 0 && !rig.Has(ctx, target, rig.Going, 0, "") && !rig.Has(ctx, target, rig.Going, 1, "")
	}},
}

// corrected reports whether no edit is pending.
func corrected(_ context.Context, _ *run, target *fleetsim.Target, since time.Time) bool {
	return len(rig.CorrectionsIn([]*fleetsim.Target{target}, since, time.Now()).Pending) == 0
}
