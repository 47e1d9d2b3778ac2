package main

import (
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// width is that of the text between the two columns of times.
const width = 78

// screen prints lines with the time since the start on the left and, where something was measured, the measure on the right.
type screen struct {
	out   io.Writer
	start time.Time
}

// title prints a line of its own.
func (s *screen) title(text string) { fmt.Fprintf(s.out, "%s\n", text) }

// act begins a section.
func (s *screen) act(name string) { fmt.Fprintf(s.out, "\n%s\n", name) }

// printf prints what happened now.
func (s *screen) printf(format string, arguments ...any) {
	fmt.Fprintf(s.out, "%7.1f s  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, arguments...))
}

// measured prints what happened now and how long it took.
func (s *screen) measured(took time.Duration, format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	fmt.Fprintf(s.out, "%7.1f s  %s%*s%9s\n", time.Since(s.start).Seconds(), text, max(1, width-utf8.RuneCountInString(text)), "", rounded(took))
}

// rounded gives a duration three digits at most.
func rounded(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
