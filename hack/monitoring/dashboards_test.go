package monitoring_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/promql/parser"
)

type dashboard struct {
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	SchemaVersion int      `json:"schemaVersion"`
	Version       int      `json:"version"`
	Editable      bool     `json:"editable"`
	Timezone      string   `json:"timezone"`
	Refresh       string   `json:"refresh"`
	Time          struct{ From, To string }
	Timepicker    struct {
		Intervals []string `json:"refresh_intervals"`
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel `json:"panels"`
}

type panel struct {
	ID          int             `json:"id"`
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Datasource  json.RawMessage `json:"datasource"`
	GridPos     struct{ X, Y, W, H int }
	Links       []struct{ Title, URL string }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                json.RawMessage
	}
	FieldConfig struct {
		Defaults struct {
			Unit  string `json:"unit"`
			Links []struct{ Title, URL string }
		}
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct {
				ID    string          `json:"id"`
				Value json.RawMessage `json:"value"`
			}
		}
	}
}

// units are those of Grafana 7.5 that the dashboards need.
var units = []string{"none", "short", "s", "bytes", "Bps", "ops", "reqps", "percentunit"}

// flavours are the folders of dashboards, and what is in them: the version of the format, how a data source is named,
// and the types of panels that are known there.
var flavours = map[string]struct {
	schema     int
	datasource string
	panels     []string
}{
	"dashboards": {41, `{"type": "prometheus", "uid": "${datasource}"}`,
		[]string{"stat", "timeseries", "table", "bargauge", "state-timeline", "heatmap"}},
	"plutono": {27, `"$datasource"`, []string{"stat", "timeseries", "table", "bargauge"}},
}

func TestEveryDashboardIsAsOperatorsWant(t *testing.T) {
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) { expectDashboards(t, flavour) })
	}
}

func expectDashboards(t *testing.T, flavour string) {
	seen := map[string]bool{}
	for file, d := range dashboardsOf(t, flavour) {
		t.Run(d.UID, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(filepath.Base(file)).To(Equal(d.UID + ".json"))
			g.Expect(seen).NotTo(HaveKey(d.Title))
			seen[d.Title] = true
			g.Expect(d.Title).To(HavePrefix("Trellis / "))
			g.Expect(d.Description).NotTo(BeEmpty())
			g.Expect(d.Tags).To(ContainElements("seed", "trellis"))
			g.Expect(d.Tags).To(HaveLen(3), "and a category")
			g.Expect(d.SchemaVersion).To(Equal(flavours[flavour].schema))
			g.Expect(variables(d)).To(ContainElements("datasource", "cluster", "job"))
			g.Expect(d.Version).To(Equal(1))
			g.Expect(d.Editable).To(BeFalse())
			g.Expect(d.Timezone).To(Equal("browser"))
			g.Expect(d.Time.From).To(Equal("now-1h"))
			g.Expect(d.Refresh).To(Equal("1m"))
			g.Expect(d.Timepicker.Intervals).To(Equal([]string{"30s", "1m", "5m"}))

			g.Expect(len(d.Panels)).To(BeNumerically(">", 8))
			g.Expect(d.Panels[0].Type).To(Equal("row"))
			for i, title := range []string{"Up", "CPU", "Memory", "Network"} {
				p := d.Panels[i+1]
				g.Expect(p.Title).To(Equal(title), "first row")
				g.Expect(p.GridPos.Y).To(Equal(d.Panels[1].GridPos.Y))
			}
		})
	}
	NewWithT(t).Expect(seen).To(HaveLen(6))
}

func TestEveryPanelIsComplete(t *testing.T) {
	for flavour := range flavours {
		t.Run(flavour, func(t *testing.T) { expectPanels(t, flavour) })
	}
}

// TestGrafanaShowsStatesAndDistributions: what current versions have panels for is not drawn as lines.
func TestGrafanaShowsStatesAndDistributions(t *testing.T) {
	kinds := map[string]int{}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			kinds[p.Type]++
		}
	}
	NewWithT(t).Expect(kinds).To(And(HaveKeyWithValue("state-timeline", BeNumerically(">=", 2)),
		HaveKeyWithValue("heatmap", BeNumerically(">=", 3))))
}

