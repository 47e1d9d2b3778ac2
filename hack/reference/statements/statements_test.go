package statements_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/reference/statements"
)

const (
	page = `# Things

Text with **MR-9** in it.

## Some, of them

- **MR-1** Something is applied.
- **MR-2** Something else is,
  in two lines. Tests: ` + "`TestNamed`" + `,
  ` + "`TestNamedToo`" + `.

## The others

- **W-1** It costs too much. No test: it is a matter
  of the chart.
`
	tests = `package things

// TestMR01_W22 ...
func TestMR01_Applied(t *testing.T) {}

func TestNamed(t *testing.T) {}

func TestNamedToo(t *testing.T) {}
`
	index = `
## Things

- [MR-1](things.md#some-of-them):
  - things: ` + "`TestMR01_Applied`" + `
- [MR-2](things.md#some-of-them):
  - things: ` + "`TestNamed`, `TestNamedToo`" + `
- [W-1](things.md#the-others): none, it is a matter of the chart
`
)

// repository has a page and files of a package "things".
func repository(t *testing.T, page string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files["docs/things.md"] = page
	for name, content := range files {
		path := filepath.Join(root, name)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return root
}

func indexOf(t *testing.T, root string) (string, error) {
	t.Helper()
	g := NewWithT(t)
	pages, err := statements.Read(filepath.Join(root, "docs"))
	g.Expect(err).NotTo(HaveOccurred())
	sources, err := statements.Scan(root, pages)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := statements.Index(pages, sources)
	return string(text), err
}

func TestIndex(t *testing.T) {
	g := NewWithT(t)
	text, err := indexOf(t, repository(t, page, map[string]string{"things/things_test.go": tests}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(HaveSuffix(index))
}

// mentions are those of a test file, of the groups MR, W, X, H and B.
func mentions(t *testing.T, code string) []statements.Mention {
	t.Helper()
	g := NewWithT(t)
	root := repository(t, page+"- **X-1** One.\n- **H-1** One.\n- **B-1** One.\n",
		map[string]string{"a_test.go": "package a\n\n" + code + "\n"})
	pages, err := statements.Read(filepath.Join(root, "docs"))
	g.Expect(err).NotTo(HaveOccurred())
	sources, err := statements.Scan(root, pages)
	g.Expect(err).NotTo(HaveOccurred())
	return sources.Mentions
}

func TestWhatMentionsAStatement(t *testing.T) {
	for name, code := range map[string]string{
		"the name":                           "func TestMR1_A(t *testing.T) {}",
		"the name, with zeros":               "func TestMR01_A(t *testing.T) {}",
		"the name, without a separator":      "func TestMR01Applied(t *testing.T) {}",
		"the middle of the name":             "func TestSome_W1_MR1_A(t *testing.T) {}",
		"the name of a fuzz test":            "func FuzzMR1_A(f *testing.F) {}",
		"a comment on it":                    "// MR-1: so it is.\nfunc TestA(t *testing.T) {}",
		"a comment in it":                    "func TestA(t *testing.T) {\n\t// MR-1\n}",
		"a case, with a hyphen":              "func TestA(t *testing.T) { _ = `MR-1, empty` }",
		"a case, without":                    "func TestA(t *testing.T) { _ = `MR1 is empty` }",
		"a comment on it, as one of several": "// W-1, MR-1 and so on.\nfunc TestA(t *testing.T) {}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(mentions(t, code)).To(ContainElement(And(
				HaveField("ID", statements.ID{Group: "MR", Number: 1}), HaveField("Test", Not(BeNil())))))
		})
	}
}

func TestWhatMentionsNone(t *testing.T) {
	for name, code := range map[string]string{
		"a number of three digits":  "func TestX509(t *testing.T) {}",
		"another word":              "func TestHTTP2(t *testing.T) {}",
		"a group that no page has":  "func TestGC1_A(t *testing.T) {}",
		"a licence":                 "// MPL-2 it is.\nfunc TestA(t *testing.T) {}",
		"a text that continues":     "func TestA(t *testing.T) { _ = `B1G` }",
		"a text with it at the end": "func TestA(t *testing.T) { _ = `of H1` }",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(mentions(t, code)).To(BeEmpty())
		})
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ page, code, says string }{
		"a statement without a test": {
			page + "- **MR-3** Something is tried.\n", tests, "things.md: MR-3 has no test and does not say why",
		},
		"a test of a statement that is none": {
			page, tests + "\nfunc TestMR07_Gone(t *testing.T) {}\n",
			"things/things_test.go:10: MR-7 is a statement that no page",
		},
		"a comment about a statement that is none": {
			page, tests + "\n// As in MR-8.\nvar a int\n", "things/things_test.go:10: MR-8",
		},
		"a test that does not exist": {
			page + "- **MR-3** Tests: `TestGone`.\n", tests, "MR-3 names TestGone, which does not exist",
		},
		"a reason beside a test": {
			page, tests + "\nfunc TestW01_Costs(t *testing.T) {}\n", "W-1 says why it has no test, and TestW01_Costs covers it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := indexOf(t, repository(t, c.page, map[string]string{"things/things_test.go": c.code}))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
}

func TestNumbersAreUnique(t *testing.T) {
	root := repository(t, page, map[string]string{"docs/more.md": "# More\n\n- **MR-1** Again.\n"})
	_, err := statements.Read(filepath.Join(root, "docs"))
	NewWithT(t).Expect(err).To(MatchError("MR-1 is in more.md and in things.md"))
}
