package rig

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Resources are what the hub has at a moment, after a garbage collection.
type Resources struct {
	Time       time.Time `json:"time"`
	Heap       int64     `json:"heapBytes"`
	RSS        int64     `json:"rssBytes"`
	Anonymous  int64     `json:"anonymousBytes"`
	Goroutines int       `json:"goroutines"`
	Sockets    int       `json:"sockets"`
	// Series are those of metrics of the hub itself, and TargetSeries those among them that are about one target.
	Series       int `json:"series"`
	TargetSeries int `json:"targetSeries"`
}

// collections is how many are made in a row: what is only weakly held, and what finalizers let go, needs a second one.
const collections = 3

// Resources of the hub.
func (r *Rig) Resources(ctx context.Context) (Resources, error) {
	out := Resources{Time: time.Now()}
	var heap testbed.Heap
	var err error
	for range collections {
		if heap, err = r.Hub.Collect(ctx); err != nil {
			return out, err
		}
	}
	out.Heap, out.Goroutines = heap.Live, heap.Goroutines
	memory, err := r.Hub.Memory()
	if err != nil {
		return out, err
	}
	out.RSS, out.Anonymous = memory.RSS, memory.Anonymous
	if out.Sockets, err = r.Hub.Sockets(); err != nil {
		return out, err
	}
	page, err := r.Hub.Get(ctx, r.Hub.MetricsURL())
	if err != nil {
		return out, err
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "trellis_") {
			out.Series++
		}
		if strings.HasPrefix(line, "trellis_target_") {
			out.TargetSeries++
		}
	}
	return out, nil
}

// CPU is processor time so far.
type CPU struct {
	Hub    time.Duration
	Trial  time.Duration // this process: the simulator and all that works in it
	Source time.Duration // all components of the source
	At     time.Time
}

// CPU of the hub, of this process and of the source.
func (r *Rig) CPU() (c CPU, err error) {
	if c.Hub, err = r.Hub.CPU(); err != nil {
		return CPU{}, err
	}
	if c.Trial, err = controlplane.ProcessCPU(os.Getpid()); err != nil {
		return CPU{}, err
	}
	components, _ := r.Source.CPU() // it only explains the others
	for _, used := range components {
		c.Source += used
	}
	c.At = time.Now()
	return c, nil
}

// Since is what was used since an earlier time.
func (c CPU) Since(before CPU) CPU {
	return CPU{Hub: c.Hub - before.Hub, Trial: c.Trial - before.Trial, Source: c.Source - before.Source, At: c.At}
}

// Accounting reads the processor time once a second from now on. The returned function ends that, and returns what was read.
func (r *Rig) Accounting(ctx context.Context) (end func() []CPU) {
	accounting, cancel := context.WithCancel(ctx)
	var account sync.WaitGroup
	var looks []CPU
	account.Go(func() {
		for {
			c, err := r.CPU()
			if err != nil {
				return // it is only there to explain
			}
			looks = append(looks, c)
			if Pause(accounting, time.Second) != nil {
				return
			}
		}
	})
	return func() []CPU {
		cancel()
		account.Wait()
		return looks
	}
}

// EachSecond returns which process used how many processors in each second after a time.
func EachSecond(looks []CPU, from time.Time) string {
	var seconds []string
	for n := 0; ; n++ {
		used := ofSecond(looks, from, n)
		if used == "" {
			return strings.Join(seconds, "; ")
		}
		seconds = append(seconds, used)
	}
}

// ofSecond returns which process used how many processors around a second after a time, of what is known of
// each; empty if nothing is.
func ofSecond(looks []CPU, from time.Time, n int) string {
	begin, end := from.Add(time.Duration(n)*time.Second), from.Add(time.Duration(n+1)*time.Second)
	first := max(slices.IndexFunc(looks, func(c CPU) bool { return c.At.After(begin) })-1, 0)
	last := slices.IndexFunc(looks, func(c CPU) bool { return !c.At.Before(end) })
	if last <= first {
		return ""
	}
	used, length := looks[last].Since(looks[first]), looks[last].At.Sub(looks[first].At)
	share := func(d time.Duration) float64 { return d.Seconds() / length.Seconds() }
	return fmt.Sprintf("hub %.1f, trial %.1f, source %.1f processors", share(used.Hub), share(used.Trial), share(used.Source))
}

// tidying is how long the collections may take that Tidy waits for: that of the source goes through some GiB.
const tidying = time.Minute

// Tidy has the source's API server and the simulated targets collect their garbage, before something is measured that takes less than a minute or two: they
// have the processors of the hub, which are those of other machines where hubs run. With a thousand targets such a collection takes a processor
// for one to four seconds, and it is chance when that is.
func (r *Rig) Tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidying)
	defer cancel()
	runtime.GC()
	return r.Source.CollectGarbage(ctx)
}

// Millicores of the hub since an earlier time.
func (c CPU) Millicores(before CPU) float64 {
	return 1000 * (c.Hub - before.Hub).Seconds() / c.At.Sub(before.At).Seconds()
}
