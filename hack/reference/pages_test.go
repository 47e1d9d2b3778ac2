package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	. "github.com/onsi/gomega"
)

// root is that of the repository, seen from here.
const root = "../.."

// TestAPIPagesAreUpToDate holds the pages of the API against the types; "make lint" does so with all that is
// generated, and takes longer.
func TestAPIPagesAreUpToDate(t *testing.T) {
	g := NewWithT(t)
	pages, err := apiPages(root)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pages).To(HaveLen(3))
	for name, content := range pages {
		file, err := os.ReadFile(filepath.Join(root, "docs", "reference", name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(file, content)).To(BeTrue(), "docs/reference/%s is out of date: run make generate", name)
	}
}

// TestStatementsHaveTests: each statement of docs/compatibility has a test or a reason, no test mentions one that
// does not exist, and the index says so.
func TestStatementsHaveTests(t *testing.T) {
	g := NewWithT(t)
	page, err := testsPage(root)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Count(page, []byte("]("))).To(BeNumerically(">", 100), "too few statements were found")
	upToDate := read(t, filepath.Join("docs", testsFile)) == string(page) // a difference would print the whole page
	g.Expect(upToDate).To(BeTrue(), "docs/%s is out of date: run make generate", testsFile)
}

// TestPagesOfConditionsNameAll: each condition and reason is on the page that says what to do about it.
func TestPagesOfConditionsNameAll(t *testing.T) {
	g := NewWithT(t)
	named := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|")
	_, tables, ok := strings.Cut(read(t, "docs/reference/conditions.md"), "\n## ")
	g.Expect(ok).To(BeTrue())
	resources, hub, ok := strings.Cut(tables, "\n## ")
	g.Expect(ok).To(BeTrue())
	for page, generated := range map[string]string{"managedresource.md": resources, "targetcluster.md": hub} {
		text := read(t, "docs/reference/"+page)
		all := named.FindAllStringSubmatch(generated, -1)
		g.Expect(len(all)).To(BeNumerically(">", 20))
		for _, name := range all {
			quoted := regexp.MustCompile("`[^`]*\\b" + name[1] + "\\b[^`]*`")
			g.Expect(strings.Contains(text, "`"+name[1]+"`") || quoted.MatchString(text)).
				To(BeTrue(), "docs/reference/%s does not name %s", page, name[1])
		}
	}
}

// TestKeysAreDocumented: each annotation, label and finalizer that a program of this repository knows is on the page
// of keys, and each that a page names exists.
func TestKeysAreDocumented(t *testing.T) {
	g := NewWithT(t)
	page := read(t, "docs/reference/annotations.md")
	key := regexp.MustCompile(
		`^(hub|resources|care|confirmation|reference\.resources)\.gardener\.cloud/[a-z-]+$|^gardener\.cloud/operation$`)
	known := 0
	for _, folder := range []string{"apis", "clustercache", "controllers", "cmd", "engine", "leader"} {
		for _, file := range files(t, folder, ".go") {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, literal := range literals(t, file) {
				if key.MatchString(literal) && literal != "hub.gardener.cloud/target" { // the name of an index
					known++
					g.Expect(page).To(ContainSubstring("`"+literal+"`"),
						"%s: a key that docs/reference/annotations.md does not have", file)
				}
			}
		}
	}
	g.Expect(known).To(BeNumerically(">", 20))

	mentioned := regexp.MustCompile("`((?:hub|resources|care)\\.gardener\\.cloud/[a-z-]+)[`=:]")
	for _, file := range pages(t) {
		for _, match := range mentioned.FindAllStringSubmatch(read(t, file), -1) {
			if match[1] == "resources.gardener.cloud/class" { // the token requestor's
				continue
			}
			g.Expect(page).To(ContainSubstring("`"+match[1]+"`"), "%s names a key that does not exist", file)
		}
	}
}

// TestNamedTestsExist: a page that says where something is tested is right.
func TestNamedTestsExist(t *testing.T) {
	g := NewWithT(t)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	exist := map[string]bool{}
	for _, folder := range []string{
		"addresses", "apis", "charts", "clustercache", "cmd", "controllers", "e2e", "engine", "fairqueue", "hack", "leader",
		"metrics", "semaphore", "untrusted", "version", "webhooks",
	} {
		for _, file := range files(t, folder, ".go") {
			if strings.HasSuffix(file, "_test.go") {
				for _, match := range declared.FindAllStringSubmatch(read(t, file), -1) {
					exist[match[1]] = true
				}
			}
		}
	}
	named := regexp.MustCompile("`(Test[A-Z0-9]\\w*[a-z])`")
	found := 0
	for _, file := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(read(t, file), -1) {
			found++
			g.Expect(exist[match[1]]).To(BeTrue(), "%s names %s, which does not exist", file, match[1])
		}
	}
	g.Expect(found).To(BeNumerically(">", 30))
}

