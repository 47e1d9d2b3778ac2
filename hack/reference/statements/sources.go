package statements

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Test is a test function.
type Test struct {
	// Package is its folder in the repository.
	Package string
	Name    string
}

// Mention is a place where a statement is mentioned.
type Mention struct {
	ID ID
	// Where is file:line.
	Where string
	// Test is the one that the place belongs to; nil if it belongs to none.
	Test *Test
}

// Sources is what the source of a repository has of tests.
type Sources struct {
	Tests    []Test
	Mentions []Mention
}

// patterns are how statements are mentioned. Numbers have two digits at most, so that X509 is none.
type patterns struct {
	name, comment, testCase *regexp.Regexp
}

// patternsOf are those for the groups of statements that the pages have.
func patternsOf(pages []Page) patterns {
	known := map[string]bool{}
	for _, p := range pages {
		for _, s := range p.Statements {
			known[s.ID.Group] = true
		}
	}
	groups := `(` + strings.Join(slices.Sorted(maps.Keys(known)), "|") + `)`
	return patterns{
		name:     regexp.MustCompile(`^` + groups + `(\d{1,2})(?:[A-Z]|$)`),
		comment:  regexp.MustCompile(`\b` + groups + `-(\d{1,2})\b`),
		testCase: regexp.MustCompile(`^` + groups + `-?(\d{1,2})[ ,:]`),
	}
}

// Scan reads all Go files below a folder: tests with the statements that they mention, and comments of everything
// else. Statements are those of the groups that the pages have, whether or not there is one with the number. Folders
// for what is built and test data are left out, and so are those with the names given.
func Scan(root string, pages []Page, without ...string) (*Sources, error) {
	found := &Sources{}
	mentioned := patternsOf(pages)
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			hidden := strings.HasPrefix(entry.Name(), ".") && path != root
			if hidden || entry.Name() == "bin" || entry.Name() == "testdata" || slices.Contains(without, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found.read(set, root, filepath.ToSlash(folder), file, mentioned)
		return nil
	})
	return found, err
}

func (s *Sources) read(set *token.FileSet, root, folder string, file *ast.File, mentioned patterns) {
	isTest := strings.HasSuffix(set.Position(file.Pos()).Filename, "_test.go")
	where := func(pos token.Pos) string {
		p := set.Position(pos)
		name, _ := filepath.Rel(root, p.Filename)
		return filepath.ToSlash(name) + ":" + strconv.Itoa(p.Line)
	}
	type span struct {
		from, to token.Pos
		test     *Test
	}
	var tests []span
	if isTest {
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Recv != nil || !isTestName(function.Name.Name) {
				continue
			}
			test := &Test{Package: folder, Name: function.Name.Name}
			from := function.Pos()
			if function.Doc != nil {
				from = function.Doc.Pos()
			}
			s.Tests = append(s.Tests, *test)
			tests = append(tests, span{from, function.End(), test})
			for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(test.Name, "Test"), "Fuzz"), "_") {
				if match := mentioned.name.FindStringSubmatch(part); match != nil {
					s.mention(match, where(function.Pos()), test)
				}
			}
		}
	}
	testAt := func(pos token.Pos) *Test {
		for _, t := range tests {
			if t.from <= pos && pos < t.to {
				return t.test
			}
		}
		return nil
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			for _, match := range mentioned.comment.FindAllStringSubmatch(comment.Text, -1) {
				s.mention(match, where(comment.Pos()), testAt(comment.Pos()))
			}
		}
	}
	if !isTest {
		return
	}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return true
		}
		if match := mentioned.testCase.FindStringSubmatch(text); match != nil {
			s.mention(match, where(literal.Pos()), testAt(literal.Pos()))
		}
		return true
	})
}

func (s *Sources) mention(match []string, where string, test *Test) {
	number, _ := strconv.Atoi(match[2])
	s.Mentions = append(s.Mentions, Mention{ID: ID{Group: match[1], Number: number}, Where: where, Test: test})
}

func isTestName(name string) bool {
	return strings.HasPrefix(name, "Test") && name != "TestMain" || strings.HasPrefix(name, "Fuzz")
}
