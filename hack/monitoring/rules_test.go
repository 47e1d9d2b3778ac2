package monitoring_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	rulesFile = root + "/charts/trellis/monitoring/rules.yaml"
	runbooks  = "https://github.com/trellis-hub/trellis/blob/main/docs/runbooks.md#"
)

// dashboardPath is the path of a dashboard, with the hub that an alert is about, and the target if there is one.
var dashboardPath = regexp.MustCompile(`^/d/(trellis-[a-z]+)\?var-cluster=\{\{ \$labels.cluster \}\}` +
	`&var-job=\{\{ \$labels.job \}\}(&var-target=\{\{ \$labels.target \}\})?$`)

// ofTarget is the label by which alerts are routed to those whose namespace it is.
const ofTarget = `{{ reReplaceAll "^([^/]*)/.*|.*" "$1" $labels.target }}`

func TestEveryAlertHasWhatOperatorsWant(t *testing.T) {
	known := map[string]bool{}
	for _, d := range dashboards(t) {
		known[d.UID] = true
	}
	for _, alert := range alerts(t) {
		t.Run(alert.Alert, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(alert.Alert).To(HavePrefix("Trellis"))
			g.Expect(alert.Labels["severity"]).To(BeElementOf("critical", "warning", "info"))
			g.Expect(alert.Annotations).To(HaveLen(4))
			g.Expect(alert.Annotations["summary"]).To(MatchRegexp(`^[A-Z].*\.$`))
			g.Expect(alert.Annotations["description"]).NotTo(BeEmpty())
			g.Expect(alert.Annotations["runbook_url"]).To(Equal(runbooks + strings.ToLower(alert.Alert)))
			path := dashboardPath.FindStringSubmatch(alert.Annotations["dashboard_url"])
			g.Expect(path).NotTo(BeNil(), alert.Annotations["dashboard_url"])
			g.Expect(known).To(HaveKey(path[1]))

			// What the alert is about is named in the text, in labels for routing, and by the link.
			if !strings.Contains(alert.Expr, "job, target)") && !targetSeries.MatchString(alert.Expr) {
				g.Expect(alert.Labels).To(HaveLen(1))
				g.Expect(path[2]).To(BeEmpty())
				return
			}
			g.Expect(alert.Labels).To(Equal(map[string]string{"severity": alert.Labels["severity"], "namespace": ofTarget}))
			g.Expect(alert.Annotations["description"]).To(ContainSubstring("{{ $labels.target }}"))
			g.Expect(path[1]).To(Equal("trellis-target"))
			g.Expect(path[2]).NotTo(BeEmpty())
		})
	}
}

var (
	targetSeries = regexp.MustCompile(`(^|[^a-z_])target:trellis_`)
	aggregation  = regexp.MustCompile(`\b(sum|min|max|count|avg) ?(\(|by \()|\bon \(`)
	ofHub        = regexp.MustCompile(`\b(sum|min|max|count|avg) by \(cluster, job(, [a-z, ]+)?\)|` +
		`\bon \(cluster, job(, [a-z, ]+)?\)`)
)

// TestHubsThatShareAPrometheusAreDistinguished: a sum over several hubs describes none of them.
func TestHubsThatShareAPrometheusAreDistinguished(t *testing.T) {
	for _, rule := range chartRules(t) {
		t.Run(rule.Record+rule.Alert, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(ofHub.FindAllString(rule.Expr, -1)).To(HaveLen(len(aggregation.FindAllString(rule.Expr, -1))), rule.Expr)
			parsed, err := parser.ParseExpr(rule.Expr)
			g.Expect(err).NotTo(HaveOccurred())
			parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
				if selector, ok := node.(*parser.VectorSelector); ok {
					g.Expect(selector.String()).To(ContainSubstring(`job="trellis"`))
				}
				return nil
			})
		})
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	g := NewWithT(t)
	sections := strings.Split(read(g, root+"/docs/runbooks.md"), "\n## ")[1:]
	written := map[string]string{}
	for _, section := range sections {
		name, text, _ := strings.Cut(section, "\n")
		written[name] = text
	}
	for _, alert := range alerts(t) {
		text, ok := written[alert.Alert]
		g.Expect(ok).To(BeTrue(), "docs/runbooks.md has no section %s", alert.Alert)
		parts := regexp.MustCompile(`(?m)^\*\*(\w+)\.\*\* `).FindAllStringSubmatch(text, -1)
		var names []string
		for _, part := range parts {
			names = append(names, part[1])
		}
		g.Expect(names).To(Equal([]string{"Symptom", "Impact", "Diagnose", "Resolve"}), alert.Alert)
		delete(written, alert.Alert)
	}
	for name := range written {
		g.Expect(name).NotTo(HavePrefix("Trellis"), "docs/runbooks.md has a section of an alert that does not exist")
	}
}

