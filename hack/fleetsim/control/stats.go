package control

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// measure looks at this process.
func measure() (Stats, error) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	s := Stats{Goroutines: runtime.NumGoroutine(), HeapBytes: int64(heap[0].Value.Uint64()), At: time.Now()}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return s, fmt.Errorf("reading the resource usage of this process: %w", err)
	}
	s.CPU = metav1.Duration{Duration: time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
	s.MaxRSSBytes = usage.Maxrss
	if runtime.GOOS == "linux" { // it counts in KiB
		s.MaxRSSBytes *= 1 << 10
	}
	// There is no /proc on other systems.
	if content, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(content)); len(fields) > 1 {
			pages, err := strconv.ParseInt(fields[1], 10, 64)
			if err == nil {
				s.RSSBytes = pages * int64(os.Getpagesize())
			}
		}
	}
	if entries, err := os.ReadDir("/proc/self/fd"); err == nil {
		s.Descriptors = len(entries)
	}
	return s, nil
}
