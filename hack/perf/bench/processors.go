package bench

import (
	"fmt"
	"os"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// hubProcess is the name of the hub among the processors. The other names say which cluster a component belongs to.
const hubProcess = "hub"

// processors are the processes that take part in an apply, with the processor time of each so far.
func (w *world) processors(target *testbed.Cluster) (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for place, cluster := range map[string]*testbed.Cluster{"target": target, "source": w.source} {
		components, err := cluster.CPU()
		if err != nil {
			return nil, fmt.Errorf("accounting of %s: %w", cluster.Name, err)
		}
		for name, cpu := range components {
			used[place+" "+name] = cpu
		}
	}
	for name, pid := range map[string]int{hubProcess: w.hub.Pid(), "benchmark": os.Getpid()} {
		cpu, err := controlplane.ProcessCPU(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		used[name] = cpu
	}
	return used, nil
}

// account notes what was used since.
func (w *world) account(r *round, target *testbed.Cluster, before map[string]time.Duration) error {
	after, err := w.processors(target)
	if err != nil {
		return err
	}
	r.Processors = map[string]float64{}
	for name, cpu := range after {
		r.Processors[name] = figures.Milliseconds(cpu-before[name]) / float64(r.Objects)
	}
	return nil
}