func TestEveryRuleHasAUnitTest(t *testing.T) {
	g := NewWithT(t)
	var file struct {
		Tests []struct {
			Name            string `json:"name"`
			PromQLExprTests []struct {
				Expr       string `json:"expr"`
				EvalTime   string `json:"eval_time"`
				ExpSamples []any  `json:"exp_samples"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	g.Expect(yaml.Unmarshal([]byte(read(g, "rules_test.yaml")), &file)).To(Succeed())
	shapes, tested := map[string]string{}, map[string]bool{}
	for _, test := range file.Tests {
		var previous model.Duration
		for _, check := range test.PromQLExprTests {
			at, err := model.ParseDuration(check.EvalTime)
			g.Expect(err).NotTo(HaveOccurred())
			state := "quiet "
			if len(check.ExpSamples) > 0 {
				state = "firing "
				tested[check.Expr] = true
			}
			if strings.Contains(check.Expr, `ALERTS{alertname="`+test.Name+`"`) {
				g.Expect(at).To(BeNumerically(">", previous), test.Name)
				shapes[test.Name] += state
				previous = at
			}
		}
	}
	for _, rule := range chartRules(t) {
		if rule.Alert != "" {
			g.Expect(shapes[rule.Alert]).To(Equal("quiet firing quiet "), rule.Alert)
		} else {
			g.Expect(tested).To(HaveKey(rule.Record))
		}
	}
}

func TestEveryRuleUsesDocumentedMetrics(t *testing.T) {
	for _, rule := range chartRules(t) {
		expectKnownMetrics(t, rule.Record+rule.Alert, rule.Expr)
	}
}

// chartRules returns all rules of the chart.
func chartRules(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	g := NewWithT(t)
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation)
	g.Expect(errs).To(BeEmpty())
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	g.Expect(all).NotTo(BeEmpty())
	return all
}

func alerts(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	for _, rule := range chartRules(t) {
		if rule.Alert != "" {
			all = append(all, rule)
		}
	}
	return all
}

var (
	documented = regexp.MustCompile("`((?:trellis)_[a-z0-9_]+)`")
	// borrowed are metrics of libraries, and those that Prometheus makes.
	borrowed = regexp.MustCompile(`^(up|process_.+|go_.+|rest_client_requests_total)$`)
	suffix   = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// expectKnownMetrics fails if an expression does not parse or asks for something that docs/reference/metrics.md does not have
// and no rule records.
func expectKnownMetrics(t *testing.T, where, expr string) {
	t.Helper()
	g := NewWithT(t)
	known := map[string]bool{}
	for _, match := range documented.FindAllStringSubmatch(read(g, root+"/docs/reference/metrics.md"), -1) {
		known[match[1]] = true
	}
	for _, rule := range chartRules(t) {
		known[rule.Record] = true
	}
	parsed, err := parser.ParseExpr(expr)
	g.Expect(err).NotTo(HaveOccurred(), "%s: %s", where, expr)
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			name := selector.Name
			g.Expect(name).NotTo(BeEmpty(), "%s: a selector without a name in %s", where, expr)
			exists := known[name] || known[suffix.ReplaceAllString(name, "")] || borrowed.MatchString(name)
			g.Expect(exists).To(BeTrue(), "%s: docs/reference/metrics.md does not have %s", where, name)
		}
		return nil
	})
}

func read(g Gomega, path string) string {
	content, err := os.ReadFile(filepath.FromSlash(path))
	g.ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return string(content)
}
