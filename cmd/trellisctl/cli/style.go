package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// Style colours text for a terminal, and leaves it unchanged elsewhere.
type Style struct{ on bool }

// Style returns the style for a stream: colours if it is a terminal that has them and NO_COLOR is not set.
func (e *Env) Style(w io.Writer) Style { return Style{on: printers.AllowsColorOutput(w)} }

// Colours returns a style with colours or without.
func Colours(on bool) Style { return Style{on: on} }

func (s Style) paint(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Good is for healthy or added things.
func (s Style) Good(text string) string { return s.paint("32", text) }

// Bad is for unhealthy or removed things.
func (s Style) Bad(text string) string { return s.paint("31", text) }

// Warn is for warnings and for things in progress.
func (s Style) Warn(text string) string { return s.paint("33", text) }

// Strong is for headings.
func (s Style) Strong(text string) string { return s.paint("1", text) }

// Faint is for less important text.
func (s Style) Faint(text string) string { return s.paint("2", text) }

// Text escapes control characters except line feeds and tabs, so that text from a cluster cannot control the terminal.
func Text(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unprintable(r) {
			b.WriteString("^")
			if r < 0x20 {
				b.WriteRune(r + 0x40)
			} else {
				b.WriteString("?")
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// unprintable are control characters, including those that change the direction of text.
func unprintable(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// FirstLine is the first line of a text, with a mark if there are more.
func FirstLine(text string) string {
	first, more, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if strings.TrimSpace(more) != "" {
		first += " ..."
	}
	return Text(first)
}

// Indent puts a prefix before every line of a text but the first.
func Indent(text, prefix string) string {
	return strings.ReplaceAll(Text(strings.TrimRight(text, "\n")), "\n", "\n"+prefix)
}

// Count is a number of things: "1 object", "2 objects".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Age is the time since something, in the format of kubectl; "<unknown>" if the time is not known.
func (e *Env) Age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(e.Clock.Since(since))
}

// Until is the time until something, or since.
func (e *Env) Until(when time.Time) string {
	if left := when.Sub(e.Clock.Now()); left > 0 {
		return "in " + duration.HumanDuration(left)
	}
	return e.Age(when) + " ago"
}
