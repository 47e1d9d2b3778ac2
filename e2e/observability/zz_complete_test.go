//go:build observability

package observability

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	prometheusv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// unprovoked are the alerts that no situation here provokes, and why. Their unit tests are all there is.
var unprovoked = map[string]string{
	"TrellisLoopStuck":   "a loop would have to be stuck in a hub that has no fault",
	"TrellisRunsOverdue": "a run would have to continue after its deadline in a hub that has no fault",
}

// someTargets selects targets in which what the panels of a target show has happened.
const someTargets = `target=~"shoot--(drifting|tokenless|certificates|nodes|garbage|policies|eager)/.+"`

func TestEveryRuleWorks(t *testing.T) {
	g := NewWithT(t)
	answer, err := monitoring.API.Rules(context.Background(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	rules := 0
	for _, group := range answer.Groups {
		for _, r := range group.Rules {
			rules++
			switch rule := r.(type) {
			case prometheusv1.AlertingRule:
				g.Expect(rule.Health).To(BeEquivalentTo("ok"), "%s: %s", rule.Name, rule.LastError)
				_, excused := unprovoked[rule.Name]
				g.Expect(seen[rule.Name]).NotTo(Equal(excused), "%s: provoked is %t, and excused is %t", rule.Name, seen[rule.Name], excused)
			case prometheusv1.RecordingRule:
				g.Expect(rule.Health).To(BeEquivalentTo("ok"), "%s: %s", rule.Name, rule.LastError)
				g.Expect(hadData(g, rule.Name, false)).To(BeTrue(), "%s has never had a value", rule.Name)
			}
		}
	}
	g.Expect(rules).To(BeNumerically(">", 30))
}

func TestEveryPanelHadData(t *testing.T) {
	g := NewWithT(t)
	for _, file := range chartFiles(g, "monitoring/dashboards/*.json") {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		g.Expect(json.Unmarshal(content, &dashboard)).To(Succeed())
		for _, panel := range dashboard.Panels {
			for _, query := range panel.Targets {
				where := strings.TrimSuffix(filepath.Base(file), ".json") + "/" + panel.Title
				t.Run(where, func(t *testing.T) {
					g := NewWithT(t)
					expr := strings.NewReplacer("$__rate_interval", "8s", "$__range", "10m", "[1h]", "[2m]", `target="$target"`,
						someTargets, "$cluster", "", "$job", "trellis").Replace(query.Expr)
					g.Expect(hadData(g, expr, alwaysAnswers(expr))).To(BeTrue(), "no data for %s", expr)
				})
			}
		}
	}
}

// alwaysAnswers reports whether a query has a result without data: zero.
func alwaysAnswers(query string) bool {
	return strings.HasSuffix(strings.TrimSpace(query), "or vector(0)")
}

// hadData reports whether a query had an answer with a number at any time of the run, and with one other than zero if
// zero is none.
func hadData(g Gomega, query string, nonzero bool) bool {
	answer, _, err := monitoring.API.QueryRange(context.Background(), query, prometheusv1.Range{Start: began, End: time.Now(), Step: 2 * time.Second})
	g.ExpectWithOffset(1, err).NotTo(HaveOccurred(), query)
	matrix, ok := answer.(model.Matrix)
	g.ExpectWithOffset(1, ok).To(BeTrue())
	for _, series := range matrix {
		for _, sample := range series.Values {
			if sample.Value == sample.Value && (sample.Value != 0 || !nonzero) { // not NaN
				return true
			}
		}
	}
	return false
}
