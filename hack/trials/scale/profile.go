package scale

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// profile takes a profile of the processor time of the hub, if profiles are wanted. The returned function waits for its end.
func (r *run) profile(ctx context.Context, name string, length time.Duration) (await func() error) {
	if r.options.Profile == "" {
		return func() error { return nil }
	}
	hub, taken := r.Hub, make(chan error, 1)
	go func() {
		content, err := hub.Get(ctx, hub.ProfileURL(length))
		if err == nil {
			err = os.MkdirAll(r.options.Profile, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(r.options.Profile, name+".pprof"), content, 0o600)
		}
		taken <- err
	}()
	return func() error {
		if err := <-taken; err != nil {
			return fmt.Errorf("profiling the hub: %w", err)
		}
		return nil
	}
}
