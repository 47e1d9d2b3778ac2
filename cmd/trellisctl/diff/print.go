package diff

import (
	"fmt"
	"slices"
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
	{Create, "+", "to create"}, {Change, "~", "to change"}, {Recreate, "±", "to delete and create again"}, {Delete, "-", "to delete"},
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
	if difference.New != nil {
		raw, err := yaml.Marshal(difference.New)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", difference.Object, err)
		}
		for line := range strings.Lines(cli.Text(string(raw))) {
			fmt.Fprintln(d.env.Out, style.Good("    + "+strings.TrimRight(line, "\n")))
		}
	}
	for _, f := range difference.Fields {
		d.field(f, style)
	}
	return nil
}

func (d *differ) field(f Field, style cli.Style) {
	before, beforeIsText := f.From.(string)
	after, afterIsText := f.To.(string)
	switch {
	case f.From == nil:
		fmt.Fprintln(d.env.Out, style.Good(fmt.Sprintf("    + %s: %s", f.Path, render(f.To))))
	case f.To == nil:
		fmt.Fprintln(d.env.Out, style.Bad(fmt.Sprintf("    - %s: %s", f.Path, render(f.From))))
	case beforeIsText && afterIsText && (strings.Contains(before, "\n") || strings.Contains(after, "\n")):
		d.lines(f.Path, before, after, style)
	default:
		fmt.Fprintf(d.env.Out, "    ~ %s: %s -> %s\n", f.Path, style.Bad(render(f.From)), style.Good(render(f.To)))
	}
}

// lines shows a text of several lines without what is the same at its beginning and at its end.
func (d *differ) lines(path, before, after string, style cli.Style) {
	b, a := strings.Split(before, "\n"), strings.Split(after, "\n")
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	end := 0
	for end < min(len(a), len(b))-same && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	fmt.Fprintf(d.env.Out, "    ~ %s, from line %d:\n", path, same+1)
	for _, line := range slices.Clone(b[same : len(b)-end]) {
		fmt.Fprintln(d.env.Out, style.Bad("      - "+cli.Text(line)))
	}
	for _, line := range slices.Clone(a[same : len(a)-end]) {
		fmt.Fprintln(d.env.Out, style.Good("      + "+cli.Text(line)))
	}
}
