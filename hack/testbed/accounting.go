package testbed

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

// Memory is what the operating system accounts to the hub, in bytes.
type Memory struct {
	// RSS is what is resident, pages of files included; Peak is the most that it ever was.
	RSS, Peak int64
	// Anonymous is what is resident and no file: heap and stacks.
	Anonymous int64
}

// Heap is what the hub's runtime says right after a garbage collection.
type Heap struct {
	// Live is what is in use, in bytes.
	Live int64
	// Goroutines is how many there are.
	Goroutines int
	// Took is how long the collection and its answer took.
	Took time.Duration
}

// CPU is the processor time that the operating system has accounted to the hub so far, to the hundredth of a second.
func (h *Process) CPU() (time.Duration, error) { return controlplane.ProcessCPU(h.Pid()) }

// RSS is the resident memory of the hub in bytes.
func (h *Process) RSS() (int64, error) {
	m, err := h.Memory()
	return m.RSS, err
}

// Memory is that of the process.
func (h *Process) Memory() (Memory, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.Pid()))
	if err != nil {
		return Memory{}, fmt.Errorf("accounting of the hub: %w", err)
	}
	var m Memory
	wanted := map[string]*int64{"VmRSS": &m.RSS, "VmHWM": &m.Peak, "RssAnon": &m.Anonymous}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		if into := wanted[name]; into != nil {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return m, fmt.Errorf("accounting of the hub: %w", err)
			}
			*into = n << 10
			delete(wanted, name)
		}
	}
	if len(wanted) > 0 {
		return m, fmt.Errorf("accounting of the hub: unknown format")
	}
	return m, nil
}

// ResetPeak makes Memory.Peak the most that is resident from now on.
func (h *Process) ResetPeak() error {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", h.Pid()), []byte("5"), 0); err != nil {
		return fmt.Errorf("accounting of the hub: %w", err)
	}
	return nil
}

// Sockets is how many the hub has open.
func (h *Process) Sockets() (int, error) {
	dir := fmt.Sprintf("/proc/%d/fd", h.Pid())
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("open files of the hub: %w", err)
	}
	sockets := 0
	for _, file := range files {
		// One that was closed meanwhile is none.
		if what, err := os.Readlink(dir + "/" + file.Name()); err == nil && strings.HasPrefix(what, "socket:") {
			sockets++
		}
	}
	return sockets, nil
}

// Collect has the hub collect its garbage, and says what is left. The configuration must allow profiles.
func (h *Process) Collect(ctx context.Context) (Heap, error) {
	began := time.Now()
	profile, err := h.get(ctx, "http://"+h.metrics+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return Heap{}, err
	}
	heap := Heap{Took: time.Since(began)}
	if heap.Live, err = figure(string(profile), "# HeapAlloc = "); err != nil {
		return heap, err
	}
	page, err := h.get(ctx, "http://"+h.metrics+"/debug/pprof/goroutine?debug=1")
	if err != nil {
		return heap, err
	}
	goroutines, err := figure(string(page), "goroutine profile: total ")
	heap.Goroutines = int(goroutines)
	return heap, err
}

// HeapProfile has the hub collect its garbage, and returns what is left in the format of pprof.
func (h *Process) HeapProfile(ctx context.Context) ([]byte, error) {
	return h.get(ctx, "http://"+h.metrics+"/debug/pprof/heap?gc=1")
}

// figure finds the number behind a text.
func figure(page, name string) (int64, error) {
	_, rest, _ := strings.Cut(page, name)
	word, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the figures of the hub: %q: %w", name, err)
	}
	return n, nil
}
