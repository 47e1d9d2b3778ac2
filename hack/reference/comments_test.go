package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// selfContained are the folders whose comments refer to nothing that a reader of the repository cannot open.
var selfContained = []string{
	"addresses", "apis", "charts", "clustercache", "cmd", "controllers", "e2e", "engine", "fairqueue", "hack", "leader",
	"metrics", "semaphore", "untrusted", "version", "webhooks",
}

var (
	// namedFile is a file that a text names.
	namedFile = regexp.MustCompile(`[\w./-]*\b\w[\w-]*\.(?:md|go|sh)\b(?:/\w)?`)
	// namedPath is a path in the repository that a page names.
	namedPath = regexp.MustCompile("`([a-z][\\w.-]*(?:/[\\w.-]+)+/?)`")
	// elsewhere is what documents outside of the repository are called.
	elsewhere = regexp.MustCompile(
		`\b[Ss]pec [0-9]|\bof the specification\b|§|\b[Ii]ssue #?[0-9]|(?:^|\s)(?:spec|seeds)/`)
)

// TestCommentsReferToWhatIsThere: a file that a comment names exists, and numbers are those of docs/compatibility.
func TestCommentsReferToWhatIsThere(t *testing.T) {
	found := 0
	for _, folder := range selfContained {
		for _, file := range files(t, folder, ".go") {
			if strings.Contains(file, "/statements/") || strings.HasSuffix(file, "comments_test.go") { // examples
				continue
			}
			for _, comment := range comments(t, file) {
				if document := elsewhere.FindString(comment); document != "" {
					t.Errorf("%s refers to a document that is not here: %s", file, document)
				}
				for _, name := range namedFile.FindAllString(comment, -1) {
					if strings.HasPrefix(name, "helm.sh/") || strings.HasPrefix(name, "pkg.go") { // a key and a host
						continue
					}
					found++
					if !exists(filepath.Dir(file), name) {
						t.Errorf("%s names %s, which does not exist", file, name)
					}
				}
			}
		}
	}
	NewWithT(t).Expect(found).To(BeNumerically(">", 30))
}

// TestPagesReferToWhatIsThere is the same for pages.
func TestPagesReferToWhatIsThere(t *testing.T) {
	for _, file := range pages(t) {
		g, text := NewWithT(t), fenced.ReplaceAllString(read(t, file), "")
		g.Expect(elsewhere.FindString(text)).To(BeEmpty(), "%s refers to a document that is not here", file)
		for _, path := range namedPath.FindAllStringSubmatch(text, -1) {
			if top, _, _ := strings.Cut(path[1], "/"); top != "bin" && exists("", top) { // what is built is in bin
				g.Expect(exists("", path[1])).To(BeTrue(), "%s names %s, which does not exist", file, path[1])
			}
		}
	}
}

// exists reports whether a file is there that a text in a folder calls so: beside it, or by its path in the
// repository.
func exists(folder, name string) bool {
	for _, path := range []string{filepath.Join(folder, name), name} {
		if _, err := os.Stat(filepath.Join(root, path)); err == nil {
			return true
		}
	}
	return false
}

func comments(t *testing.T, file string) []string {
	t.Helper()
	path := filepath.Join(root, file)
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, group := range parsed.Comments {
		for _, comment := range group.List {
			all = append(all, comment.Text)
		}
	}
	return all
}