func expectPanels(t *testing.T, flavour string) {
	for _, d := range dashboardsOf(t, flavour) {
		ids, taken := map[int]bool{}, map[[2]int]bool{}
		for _, p := range d.Panels {
			t.Run(d.UID+"/"+p.Title, func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(ids).NotTo(HaveKey(p.ID))
				ids[p.ID] = true
				for x := range p.GridPos.W {
					for y := range p.GridPos.H {
						cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
						g.Expect(cell[0]).To(BeNumerically("<", 24))
						g.Expect(taken).NotTo(HaveKey(cell), "panels overlap")
						taken[cell] = true
					}
				}
				g.Expect(p.Title).NotTo(BeEmpty())
				if p.Type == "row" {
					return
				}
				g.Expect(p.Type).To(BeElementOf(flavours[flavour].panels))
				g.Expect(p.Description).To(HaveSuffix("."))
				g.Expect(p.FieldConfig.Defaults.Unit).To(BeElementOf(units))
				g.Expect([]byte(p.Datasource)).To(MatchJSON(flavours[flavour].datasource))
				g.Expect(p.Targets).NotTo(BeEmpty())
				for _, q := range p.Targets {
					g.Expect(q.LegendFormat).NotTo(BeEmpty())
					if flavour == "dashboards" {
						g.Expect([]byte(q.Datasource)).To(MatchJSON(flavours[flavour].datasource))
					}
					expectOneHub(g, filledIn(q.Expr))
					expectKnownMetrics(t, d.UID+"/"+p.Title, filledIn(q.Expr))
					if strings.Contains(q.Expr, "$target") {
						g.Expect(variables(d)).To(ContainElement("target"))
					}
				}
			})
		}
	}
}

var address = regexp.MustCompile(`/d/([a-z-]+)\?`)

func TestEveryDrillDownLeadsSomewhere(t *testing.T) {
	g := NewWithT(t)
	byUID := map[string]dashboard{}
	for _, d := range dashboards(t) {
		byUID[d.UID] = d
	}
	links, fromFleet := 0, false
	follow := func(from dashboard, p panel, url string) {
		links++
		match := address.FindStringSubmatch(url)
		g.Expect(match).NotTo(BeNil(), url)
		to, ok := byUID[match[1]]
		g.Expect(ok).To(BeTrue(), "%s/%s leads to %s, which does not exist", from.UID, p.Title, match[1])
		g.Expect(url).To(ContainSubstring("${__url_time_range}"))
		g.Expect(variables(to)).To(ContainElement("datasource"))
		if strings.Contains(url, "var-target=") {
			g.Expect(variables(to)).To(ContainElement("target"))
			fromFleet = fromFleet || from.UID == "trellis-fleet" && p.Type == "table"
		}
	}
	for _, d := range byUID {
		for _, p := range d.Panels {
			for _, link := range p.Links {
				follow(d, p, link.URL)
			}
			for _, link := range p.FieldConfig.Defaults.Links {
				follow(d, p, link.URL)
			}
			for _, override := range p.FieldConfig.Overrides {
				for _, property := range override.Properties {
					var values []struct{ URL string }
					if property.ID == "links" {
						g.Expect(json.Unmarshal(property.Value, &values)).To(Succeed())
					}
					for _, link := range values {
						follow(d, p, link.URL)
					}
				}
			}
		}
	}
	g.Expect(links).To(BeNumerically(">", 20))
	g.Expect(fromFleet).To(BeTrue(), "the table of the fleet leads to each target")
}

// filledIn puts something in place of Grafana's variables.
func filledIn(expr string) string {
	return strings.NewReplacer("$__rate_interval", "2m", "$__range", "1h", "$target", "shoot--a/a",
		"$job", "trellis", "$cluster", "").Replace(expr)
}

// expectOneHub fails if a query asks for series of several hubs that share a Prometheus.
func expectOneHub(g Gomega, expr string) {
	parsed, err := parser.ParseExpr(expr)
	g.Expect(err).NotTo(HaveOccurred(), expr)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			g.Expect(selector.String()).To(And(ContainSubstring(`job="trellis"`), ContainSubstring(`cluster=~""`)))
		}
		return nil
	})
}

func variables(d dashboard) (names []string) {
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	return names
}

// dashboards returns the chart's dashboards for Grafana by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	return dashboardsOf(t, "dashboards")
}

// dashboardsOf returns the dashboards of a flavour by file.
func dashboardsOf(t *testing.T, flavour string) map[string]dashboard {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(root + "/charts/trellis/monitoring/" + flavour + "/*.json")
	g.Expect(err).NotTo(HaveOccurred())
	all := map[string]dashboard{}
	for _, file := range files {
		var d dashboard
		g.Expect(json.Unmarshal([]byte(read(g, file)), &d)).To(Succeed(), file)
		all[file] = d
	}
	return all
}
