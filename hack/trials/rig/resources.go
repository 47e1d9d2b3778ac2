package rig

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/demo/stage"
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
	var heap stage.Heap
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
	Trial  time.Duration // this process: the simulator and whoever is at work in it
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

// ofSecond tells who used how many processors around a second after a time, of what is known of each.
func ofSecond(looks []CPU, from time.Time, n int) string {
	begin, end := from.Add(time.Duration(n)*time.Second), from.Add(time.Duration(n+1)*time.Second)
	first := max(slices.IndexFunc(looks, func(c CPU) bool { return c.At.After(begin) })-1, 0)
	last := slices.IndexFunc(looks, func(c CPU) bool { return !c.At.Before(end) })
	if last <= first {
		return ""
	}
	used, length := looks[last].Since(looks[first]), looks[last].At.Sub(looks[first].At)
	share := func(d time.Duration) float64 { return d.Seconds() / length.Seconds() }
	return fmt.Sprintf("; hub %.1f, trial %.1f, source %.1f processors", share(used.Hub), share(used.Trial), share(used.Source))
}

// Millicores of the hub since an earlier time.
func (c CPU) Millicores(before CPU) float64 {
	return 1000 * (c.Hub - before.Hub).Seconds() / c.At.Sub(before.At).Seconds()
}

// SourceRequests counts what the source was asked for so far by anybody, by verb and resource, as its API server counts.
func (r *Rig) SourceRequests(ctx context.Context) (map[string]int64, error) {
	config := r.Source.RESTConfig()
	raw, err := rawClient(config)
	if err != nil {
		return nil, err
	}
	page, err := raw.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the figures of the source: %w", err)
	}
	counts := map[string]int64{}
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(strings.TrimSpace(rest), "} ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("reading the figures of the source: %w", err)
		}
		resource := label(labels, "resource")
		if sub := label(labels, "subresource"); sub != "" && !strings.HasPrefix(sub, "/") {
			resource += "/" + sub
		}
		counts[label(labels, "verb")+" "+resource] += int64(n)
	}
	return counts, nil
}

// Writes are those among counts of SourceRequests, of Leases and of anything else, that were added since earlier ones.
func Writes(before, after map[string]int64) (leases, others int64, what map[string]int64) {
	what = map[string]int64{}
	for request, n := range after {
		verb, resource, _ := strings.Cut(request, " ")
		n -= before[request]
		switch verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION":
		default:
			continue
		}
		switch {
		case n == 0:
		case resource == "leases":
			leases += n
		case strings.HasSuffix(resource, "reviews"), resource == "serviceaccounts/token":
			// Nothing is stored.
		default:
			others += n
			what[request] = n
		}
	}
	return leases, others, what
}

// label finds the value of one in a line of the exposition format. None of those that are looked for has quotes in it.
func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
