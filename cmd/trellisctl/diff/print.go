package diff

import (
	"fmt"
	"io"
	"math"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// signs are how actions are shown, in the order of the summary.
var signs = []struct {
	action Action
	sign   string
	words  string
}{
	{Create, "+", "to create"}, {Change, "~", "to change"}, {Recreate, "±", "to delete and create again"},
	{Delete, "-", "to delete"},
	{Keep, "=", "to leave as it is"}, {Fail, "!", "would fail"}, {Nothing, "", "unchanged"},
}

func (d *differ) print(reports []*Report) error {
	if d.output.Structured() {
		if len(reports) == 1 {
			return d.output.Encode(d.env.Out, reports[0])
		}
		return d.output.Encode(d.env.Out, reports)
	}
	for _, r := range reports {
		if d.output.Format == cli.FormatName {
			for _, difference := range r.Differences {
				if difference.Action != Nothing {
					fmt.Fprintln(d.env.Out, cli.Text(difference.Object))
				}
			}
			continue
		}
		if err := d.people(r); err != nil {
			return err
		}
	}
	return nil
}

func (d *differ) people(r *Report) error {
	style := d.env.Style(d.env.Out)
	fmt.Fprintln(d.env.Out, style.Strong(fmt.Sprintf("ManagedResource %s/%s in target %s", r.Namespace, r.Name, r.Target)))
	for _, problem := range r.Problems {
		fmt.Fprintln(d.env.Out, style.Bad("! "+cli.Indent(problem, "  ")))
	}
	for i := range r.Differences {
		if err := d.difference(&r.Differences[i], style); err != nil {
			return err
		}
	}
	var parts []string
	for _, s := range signs {
		if n := r.Summary[s.action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.words))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no objects"}
	}
	fmt.Fprintln(d.env.Out, style.Strong(strings.Join(parts, ", ")))
	return nil
}

func (d *differ) difference(difference *Difference, style cli.Style) error {
	if difference.Action == Nothing && len(difference.Notes) == 0 && d.output.Format != cli.FormatWide {
		return nil
	}
	sign, paint := " ", func(text string) string { return text }
	for _, s := range signs {
		if s.action == difference.Action && s.sign != "" {
			sign = s.sign
		}
	}
	switch difference.Action {
	case Create:
		paint = style.Good
	case Delete, Fail:
		paint = style.Bad
	case Change, Recreate:
		paint = style.Warn
	}
	fmt.Fprintln(d.env.Out, paint(sign+" "+cli.Text(difference.Object)))
	for _, note := range difference.Notes {
		fmt.Fprintln(d.env.Out, "    "+style.Faint("# "+cli.Indent(note, "    # ")))
	}
	rest := &excerpt{out: d.env.Out, style: style, lines: shownLines, width: shownWidth}
	if d.full {
		rest.lines, rest.width = math.MaxInt, math.MaxInt
	}
	if difference.New != nil {
		raw, err := yaml.Marshal(difference.New)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", difference.Object, err)
		}
		for line := range strings.Lines(cli.Text(string(raw))) {
			rest.print(style.Good("    + " + rest.cut(strings.TrimRight(line, "\n"))))
		}
	}
	for _, f := range difference.Fields {
		rest.field(f)
	}
	rest.end()
	return nil
}

const (
	// shownLines is how many lines are printed of an object unless all are asked for, shownWidth how many bytes of a
	// line or value.
	shownLines = 50
	shownWidth = 500
)

// excerpt prints the beginning of the differences of an object: a definition alone may have a hundred thousand lines.
type excerpt struct {
	out   io.Writer
	style cli.Style
	// lines is how many more lines are printed, width their maximum length.
	lines, width int
	// omitted is how many lines were not printed, and shortened how many were cut.
	omitted, shortened int
}

// print prints a line, if it is one of the first.
func (e *excerpt) print(line string) {
	if e.lines == 0 {
		e.omitted++
		return
	}
	e.lines--
	fmt.Fprintln(e.out, line)
}

// cut returns the beginning of a text.
func (e *excerpt) cut(text string) string {
	if len(text) <= e.width {
		return text
	}
	e.shortened++
	return strings.ToValidUTF8(text[:e.width], "") + "..."
}

// end prints what was omitted.
func (e *excerpt) end() {
	var left []string
	if e.omitted > 0 {
		left = append(left, cli.Count(e.omitted, "line")+" more")
	}
	if e.shortened > 0 {
		left = append(left, cli.Count(e.shortened, "long line")+" cut")
	}
	if len(left) > 0 {
		fmt.Fprintln(e.out, "    "+e.style.Faint("# "+strings.Join(left, ", ")+"; --full prints all"))
	}
}

func (e *excerpt) field(f Field) {
	before, beforeIsText := f.From.(string)
	after, afterIsText := f.To.(string)
	value := func(v any) string { return e.cut(render(v)) }
	switch {
	case f.From == nil:
		e.print(e.style.Good(fmt.Sprintf("    + %s: %s", f.Path, value(f.To))))
	case f.To == nil:
		e.print(e.style.Bad(fmt.Sprintf("    - %s: %s", f.Path, value(f.From))))
	case beforeIsText && afterIsText && (strings.Contains(before, "\n") || strings.Contains(after, "\n")):
		e.text(f.Path, before, after)
	default:
		e.print(fmt.Sprintf("    ~ %s: %s -> %s", f.Path, e.style.Bad(value(f.From)), e.style.Good(value(f.To))))
	}
}

// text shows a text of several lines without its common beginning and end.
func (e *excerpt) text(path, before, after string) {
	b, a := strings.Split(before, "\n"), strings.Split(after, "\n")
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	end := 0
	for end < min(len(a), len(b))-same && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	e.print(fmt.Sprintf("    ~ %s, from line %d:", path, same+1))
	for _, line := range b[same : len(b)-end] {
		e.print(e.style.Bad("      - " + e.cut(cli.Text(line))))
	}
	for _, line := range a[same : len(a)-end] {
		e.print(e.style.Good("      + " + e.cut(cli.Text(line))))
	}
}
