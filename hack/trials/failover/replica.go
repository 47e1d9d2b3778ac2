package failover

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// replica is a hub in a process of its own.
type replica struct {
	*stage.Hub
	connections map[string]bool // by their address at its end, those that are closed included
}

// add starts a replica.
func (t *trial) add(ctx context.Context) error {
	hub, err := t.Replica(ctx, "")
	if err != nil {
		return err
	}
	t.replicas = append(t.replicas, &replica{Hub: hub, connections: map[string]bool{}})
	return nil
}

// signal sends a signal to the process.
func (r *replica) signal(s syscall.Signal) error {
	if err := syscall.Kill(r.Pid(), s); err != nil {
		return fmt.Errorf("sending %s to the hub: %w", s, err)
	}
	return nil
}

// wrote tells whether a write came on a connection of the replica that was noted.
func (r *replica) wrote(change journal.Change) bool { return r.connections[change.Connection] }

// note notes the connections that the replica has.
func (r *replica) note() error {
	dir := fmt.Sprintf("/proc/%d", r.Pid())
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return fmt.Errorf("connections of the hub: %w", err)
	}
	own := map[string]bool{}
	for _, file := range files {
		// One that was closed meanwhile is none.
		if what, err := os.Readlink(dir + "/fd/" + file.Name()); err == nil {
			own[what] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		content, err := os.ReadFile(dir + "/net/" + table)
		if err != nil {
			return fmt.Errorf("connections of the hub: %w", err)
		}
		for line := range strings.Lines(string(content)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || !own["socket:["+fields[9]+"]"] {
				continue
			}
			_, port, _ := strings.Cut(fields[1], ":")
			if number, err := strconv.ParseUint(port, 16, 16); err == nil {
				r.connections[fmt.Sprintf("127.0.0.1:%d", number)] = true
			}
		}
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
