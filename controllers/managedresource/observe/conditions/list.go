package conditions

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of messages. An API server takes objects of about 1.5 MiB, of which the inventory may have one.
const (
	// listLimit is how many problems are named, the others are counted.
	listLimit = 20
	// lineLimit bounds what is said of one problem.
	lineLimit = 1 << 10
	// messageLimit bounds the message of a condition.
	messageLimit = 32 << 10
	// headlineLimit bounds the one problem that the summary names.
	headlineLimit = 512
)

// indent begins lines that explain the one before. They are no problems of their own.
const indent = "  "

// Bound bounds the message of a condition, which may have several lines.
func Bound(message string) string { return untrusted.Lines(message, messageLimit) }

// line makes one line of a text, and not too long a one.
func line(text string) string {
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	return untrusted.Text(strings.Join(lines, " "), lineLimit)
}

// lines are the first of some texts, a line each, and the number of the rest.
func lines(texts []string) []string {
	out := make([]string, 0, min(len(texts), listLimit)+1)
	for _, text := range texts[:min(len(texts), listLimit)] {
		out = append(out, line(text))
	}
	if rest := len(texts) - listLimit; rest > 0 {
		out = append(out, fmt.Sprintf("... and %d more", rest))
	}
	return out
}

// List joins errors the way consumers know them, a line each.
func List(texts []string) string {
	if len(texts) == 1 {
		return "1 error occurred: " + line(texts[0])
	}
	return fmt.Sprintf("%d errors occurred: [%s]", len(texts), strings.Join(lines(texts), ",\n"))
}

var (
	counted = regexp.MustCompile(`\d+ errors? occurred: \[?`)
	rest    = regexp.MustCompile(`^(?:\.\.\. )?and (\d+) more\]?$`)
)

// headline is the first problem of a condition's message and the number of the others.
func headline(message string) string {
	first, others, _ := strings.Cut(message, "\n")
	first = untrusted.Text(strings.TrimSuffix(counted.ReplaceAllString(first, ""), ","), headlineLimit)
	more := 0
	for text := range strings.SplitSeq(others, "\n") {
		if text == "" || strings.HasPrefix(text, indent) {
			continue
		}
		n := 1
		if match := rest.FindStringSubmatch(text); match != nil {
			n, _ = strconv.Atoi(match[1]) // of digits; one that is too large is cut
		}
		more += n
	}
	if more == 0 {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", strings.TrimSuffix(first, "."), more)
}

// withNotes puts the notes of problems behind their lines.
func withNotes(all []string, problems []Problem) string {
	var out []string
	for i, text := range all {
		out = append(out, text)
		if i < min(len(problems), listLimit) {
			for _, note := range problems[i].Notes {
				out = append(out, indent+line(note))
			}
		}
	}
	return strings.Join(out, "\n")
}