// TestLinks follows every relative link of every page, to its heading.
func TestLinks(t *testing.T) {
	g := NewWithT(t)
	link := regexp.MustCompile(`\]\(([^()\s]+)\)`)
	followed := 0
	for _, file := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(withoutCode(read(t, file)), -1) {
			target, anchor, hasAnchor := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			followed++
			path := file
			if target != "" {
				path = filepath.Join(filepath.Dir(file), target)
			}
			_, err := os.Stat(filepath.Join(root, path))
			g.Expect(err).NotTo(HaveOccurred(), "%s links to %s", file, match[1])
			if hasAnchor {
				g.Expect(anchors(read(t, path))).To(ContainElement(anchor), "%s links to %s", file, match[1])
			}
		}
	}
	g.Expect(followed).To(BeNumerically(">", 50))
}

// TestPagesAgreeOnMemory: what sizes a hub is what was measured.
func TestPagesAgreeOnMemory(t *testing.T) {
	g := NewWithT(t)
	measured := regexp.MustCompile(`an object takes about ([\d.]+ KB), a watch about ([\d.]+ KB) with its stacks, and a ` +
		`target\s+without them ([\d.]+ KB)`).FindStringSubmatch(
		strings.Join(strings.Fields(read(t, "docs/explanation/memory.md")), " "))
	g.Expect(measured).To(HaveLen(4))
	sizing := read(t, "docs/explanation/sizing.md")
	for i, row := range []string{"managed object", "watch: a kind in use in a target", "target"} {
		g.Expect(sizing).To(MatchRegexp(`(?m)^\| %s \| %s\b`, row, regexp.QuoteMeta(measured[i+1])))
	}
}

// TestPagesPromiseColumnsThatThereAre: a page that names columns of kubectl is right.
func TestPagesPromiseColumnsThatThereAre(t *testing.T) {
	g := NewWithT(t)
	page := read(t, "docs/how-to/what-is-it-doing.md")
	for command, file := range map[string]string{
		"kubectl get mr -A": "resources.gardener.cloud_managedresources.yaml",
		"kubectl get tc -A": "hub.gardener.cloud_targetclusters.yaml",
	} {
		promised := regexp.MustCompile("(?m)^\\| `" + command + "` \\|[^|]*: ([^|]*)\\|").FindStringSubmatch(page)
		g.Expect(promised).To(HaveLen(2), command)
		crd := strings.ToUpper(read(t, "charts/trellis/files/crds/"+file))
		columns := regexp.MustCompile("`([A-Z ]+)`").FindAllStringSubmatch(promised[1], -1)
		g.Expect(columns).To(HaveLen(2))
		for _, column := range columns {
			g.Expect(crd).To(ContainSubstring("      NAME: "+column[1]+"\n"), "%s does not show it", command)
		}
	}
}

// TestReadmeShowsWhatStatusPrints: the picture of the fleet is what "trellisctl status" prints, with long lines cut.
func TestReadmeShowsWhatStatusPrints(t *testing.T) {
	g := NewWithT(t)
	_, picture, found := strings.Cut(read(t, "README.md"), "```console\n")
	g.Expect(found).To(BeTrue())
	picture, _, _ = strings.Cut(picture, "```")
	printed, _, _ := strings.Cut(read(t, "cmd/trellisctl/app/testdata/fleet/3/status.txt"), "--- exit code")
	shown := strings.Split(picture, "\n")
	for i, line := range strings.Split(printed, "\n") {
		g.Expect(i).To(BeNumerically("<", len(shown)), "README.md has fewer lines")
		if begin, cut := strings.CutSuffix(shown[i], "..."); cut {
			line = line[:min(len(line), len(begin))] + "..."
		}
		g.Expect(shown[i]).To(Equal(line), "README.md, line %d of the picture", i+1)
	}
}

// TestPagesAreMerged: a page with the marks of a conflict of git says two things at once.
func TestPagesAreMerged(t *testing.T) {
	marks := regexp.MustCompile(`(?m)^(<{7}|>{7}|\|{7}) `)
	for _, file := range pages(t) {
		NewWithT(t).Expect(marks.FindString(read(t, file))).To(BeEmpty(), "%s was merged halfway", file)
	}
}

// TestIndexNamesAllPages: a page that neither the index nor the index of its folder leads to is not found by readers.
func TestIndexNamesAllPages(t *testing.T) {
	g := NewWithT(t)
	const index = "docs/README.md"
	for _, file := range files(t, "docs", ".md") {
		if file == index {
			continue
		}
		name := strings.TrimPrefix(file, "docs/")
		led := strings.Contains(read(t, index), "("+name+")")
		folder := filepath.Join(filepath.Dir(file), "README.md")
		if _, err := os.Stat(filepath.Join(root, folder)); err == nil && !led && folder != file {
			led = strings.Contains(read(t, folder), "("+filepath.Base(file)+")")
		}
		g.Expect(led).To(BeTrue(), "%s does not lead to %s", index, file)
	}
}

