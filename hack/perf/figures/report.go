package figures

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is everything that one run of a trial measured.
type Report struct {
	Trial string            `json:"trial"`
	Time  time.Time         `json:"time"`
	Go    string            `json:"go"`
	CPUs  int               `json:"cpus"`
	Flags map[string]string `json:"flags,omitempty"`
	Steps []*Step           `json:"steps"`
	// Raw is what was measured by a trial that has figures of its own instead of steps. Nil: there is nothing else.
	Raw any `json:"raw,omitempty"`
	// Error is what ended the run before its time; empty if nothing did.
	Error string `json:"error,omitempty"`
}

// NewReport begins a report. The flags say how to repeat the run; nil if there are none.
func NewReport(trial string, flags *flag.FlagSet) *Report {
	r := &Report{Trial: trial, Time: time.Now().UTC(), Go: runtime.Version(), CPUs: runtime.NumCPU(), Flags: map[string]string{}}
	if flags != nil {
		flags.VisitAll(func(f *flag.Flag) { r.Flags[f.Name] = f.Value.String() })
	}
	return r
}

// Step is one part of a run.
type Step struct {
	Name       string    `json:"name"`
	Began      time.Time `json:"began"`
	Seconds    float64   `json:"seconds"`
	LoadBefore string    `json:"loadBefore"`
	LoadAfter  string    `json:"loadAfter"`
	Figures    []Figure  `json:"figures"`
	// Samples are raw values, by name, in milliseconds unless the name has another unit.
	Samples map[string][]float64 `json:"samples,omitempty"`
	// Counts are raw counts, by name.
	Counts map[string]int64 `json:"counts,omitempty"`
	// Notes are sentences for people.
	Notes []string `json:"notes,omitempty"`
}

// Figure is one thing that was measured.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Reference is what the same took without the hub, or without what is on trial, in the same run. Nil: there is none.
	Reference *float64 `json:"reference,omitempty"`
	// Goal is what the value is to be, in words. Empty: there is none.
	Goal string `json:"goal,omitempty"`
	// Held reports whether the goal is reached. Nil: there is none.
	Held *bool `json:"held,omitempty"`
	// Must says that the report fails if the goal is not reached.
	Must bool `json:"must,omitempty"`
}

// Begin begins a step.
func (r *Report) Begin(name string) *Step {
	s := &Step{Name: name, Began: time.Now(), LoadBefore: Load()}
	r.Steps = append(r.Steps, s)
	return s
}

// End says that everything of the step was measured. Ending twice is fine: the first time counts.
func (s *Step) End() {
	if s.LoadAfter == "" {
		s.Seconds, s.LoadAfter = time.Since(s.Began).Seconds(), Load()
	}
}

// Add adds a figure, to be completed by its methods.
func (s *Step) Add(name string, value float64, unit string) *Figure {
	s.Figures = append(s.Figures, Figure{Name: name, Value: value, Unit: unit})
	return &s.Figures[len(s.Figures)-1]
}

// AddLatencies adds p50, p99 and the maximum of samples in milliseconds, and keeps the samples. Reference may be nil.
func (s *Step) AddLatencies(name string, samples, reference []float64) Latencies {
	l, r := LatenciesOf(samples), LatenciesOf(reference)
	for _, q := range []struct {
		name             string
		value, reference float64
	}{{"p50", l.P50, r.P50}, {"p99", l.P99, r.P99}, {"max", l.Max, r.Max}} {
		f := s.Add(name+", "+q.name, q.value, "ms")
		if len(reference) > 0 {
			f.Beside(q.reference)
		}
	}
	s.Keep(name, samples)
	if len(reference) > 0 {
		s.Keep(name+", reference", reference)
	}
	return l
}

// Keep keeps raw samples.
func (s *Step) Keep(name string, samples []float64) {
	if s.Samples == nil {
		s.Samples = map[string][]float64{}
	}
	s.Samples[name] = samples
}

// Count keeps a raw count.
func (s *Step) Count(name string, n int64) {
	if s.Counts == nil {
		s.Counts = map[string]int64{}
	}
	s.Counts[name] = n
}

