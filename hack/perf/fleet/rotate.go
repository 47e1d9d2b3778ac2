package fleet

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

const (
	rotations   = "trellis_clustercache_rotations_total"
	disconnects = "trellis_clustercache_disconnects_total"
)

// rotate changes credentials and certificates.
func (r *run) rotate(ctx context.Context, step *figures.Step) error {
	for _, part := range []func(context.Context, *figures.Step) error{r.rotateTokens, r.rotateAuthorities, r.rotateServing} {
		if err := part(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// sum of a metric of the hub.
func (r *run) sum(ctx context.Context, name string, labels map[string]string) (float64, error) {
	return r.Hub.Sum(ctx, name, labels)
}

// register writes the registration of a target as it is now.
func (r *run) register(ctx context.Context, target *fleetsim.Target) error {
	return r.Writers.UpdateSecret(ctx, target.Registration(rig.Namespace(target)))
}

// rotateTokens changes all tokens. The old ones are void a moment later.
func (r *run) rotateTokens(ctx context.Context, step *figures.Step) error {
	r.Journal.Reset()
	mode := map[string]string{"mode": "token", "result": "ok"}
	before, err := r.sum(ctx, rotations, mode)
	if err != nil {
		return err
	}
	lost, err := r.sum(ctx, disconnects, nil)
	if err != nil {
		return err
	}
	began := time.Now()
	group, rotating := errgroup.WithContext(ctx)
	group.Go(func() error {
		return rig.EachOf(rotating, r.targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
			if err := target.RotateToken(fleetsim.Rotation{}); err != nil {
				return err
			}
			if err := r.register(ctx, target); err != nil {
				return err
			}
			if err := rig.Pause(ctx, r.options.Void); err != nil {
				return err
			}
			target.Revoke()
			// With the old token, what the hub does about it would be a 401.
			return r.foreigner.Edit(ctx, target)
		})
	})
	if err := group.Wait(); err != nil {
		return err
	}
	step.Add(fmt.Sprintf("time to rotate all tokens, %s each included", r.options.Void), time.Since(began).Seconds(), "s")
	// A target whose edit is corrected has its new token, however it came to it.
	if err := r.AwaitCorrections(ctx, r.targets, began, r.options.Patience); err != nil {
		return err
	}
	rotated, err := r.sum(ctx, rotations, mode)
	if err != nil {
		return err
	}
	step.Add("tokens taken over without losing the connection", rotated-before, "").Exactly(float64(len(r.targets))).Strictly()
	now, err := r.sum(ctx, disconnects, nil)
	if err != nil {
		return err
	}
	open, err := r.sum(ctx, watches, map[string]string{"state": "synced"})
	if err != nil {
		return err
	}
	judgeTokens(step, byHub(r.Journal.Counts()), now-lost, open, time.Since(began))
	step.Note("the old tokens are void %s after the new ones are written to the source", r.options.Void)
	step.AddLatencies("token: edit after the old one is void until corrected", rig.CorrectionsIn(r.targets, began, time.Now()).Millis, nil)
	return nil
}

// shortestWatch is how long API servers leave a watch of the hub alone at least.
const shortestWatch = 30 * time.Minute

// judgeTokens judges what the hub asked of targets for a time in which all tokens changed, with so many watches open.
func judgeTokens(step *figures.Step, counts journal.Counts, lost, open float64, length time.Duration) {
	refused := counts.Where(func(c journal.Count) bool { return c.Code == 401 }).Sum().Requests
	step.Add("requests refused (401), the old tokens being void", float64(refused), "").Exactly(0).Strictly()
	failed := counts.Verbs("apply", "patch", "create", "update", "delete").Where(func(c journal.Count) bool { return c.Code == 0 || c.Code >= 400 && c.Code != 404 && c.Code != 409 })
	step.Add("applies that failed", float64(failed.Sum().Requests), "").Exactly(0).Strictly()
	step.Add("connections lost or given up", lost, "").Exactly(0).Strictly()
	// Had they been restarted, as many would have begun as are open.
	ended := open * min(0.9, 0.05+length.Seconds()/shortestWatch.Seconds()) // and a few of kinds that come and go
	begun := float64(counts.Verbs("watch").Sum().Requests)
	step.Add("watches begun, of as many as are open", begun, "").Beside(open).
		Holds(fmt.Sprintf("<= %.0f", ended), begun <= ended).Strictly()
	step.Note("API servers end watches after %s at the earliest; that many may have begun again", shortestWatch)
}

// some are those whose authorities are changed, one after the other.
func (r *run) some() []*fleetsim.Target { return r.targets[:max(1, min(20, len(r.targets)/4))] }

// rotateAuthorities changes the authority behind the server certificate, gently and abruptly, while objects are edited.
func (r *run) rotateAuthorities(ctx context.Context, step *figures.Step) error {
	for _, how := range []struct {
		name   string
		revoke bool
	}{{"CA changes, connections continue", false}, {"CA changes, connections are reset", true}} {
		var took []float64
		began := time.Now()
		for _, target := range r.some() {
			if err := r.foreigner.Edit(ctx, target); err != nil {
				return err
			}
			if err := target.RotateCA(fleetsim.Rotation{Revoke: how.revoke}); err != nil {
				return err
			}
			edited := time.Now()
			if err := r.foreigner.Edit(ctx, target); err != nil {
				return err
			}
			written := time.Now()
			if err := r.register(ctx, target); err != nil {
				return err
			}
			if err := r.foreigner.Edit(ctx, target); err != nil {
				return err
			}
			one := []*fleetsim.Target{target}
			if err := r.AwaitCorrections(ctx, one, edited, r.options.Patience); err != nil {
				return fmt.Errorf("%s of %s: %w", how.name, target.Name(), err)
			}
			took = append(took, rig.CorrectionsIn(one, written, time.Now()).Millis...)
		}
		if err := r.AwaitCorrections(ctx, r.some(), began, r.options.Patience); err != nil {
			return fmt.Errorf("%s: an event was missed: %w", how.name, err)
		}
		step.AddLatencies(how.name+": edit after the new Secret until corrected", took, nil)
		step.Find(how.name + ": edit after the new Secret until corrected, max").AtMost(5000)
	}
	return nil
}

// rotateServing changes serving certificates, which new connections see.
func (r *run) rotateServing(ctx context.Context, step *figures.Step) error {
	began := time.Now()
	for _, target := range r.some() {
		if err := target.RotateServingCertificate(fleetsim.Rotation{}); err != nil {
			return err
		}
		if err := r.foreigner.Edit(ctx, target); err != nil {
			return err
		}
		target.ResetConnections()
		if err := r.foreigner.Edit(ctx, target); err != nil {
			return err
		}
	}
	if err := r.AwaitCorrections(ctx, r.some(), began, r.options.Patience); err != nil {
		return fmt.Errorf("serving certificates: %w", err)
	}
	step.AddLatencies("serving certificate changes, connections are reset: edits until corrected", rig.CorrectionsIn(r.some(), began, time.Now()).Millis, nil)
	step.Find("serving certificate changes, connections are reset: edits until corrected, max").AtMost(5000)
	return nil
}
