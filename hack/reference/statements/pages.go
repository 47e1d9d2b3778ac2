package statements

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Generated is the name of the page that Index writes.
const Generated = "tests.md"

// ID is the number of a statement, such as MR-5.
type ID struct {
	Group  string
	Number int
}

func (id ID) String() string { return fmt.Sprintf("%s-%d", id.Group, id.Number) }

// Compare orders statements by their group, and then by their number.
func (id ID) Compare(other ID) int {
	return cmp.Or(strings.Compare(id.Group, other.Group), cmp.Compare(id.Number, other.Number))
}

// Statement is an item of a page.
type Statement struct {
	ID ID
	// Section is the heading above it.
	Section string
	// Tests are those that it names itself.
	Tests []string
	// NoTest is why there is no test; empty if there has to be one.
	NoTest string
}

// Page is a page with statements.
type Page struct {
	Name       string
	Title      string
	Statements []Statement
}

var (
	item    = regexp.MustCompile(`^- \*\*([A-Z]+)-(\d+)\*\* (.*)`)
	named   = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	noTest  = regexp.MustCompile(`(?s)No test: (.+?)\.?$`)
	testsOf = regexp.MustCompile(`(?s)Tests?: (.*)$`)
)

// Read reads the statements of all pages of a folder.
func Read(dir string) ([]Page, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return nil, err
	}
	var pages []Page
	seen := map[ID]string{}
	for _, file := range files {
		if filepath.Base(file) == Generated {
			continue
		}
		text, err := os.ReadFile(file) //nolint:gosec // a page of the repository
		if err != nil {
			return nil, err
		}
		page := parse(filepath.Base(file), string(text))
		for _, s := range page.Statements {
			if other, ok := seen[s.ID]; ok {
				return nil, fmt.Errorf("%s is in %s and in %s", s.ID, other, page.Name)
			}
			seen[s.ID] = page.Name
		}
		if len(page.Statements) > 0 {
			pages = append(pages, page)
		}
	}
	return pages, nil
}

func parse(name, text string) Page {
	page := Page{Name: name}
	section := ""
	var id ID
	var body strings.Builder
	end := func() {
		if id != (ID{}) {
			page.Statements = append(page.Statements, statement(id, section, body.String()))
		}
		id = ID{}
		body.Reset()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "# "):
			page.Title = strings.TrimPrefix(line, "# ")
		case strings.HasPrefix(line, "## "):
			end()
			section = strings.TrimPrefix(line, "## ")
		case strings.HasPrefix(line, "- ") || line == "":
			end()
			if match := item.FindStringSubmatch(line); match != nil {
				number, _ := strconv.Atoi(match[2])
				id = ID{Group: match[1], Number: number}
				body.WriteString(match[3])
			}
		default:
			body.WriteString(" " + strings.TrimSpace(line))
		}
	}
	end()
	slices.SortFunc(page.Statements, func(a, b Statement) int { return a.ID.Compare(b.ID) })
	return page
}

func statement(id ID, section, body string) Statement {
	s := Statement{ID: id, Section: section}
	if match := noTest.FindStringSubmatch(body); match != nil {
		s.NoTest = match[1]
		return s
	}
	if match := testsOf.FindStringSubmatch(body); match != nil {
		for _, test := range named.FindAllStringSubmatch(match[1], -1) {
			s.Tests = append(s.Tests, test[1])
		}
	}
	return s
}
