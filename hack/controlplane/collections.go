package controlplane

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
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

// collected is what the Go runtime says of a collection, such as "gc 7 @1.201s 2%: 0.02+1.1+0.01 ms clock": how long after the start of the
// process it began, and how long its three phases took.
var collected = regexp.MustCompile(`^gc \d+ @([\d.]+)s \d+%: ([\d.]+)\+([\d.]+)\+([\d.]+) ms clock,`)

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
		fields := collected.FindStringSubmatch(line)
		if fields == nil {
			continue
		}
		var numbers [4]float64
		var errs [4]error
		for i := range numbers {
			numbers[i], errs[i] = strconv.ParseFloat(fields[i+1], 64)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("collections of %s: %w", component, err)
		}
		out = append(out, Collection{
			Began:  p.started.Add(time.Duration(numbers[0] * float64(time.Second))),
			Length: time.Duration((numbers[1] + numbers[2] + numbers[3]) * float64(time.Millisecond)),
		})
	}
	return out, nil
}
