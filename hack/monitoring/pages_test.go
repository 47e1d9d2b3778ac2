package monitoring_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const walkthrough = root + "/docs/how-to/what-is-it-doing.md"

var (
	blocks  = regexp.MustCompile("(?s)```.*?```")
	code    = regexp.MustCompile("`[^`]*`")
	quoted  = regexp.MustCompile(`"([A-Z][^"]*)"`)
	metric  = regexp.MustCompile(`\btrellis_[a-z0-9_]+`)
	logging = regexp.MustCompile(`\.(?:Info|Error)\(.*?"([A-Z][^"]*)"`)
)

// What the pages for operators quote is a panel, a dashboard, or a line of the log.
func TestPagesQuoteWhatThereIs(t *testing.T) {
	g := NewWithT(t)
	known := messages(g)
	for _, d := range dashboards(t) {
		known[strings.TrimPrefix(d.Title, "Trellis / ")] = true
		for _, p := range d.Panels {
			known[p.Title] = true
		}
	}
	for _, page := range []string{root + "/docs/runbooks.md", walkthrough} {
		text := code.ReplaceAllString(blocks.ReplaceAllString(read(g, page), ""), "")
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			what := strings.Join(strings.Fields(match[1]), " ")
			g.Expect(known).To(HaveKey(what), "%s", page)
		}
	}
}

func TestPagesAskForMetricsThatAreDocumented(t *testing.T) {
	g := NewWithT(t)
	known := map[string]bool{}
	for _, match := range documented.FindAllStringSubmatch(read(g, root+"/docs/reference/metrics.md"), -1) {
		known[match[1]] = true
	}
	for _, page := range []string{root + "/docs/runbooks.md", root + "/docs/reference/logs.md", walkthrough} {
		for _, name := range metric.FindAllString(read(g, page), -1) {
			g.Expect(known[name] || known[suffix.ReplaceAllString(name, "")]).To(BeTrue(), "%s asks for %s", page, name)
		}
	}
}

// The table of the walkthrough says of panels in which dashboards they are: groups of panels, and of dashboards that all have
// them, with semicolons between groups. Commas in titles are left out.
func TestWalkthroughFindsThePanels(t *testing.T) {
	g := NewWithT(t)
	panels := map[string]map[string]bool{} // by dashboard
	for _, d := range dashboards(t) {
		titles := map[string]bool{}
		for _, p := range d.Panels {
			titles[strings.ReplaceAll(p.Title, ",", "")] = true
		}
		panels[strings.TrimPrefix(d.Title, "Trellis / ")] = titles
	}
	_, table, found := strings.Cut(read(g, walkthrough), "| panel | dashboard | see |\n|---|---|---|\n")
	g.Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	g.Expect(len(rows)).To(BeNumerically(">", 5))
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		g.Expect(cells).To(HaveLen(3), row)
		groups, places := strings.Split(cells[0], "; "), strings.Split(cells[1], "; ")
		g.Expect(places).To(HaveLen(len(groups)), row)
		for i, group := range groups {
			for title := range strings.SplitSeq(group, ", ") {
				for dashboard, titles := range panels {
					if places[i] == "every one" || strings.Contains(", "+places[i]+", ", ", "+dashboard+", ") {
						g.Expect(titles).To(HaveKey(title), "the walkthrough sends to %q for it", dashboard)
					}
				}
			}
			for dashboard := range strings.SplitSeq(places[i], ", ") {
				g.Expect(dashboard == "every one" || panels[dashboard] != nil).To(BeTrue(), "%s: no dashboard %q", row, dashboard)
			}
		}
	}
}

// messages are those that the hub logs.
func messages(g Gomega) map[string]bool {
	found := map[string]bool{}
	for _, folder := range []string{"clustercache", "cmd", "controllers", "engine", "leader"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range logging.FindAllSubmatch(content, -1) {
				found[string(match[1])] = true
			}
			return err
		})).To(Succeed())
	}
	g.Expect(found).NotTo(BeEmpty())
	return found
}
