package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// profile writes profiles of the processor time of the hub and of both API servers, while the hub applies round after round.
func (w *world) profile(ctx context.Context, base string) error {
	const length = 20 * time.Second
	group, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	profiles, taking := errgroup.WithContext(ctx)
	for name, take := range map[string]func() ([]byte, error){
		"hub":    func() ([]byte, error) { return w.hub.Get(taking, w.hub.ProfileURL(length)) },
		"source": func() ([]byte, error) { return profileOf(taking, w.source, length) },
		"target": func() ([]byte, error) { return profileOf(taking, w.targets[0], length) },
	} {
		profiles.Go(func() error {
			content, err := take()
			if err != nil {
				return fmt.Errorf("profiling %s: %w", name, err)
			}
			return os.WriteFile(fmt.Sprintf("%s-%s.pprof", base, name), content, 0o600)
		})
	}
	group.Go(func() error {
		defer close(done)
		return profiles.Wait()
	})
	group.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-done:
				return nil
			default:
			}
			if _, err := w.bring(ctx, byHub, 1000+i); err != nil {
				return err
			}
		}
	})
	return group.Wait()
}

// profileOf takes a profile of an API server.
func profileOf(ctx context.Context, cluster *testbed.Cluster, length time.Duration) ([]byte, error) {
	c, err := bareClient(cluster)
	if err != nil {
		return nil, err
	}
	return c.Get().AbsPath("/debug/pprof/profile").Param("seconds", fmt.Sprint(int(length.Seconds()))).DoRaw(ctx)
}
