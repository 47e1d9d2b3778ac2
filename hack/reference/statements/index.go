package statements

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const head = `# Tests of each statement

<!-- Generated from the pages of this folder and the tests by "make generate". Do not edit. -->

[What statements are](README.md), and how tests mention them. Folders are those of the repository.
`

// Index returns the page of the tests that cover each statement. The error names each statement without a test or a
// reason, each mention of a statement that no page has, and each test that a page names and that does not exist.
func Index(pages []Page, sources *Sources) ([]byte, error) {
	var errs []error
	byName := map[string][]Test{}
	for _, t := range sources.Tests {
		byName[t.Name] = append(byName[t.Name], t)
	}
	covering := map[ID]map[Test]bool{}
	for _, p := range pages {
		for _, s := range p.Statements {
			covering[s.ID] = map[Test]bool{}
			for _, name := range s.Tests {
				if len(byName[name]) == 0 {
					errs = append(errs, fmt.Errorf("%s: %s names %s, which does not exist", p.Name, s.ID, name))
				}
				for _, t := range byName[name] {
					covering[s.ID][t] = true
				}
			}
		}
	}
	for _, m := range sources.Mentions {
		tests, known := covering[m.ID]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("%s: %s is a statement that no page of docs/compatibility has", m.Where, m.ID))
		case m.Test != nil:
			tests[*m.Test] = true
		}
	}

	out := bytes.NewBufferString(head)
	for _, p := range pages {
		fmt.Fprintf(out, "\n## %s\n\n", p.Title)
		for _, s := range p.Statements {
			tests := slices.SortedFunc(maps.Keys(covering[s.ID]), func(a, b Test) int {
				return cmp.Or(strings.Compare(a.Package, b.Package), strings.Compare(a.Name, b.Name))
			})
			link := fmt.Sprintf("[%s](%s#%s)", s.ID, p.Name, anchor(s.Section))
			switch {
			case len(tests) > 0 && s.NoTest != "":
				errs = append(errs, fmt.Errorf("%s: %s says why it has no test, and %s covers it", p.Name, s.ID, tests[0].Name))
			case len(tests) > 0:
				fmt.Fprintf(out, "- %s:%s\n", link, list(tests))
			case s.NoTest != "":
				fmt.Fprintf(out, "- %s: none, %s\n", link, s.NoTest)
			default:
				errs = append(errs, fmt.Errorf("%s: %s has no test and does not say why", p.Name, s.ID))
			}
		}
	}
	return out.Bytes(), errors.Join(errs...)
}

// width is that of a line.
const width = 118

// list has the tests of each package in an item of its own.
func list(tests []Test) string {
	var text, line strings.Builder
	for i, t := range tests {
		name := "`" + t.Name + "`"
		switch {
		case i == 0 || tests[i-1].Package != t.Package:
			text.WriteString(line.String())
			line.Reset()
			fmt.Fprintf(&line, "\n  - %s: %s", t.Package, name)
		case line.Len()+len(", ")+len(name) > width:
			text.WriteString(line.String() + ",")
			line.Reset()
			line.WriteString("\n    " + name)
		default:
			line.WriteString(", " + name)
		}
	}
	return text.String() + line.String()
}

// anchor is what a link to a heading ends in. Headings of pages of statements have letters, spaces and commas only.
func anchor(heading string) string {
	return strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(heading, ",", "")), " ", "-")
}
