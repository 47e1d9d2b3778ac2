package systemd

import (
	"fmt"
	"strings"

	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of a unit file.
const (
	maxBytes   = 256 << 10
	maxOptions = 4096
)

// Option is a line of a unit file, or several that a backslash joins.
type Option struct {
	// Section is what stands in brackets above it. Only comments may have none.
	Section string
	// Name is what stands before the equals sign; empty for a comment.
	Name string
	// Value is what follows, without blanks around it. Backslashes at ends of lines are part of it. For a comment, it
	// is all.
	Value string
}

// Parse reads a unit file. It is an error if a line is none of those that a unit file has, or if the file is larger
// than 256 KiB or has more than 4096 options.
func Parse(content string) ([]Option, error) {
	if len(content) > maxBytes {
		return nil, fmt.Errorf("the unit has more than %d bytes", maxBytes)
	}
	var options []Option
	section := ""
	lines := strings.Split(strings.ReplaceAll(content, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "":
		case line[0] == '#' || line[0] == ';':
			options = append(options, Option{Section: section, Value: line})
		case line[0] == '[':
			name, closed := strings.CutSuffix(line[1:], "]")
			if !closed || name == "" || strings.ContainsAny(name, "[]") {
				return nil, fmt.Errorf("line %d is no section: %s", i+1, untrusted.Name(line))
			}
			section = name
		default:
			first := i
			for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
				i++
				next := strings.TrimRight(lines[i], " \t")
				if text := strings.TrimSpace(next); text != "" && (text[0] == '#' || text[0] == ';') {
					return nil, fmt.Errorf("line %d is a comment inside of an option", i+1)
				}
				line += "\n" + next
			}
			name, value, is := strings.Cut(line, "=")
			name = strings.TrimSpace(name)
			if !is || name == "" || strings.ContainsAny(name, "\n\\") || section == "" {
				return nil, fmt.Errorf("line %d is no option of a section: %s", first+1, untrusted.Name(lines[first]))
			}
			options = append(options, Option{Section: section, Name: name, Value: trimmed(value)})
		}
		if len(options) > maxOptions {
			return nil, fmt.Errorf("the unit has more than %d options", maxOptions)
		}
	}
	return options, nil
}

// trimmed is a value without blanks around it, and without a backslash at its end: nothing follows that it would
// continue with, but when the value is written again, something might.
func trimmed(value string) string {
	value = strings.TrimSpace(value)
	for strings.HasSuffix(value, `\`) {
		value = strings.TrimSpace(strings.TrimSuffix(value, `\`))
	}
	return value
}

// Format writes a unit file. Options of a section that do not follow each other get a heading each.
func Format(options []Option) string {
	var out strings.Builder
	section := ""
	for i, o := range options {
		if o.Section != section {
			if i > 0 {
				out.WriteByte('\n')
			}
			out.WriteString("[" + o.Section + "]\n")
			section = o.Section
		}
		if o.Name != "" {
			out.WriteString(o.Name + "=")
		}
		out.WriteString(o.Value + "\n")
	}
	return out.String()
}
