package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	// sampling is how often the memory of a process is looked at from outside.
	sampling = 20 * time.Millisecond
	// asking is how often it is asked whether it is well, and answering how long it may take to say so.
	asking    = 500 * time.Millisecond
	answering = 10 * time.Second
	// metricsLimit bounds the page of metrics, in bytes.
	metricsLimit = 5 << 20
)

// process is a hub that is watched from outside. Like the kernel with a container, it ends one that takes more memory
// than it may.
type process struct {
	*testbed.Process
	role string

	limit    int64
	sampled  atomic.Int64 // the most that was seen since the last reset, in bytes
	over     atomic.Bool  // it was ended because of its memory
	unwell   atomic.Int64 // answers to /healthz other than 200, or none in time
	asked    atomic.Int64
	cancel   context.CancelFunc
	watching sync.WaitGroup
}

// watched watches a hub until stop.
func watched(ctx context.Context, hub *testbed.Process, role string, limit int64) *process {
	ctx, cancel := context.WithCancel(ctx)
	p := &process{Process: hub, role: role, limit: limit, cancel: cancel}
	p.watching.Go(func() { p.sample(ctx) })
	p.watching.Go(func() { p.ask(ctx) })
	return p
}

// resident is the memory of the process now, in bytes; zero if it has ended.
func (p *process) resident() int64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Pid()))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// regularly calls f until it returns false, the process has ended, or ctx.
func (p *process) regularly(ctx context.Context, interval time.Duration, f func() bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Done():
			return
		case <-ticker.C:
			if !f() {
				return
			}
		}
	}
}

func (p *process) sample(ctx context.Context) {
	p.regularly(ctx, sampling, func() bool {
		now := p.resident()
		if now > p.sampled.Load() {
			p.sampled.Store(now)
		}
		if now > p.limit {
			p.over.Store(true)
			p.Kill()
		}
		return now <= p.limit
	})
}

func (p *process) ask(ctx context.Context) {
	client := &http.Client{Timeout: answering}
	defer client.CloseIdleConnections()
	p.regularly(ctx, asking, func() bool {
		if err := well(ctx, client, p.HealthURL()); err != nil && ctx.Err() == nil && !p.ended() {
			p.unwell.Add(1)
		}
		p.asked.Add(1)
		return true
	})
}

func well(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	_ = response.Body.Close() // it is not read
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// reset makes peak the most from now on.
func (p *process) reset() {
	p.sampled.Store(p.resident())
	_ = p.ResetPeak() // where that is not allowed, samples are what there is
}

// peak is the most memory since reset, in bytes.
func (p *process) peak() int64 {
	most := p.sampled.Load()
	if memory, err := p.Memory(); err == nil && os.Geteuid() == 0 {
		most = max(most, memory.Peak)
	}
	return most
}

// page is what the metrics of a process are like.
type page struct {
	bytes     int
	utf8      bool
	heartbeat float64 // seconds since 1970; zero of one that does not lead
}

func (p *process) page(ctx context.Context) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	content, err := p.Get(ctx, p.MetricsURL())
	if err != nil {
		return page{}, err
	}
	out := page{bytes: len(content), utf8: utf8.Valid(content)}
	for line := range bytes.Lines(content) {
		if value, ok := bytes.CutPrefix(line, []byte("trellis_hub_heartbeat_timestamp_seconds ")); ok {
			out.heartbeat, err = strconv.ParseFloat(strings.TrimSpace(string(value)), 64)
		}
	}
	return out, err
}

// panics is how many there were by the log.
func (p *process) panics() (int, error) {
	content, err := os.ReadFile(p.LogFile)
	if err != nil {
		return 0, fmt.Errorf("log of the hub: %w", err)
	}
	n := 0
	for _, said := range []string{"\npanic: ", "Observed a panic", "goroutine stack exceeds", "\nfatal error: "} {
		n += bytes.Count(content, []byte(said))
	}
	return n, nil
}

// stop ends the process and who watches it.
func (p *process) stop() error {
	p.cancel()
	p.watching.Wait()
	if p.ended() {
		p.Kill() // its guard goes with it
		return nil
	}
	return p.Stop()
}
