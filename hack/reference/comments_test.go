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
	"addresses", "apis", "cmd/trellisctl", "engine", "hack/reference", "leader", "metrics", "semaphore", "untrusted",
	"version",
}

var (
	// namedFile is a file that a text names.
	namedFile = regexp.MustCompile(`[\w./-]*\b\w[\w-]*\.(?:md|go|sh)\b(?:/\w)?`)
	// elsewhere is what documents outside of the repository are called.
	elsewhere = regexp.MustCompile(
		`\b[Ss]pec [0-9]|\bof the specification\b|§|\b[Ii]ssue #?[0-9]|(?:^|\s)(?:spec|seeds)/`)
)

// TestCommentsReferToWhatIsThere: a file that a comment names exists, and numbers are those of docs/compatibility.
func TestCommentsReferToWhatIsThere(t *testing.T) {
	g := NewWithT(t)
	found := 0
	for _, folder := range selfContained {
		for _, file := range files(t, folder, ".go") {
			if strings.Contains(file, "/statements/") || strings.HasSuffix(file, "comments_test.go") { // examples
				continue
			}
			for _, comment := range comments(t, file) {
				g.Expect(elsewhere.FindString(comment)).To(BeEmpty(), "%s refers to a document that is not here", file)
				for _, name := range namedFile.FindAllString(comment, -1) {
					if strings.HasPrefix(name, "helm.sh/") { // a key
						continue
					}
					found++
					g.Expect(exists(filepath.Dir(file), name)).To(BeTrue(), "%s names %s, which does not exist", file, name)
				}
			}
		}
	}
	g.Expect(found).To(BeNumerically(">", 30))
}

// TestPagesReferToWhatIsThere is the same for pages.
func TestPagesReferToWhatIsThere(t *testing.T) {
	for _, file := range pages(t) {
		NewWithT(t).Expect(elsewhere.FindString(fenced.ReplaceAllString(read(t, file), ""))).
			To(BeEmpty(), "%s refers to a document that is not here", file)
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