// Note adds a sentence.
func (s *Step) Note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// Find returns the last figure of this name that was added; nil if none was.
func (s *Step) Find(name string) *Figure {
	for i := len(s.Figures) - 1; i >= 0; i-- {
		if s.Figures[i].Name == name {
			return &s.Figures[i]
		}
	}
	return nil
}

// Beside sets the reference.
func (f *Figure) Beside(reference float64) *Figure {
	f.Reference = &reference
	return f
}

// AtMost sets the goal: not more than that. What could not be measured does not reach it.
func (f *Figure) AtMost(limit float64) *Figure { return f.holds("<= "+number(limit), f.Value <= limit) }

// Exactly sets the goal: no more and no less.
func (f *Figure) Exactly(value float64) *Figure { return f.holds(number(value), f.Value == value) }

// Holds sets a goal in words.
func (f *Figure) Holds(goal string, held bool) *Figure { return f.holds(goal, held) }

// Strictly makes the goal a property: the report fails without it.
func (f *Figure) Strictly() *Figure {
	f.Must = true
	return f
}

func (f *Figure) holds(goal string, held bool) *Figure {
	f.Goal, f.Held = goal, &held
	return f
}

// Broken lists what must hold and does not.
func (r *Report) Broken() []string { return r.notHeld(true) }

// Missed lists the goals that are not reached, but for those that must be.
func (r *Report) Missed() []string { return r.notHeld(false) }

func (r *Report) notHeld(must bool) []string {
	var out []string
	for _, s := range r.Steps {
		for _, f := range s.Figures {
			if f.Must == must && f.Held != nil && !*f.Held {
				out = append(out, fmt.Sprintf("%s: %s is %s %s, not %s", s.Name, f.Name, number(f.Value), f.Unit, f.Goal))
			}
		}
	}
	return out
}

// Print writes the report as a table.
func (r *Report) Print(out io.Writer) error {
	if len(r.Steps) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%s, %s, %d processors\n", r.Trial, r.Time.Format(time.RFC3339), r.CPUs)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range r.Steps {
		fmt.Fprintf(table, "\n%s (%.0f s, load %s -> %s)\n", s.Name, s.Seconds, LoadOfMinute(s.LoadBefore), LoadOfMinute(s.LoadAfter))
		for i, f := range s.Figures {
			if i == 0 {
				fmt.Fprintln(table, "  FIGURE\tVALUE\tUNIT\tREFERENCE\tGOAL\t")
			}
			reference, held := "", ""
			if f.Reference != nil {
				reference = number(*f.Reference)
			}
			if f.Held != nil {
				held = map[bool]string{true: "held", false: "MISSED"}[*f.Held]
			}
			if f.Must && held == "MISSED" {
				held = "BROKEN"
			}
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\n", f.Name, number(f.Value), f.Unit, reference, f.Goal, held)
		}
		for _, note := range s.Notes {
			// A cell of its own would make the column of names as wide as a sentence.
			fmt.Fprintf(table, "  %s\n", note)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing a report: %w", err)
	}
	return nil
}

// Write writes the report as JSON, to the file or, if path is empty, to one named after the trial and its time in dir. It
// returns the path.
func (r *Report) Write(path, dir string) (string, error) {
	if path == "" {
		path = filepath.Join(dir, fmt.Sprintf("%s-%s.json", strings.ReplaceAll(r.Trial, " ", "-"), r.Time.Format("20060102-150405")))
	}
	for _, s := range r.Steps {
		s.End()
		for i := range s.Figures {
			s.Figures[i].finite()
		}
	}
	content, err := json.MarshalIndent(r, "", " ")
	err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700))
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("writing a report: %w", err)
	}
	return path, nil
}

// missing stands in JSON, which has no NaN, for what could not be measured.
const missing = -1

func (f *Figure) finite() {
	for _, v := range []*float64{&f.Value, f.Reference} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			*v = missing
		}
	}
}

// number has as many digits as are worth reading.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) && a < 1e9, a >= 1000:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
