package histories

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// trace keeps the last lines of what happened.
type trace struct {
	begin time.Time
	mu    sync.Mutex
	lines []string
	next  int
}

const traceLength = 6000

func newTrace() *trace { return &trace{begin: time.Now(), lines: make([]string, 0, traceLength)} }

func (t *trace) add(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", time.Since(t.begin).Seconds()) + fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.lines) < traceLength {
		t.lines = append(t.lines, line)
		return
	}
	t.lines[t.next] = line
	t.next = (t.next + 1) % traceLength
}

// write writes the lines, oldest first; with about, only those that contain one of the texts.
func (t *trace) write(w io.Writer, about ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.lines {
		line := t.lines[(t.next+i)%len(t.lines)]
		if len(about) == 0 || mentions(line, about) {
			_, _ = fmt.Fprintln(w, line)
		}
	}
}

func mentions(line string, about []string) bool {
	for _, a := range about {
		if a != "" && strings.Contains(line, a) {
			return true
		}
	}
	return strings.Contains(line, "crash") || strings.Contains(line, "VIOLATION") || strings.Contains(line, "started")
}