// TestMapNamesAllFolders: the map of the repository has every folder that holds code.
func TestMapNamesAllFolders(t *testing.T) {
	g := NewWithT(t)
	page := read(t, "docs/development/README.md")
	for _, parent := range []string{"", "e2e"} {
		entries, err := os.ReadDir(filepath.Join(root, parent))
		g.Expect(err).NotTo(HaveOccurred())
		for _, entry := range entries {
			folder := filepath.Join(parent, entry.Name())
			if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || folder == "bin" || len(files(t, folder, ".go")) == 0 {
				continue
			}
			g.Expect(page).To(MatchRegexp("`"+folder+"[/`]"), "docs/development/README.md does not name %s", folder)
		}
	}
}

// narrow are the pages whose lines fit beside code: 120 bytes, but for tables, code and what is generated.
var narrow = []string{
	"CONTRIBUTING.md", "README.md", "docs/README.md", "docs/compatibility", "docs/development", "docs/explanation",
	"docs/runbooks.md",
}

func TestLinesAreNarrow(t *testing.T) {
	for _, file := range pages(t) {
		if !slices.ContainsFunc(narrow, func(p string) bool { return file == p || strings.HasPrefix(file, p+"/") }) {
			continue
		}
		number := 0
		for line := range strings.Lines(read(t, file)) {
			number++
			if len(line) > 121 && !strings.HasPrefix(strings.TrimSpace(line), "|") {
				t.Errorf("%s:%d has %d bytes", file, number, len(line)-1)
			}
		}
	}
}

// TestPackagesAreDocumented: each package has a doc.go with the comment on it.
func TestPackagesAreDocumented(t *testing.T) {
	without := []string{ // their comment stands in another file
		"clustercache/fake", "clustercache/internal/stream", "clustercache/internal/transport", "cmd/trellis",
		"hack/fleetsim/cmd",
	}
	g := NewWithT(t)
	folders := map[string]bool{}
	for _, parent := range []string{
		"addresses", "charts", "clustercache", "cmd", "controllers", "e2e", "engine", "fairqueue", "hack", "leader",
		"metrics", "semaphore", "untrusted", "version", "webhooks",
	} {
		for _, file := range files(t, parent, ".go") {
			if !strings.Contains(file, "/testdata/") && !strings.HasSuffix(file, "_test.go") {
				folders[filepath.Dir(file)] = true
			}
		}
	}
	g.Expect(len(folders)).To(BeNumerically(">", 50))
	for folder := range folders {
		_, err := os.Stat(filepath.Join(root, folder, "doc.go"))
		g.Expect(err == nil || slices.Contains(without, folder)).To(BeTrue(), "%s has no doc.go", folder)
	}
}

func TestAnchors(t *testing.T) {
	g := NewWithT(t)
	page := "# A page\n\n## What's `new`, and why?\n\n```\n## not a heading\n```\n\n## Same\n\n## Same\n"
	g.Expect(anchors(page)).To(Equal([]string{"a-page", "whats-new-and-why", "same", "same-1"}))
}

// pages are the documents that people read.
func pages(t *testing.T) []string {
	t.Helper()
	all := files(t, "docs", ".md")
	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, file := range top {
		all = append(all, filepath.Base(file))
	}
	return append(all, files(t, "charts", ".md")...)
}

// files are those of a folder, by their paths in the repository.
func files(t *testing.T, folder, extension string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && filepath.Ext(path) == extension {
			path, err = filepath.Rel(root, path)
			all = append(all, path)
		}
		return err
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// literals are the strings of a Go file.
func literals(t *testing.T, file string) []string {
	t.Helper()
	set := token.NewFileSet()
	content := []byte(read(t, file))
	_, err := parser.ParseFile(set, file, content, parser.PackageClauseOnly)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var all []string
	var s scanner.Scanner
	s.Init(set.AddFile(file, -1, len(content)), content, nil, 0)
	for {
		_, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return all
		case token.STRING:
			if literal, err := strconv.Unquote(text); err == nil {
				all = append(all, literal)
			}
		}
	}
}

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```\\s*?$")
	inline = regexp.MustCompile("`[^`\n]*`")
)

// withoutCode leaves code out, in which brackets are no links.
func withoutCode(page string) string {
	return inline.ReplaceAllString(fenced.ReplaceAllString(page, ""), "``")
}

// anchors are what links to the headings of a page end in, by the rules of GitHub.
func anchors(page string) []string {
	var all []string
	for line := range strings.Lines(fenced.ReplaceAllString(page, "")) {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(heading))
		unique := anchor
		for i := 1; slices.Contains(all, unique); i++ {
			unique = fmt.Sprintf("%s-%d", anchor, i)
		}
		all = append(all, unique)
	}
	return all
}
