package fleet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// profile takes a profile of the processor time of the hub, if profiles are wanted. The returned function waits for its end.
func (r *run) profile(ctx context.Context, name string, length time.Duration) (await func() error) {
	return r.record(ctx, name+".pprof", 0, r.Hub.ProfileURL(length))
}

// trace takes an execution trace of the hub after a while, if profiles are wanted. The returned function waits for its end.
func (r *run) trace(ctx context.Context, name string, after, length time.Duration) (await func() error) {
	return r.record(ctx, name+".trace", after, r.Hub.TraceURL(length))
}

// profileTargets takes a profile of the processor time of this process, which is that of the simulated targets.
func (r *run) profileTargets(ctx context.Context, name string, length time.Duration) (await func() error) {
	return r.write(name+"-targets.pprof", func() ([]byte, error) {
		var content bytes.Buffer
		if err := pprof.StartCPUProfile(&content); err != nil {
			return nil, err
		}
		err := rig.Pause(ctx, length)
		pprof.StopCPUProfile()
		return content.Bytes(), err
	})
}

// record writes to a file of the directory of profiles what the hub says after a while.
func (r *run) record(ctx context.Context, file string, after time.Duration, url string) (await func() error) {
	hub := r.Hub
	return r.write(file, func() ([]byte, error) {
		if err := rig.Pause(ctx, after); err != nil {
			return nil, err
		}
		return hub.Get(ctx, url)
	})
}

// write writes what is read to a file of the directory of profiles, if profiles are wanted. The returned function waits for its end.
func (r *run) write(file string, read func() ([]byte, error)) (await func() error) {
	if r.options.Profile == "" {
		return func() error { return nil }
	}
	var recording errgroup.Group
	recording.Go(func() error {
		content, err := read()
		if err == nil {
			err = os.MkdirAll(r.options.Profile, 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(r.options.Profile, file), content, 0o600)
		}
		if err != nil {
			return fmt.Errorf("recording %s: %w", file, err)
		}
		return nil
	})
	return recording.Wait
}
