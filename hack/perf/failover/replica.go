package failover

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// replica is a hub in a process of its own.
type replica struct {
	*testbed.Process
	name string
}

// add starts a replica. One that ended has a successor of the same name.
func (t *trial) add(ctx context.Context, name string) error {
	hub, err := t.Replica(ctx, name)
	if err != nil {
		return err
	}
	t.replicas = append(t.replicas, &replica{Process: hub, name: name})
	return nil
}

// signal sends a signal to the process.
func (r *replica) signal(s syscall.Signal) error {
	if err := syscall.Kill(r.Pid(), s); err != nil {
		return fmt.Errorf("sending %s to the hub: %w", s, err)
	}
	return nil
}

// leads asks a replica whether it does.
func (r *replica) leads(ctx context.Context) (bool, error) {
	page, err := r.Get(ctx, r.MetricsURL())
	if err != nil {
		return false, err
	}
	return strings.Contains(string(page), "\ntrellis_hub_leader 1\n"), nil
}

// roles waits until one replica leads, and the other is warm: connected to all targets.
func (t *trial) roles(ctx context.Context) (leader, standby *replica, err error) {
	err = t.Until(ctx, t.options.Patience, 200*time.Millisecond, "one replica leads and the other is warm", func() (bool, error) {
		leader, standby = nil, nil
		for _, r := range t.replicas {
			leads, err := r.leads(ctx)
			if err != nil {
				return false, err
			}
			if leads {
				leader = r
			} else {
				standby = r
			}
		}
		if leader == nil || standby == nil {
			return false, nil
		}
		up, err := standby.Sum(ctx, "trellis_target_up", nil)
		return int(up) == len(t.targets), err
	})
	return leader, standby, err
}
