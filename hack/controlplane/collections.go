package controlplane

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Collection is one garbage collection of a component.
type Collection struct {
	Began  time.Time
	Length time.Duration
}

// Ended is when it was over.
func (c Collection) Ended() time.Time { return c.Began.Add(c.Length) }

// traced is what the Go runtime says of a collection, such as "gc 7 @1.201s 2%: 0.02+1.1+0.01 ms clock, ...": how many seconds after the start of
// the process it began, and how many milliseconds its three phases took.
const traced = "gc %d @%fs %d%%: %f+%f+%f ms clock,"

// Collections are those of a component since it was started, in their order, for a Share that has them traced. They are to the tenth of
// a second: the clock of a process begins a moment after it is started. One is missing if something else was logged in the middle of its line.
func (cp *ControlPlane) Collections(component string) ([]Collection, error) {
	if !cp.options.Share.TraceCollections {
		return nil, fmt.Errorf("collections of %s: they are not traced", component)
	}
	cp.mu.Lock()
	p := cp.processes[component]
	cp.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("collections of %s: there is none", component)
	}
	log, err := os.ReadFile(p.log)
	if err != nil {
		return nil, fmt.Errorf("collections of %s: %w", component, err)
	}
	var out []Collection
	for line := range strings.Lines(string(log[min(p.logged, int64(len(log))):])) {
		var number, percent int
		var after, sweep, mark, end float64
		if _, err := fmt.Sscanf(line, traced, &number, &after, &percent, &sweep, &mark, &end); err != nil {
			continue // it says something else
		}
		out = append(out, Collection{
			Began:  p.started.Add(time.Duration(after * float64(time.Second))),
			Length: time.Duration((sweep + mark + end) * float64(time.Millisecond)),
		})
	}
	return out, nil
}
