package monitoring_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// unitTests is the part of promtool's file format that rules_test.yaml uses.
type unitTests struct {
	EvaluationInterval string     `json:"evaluation_interval"`
	GroupEvalOrder     []string   `json:"group_eval_order"`
	RuleFiles          []string   `json:"rule_files"`
	FuzzyCompare       bool       `json:"fuzzy_compare"` // the only way here
	Tests              []unitTest `json:"tests"`
}

type unitTest struct {
	Name        string `json:"name"`
	Interval    string `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	PromQLExprTests []struct {
		Expr       string `json:"expr"`
		EvalTime   string `json:"eval_time"`
		ExpSamples []struct {
			Labels string  `json:"labels"`
			Value  float64 `json:"value"`
		} `json:"exp_samples"`
	} `json:"promql_expr_test"`
}

// TestRules does what "promtool test rules rules_test.yaml" does. Building promtool takes many times as long as building this,
// because it knows every cloud.
func TestRules(t *testing.T) {
	g := NewWithT(t)
	var file unitTests
	g.Expect(yaml.UnmarshalStrict([]byte(read(g, "rules_test.yaml")), &file)).To(Succeed())
	g.Expect(file.Tests).NotTo(BeEmpty())
	for _, test := range file.Tests {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()
			test.run(t, file)
		})
	}
}

func (test unitTest) run(t *testing.T, file unitTests) {
	g := NewWithT(t)
	load := "load " + test.Interval + "\n"
	for _, s := range test.InputSeries {
		load += "  " + strings.ReplaceAll(s.Series, ", ", ",") + " " + s.Values + "\n"
	}
	loader, err := promqltest.NewLazyLoader(load, promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = loader.Close() }()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), Appendable: loader.Storage(), Context: t.Context(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, Logger: slog.New(slog.DiscardHandler),
	})
	step := max(duration(g, test.Interval), duration(g, file.EvaluationInterval))
	loaded, errs := manager.LoadGroups(step, labels.EmptyLabels(), "", nil, false, file.RuleFiles...)
	g.Expect(errs).To(BeEmpty())
	var groups []*rules.Group
	for _, group := range loaded {
		groups = append(groups, group)
		for _, rule := range group.AlertingRules() {
			rule.SetRestored(true) // else there is no series ALERTS
		}
	}
	slices.SortFunc(groups, func(a, b *rules.Group) int {
		return slices.Index(file.GroupEvalOrder, a.Name()) - slices.Index(file.GroupEvalOrder, b.Name())
	})

	now := time.Unix(0, 0).UTC()
	for _, check := range test.PromQLExprTests {
		at := time.Unix(0, 0).UTC().Add(duration(g, check.EvalTime))
		for ; !now.After(at); now = now.Add(step) {
			loader.WithSamplesTill(now, func(err error) {
				g.Expect(err).NotTo(HaveOccurred())
				for _, group := range groups {
					group.Eval(loader.Context(), now)
					for _, rule := range group.Rules() {
						g.Expect(rule.LastError()).NotTo(HaveOccurred(), rule.Name())
					}
				}
			})
		}
		query, err := loader.QueryEngine().NewInstantQuery(loader.Context(), loader.Queryable(), nil, check.Expr, at)
		g.Expect(err).NotTo(HaveOccurred())
		answer, err := query.Exec(loader.Context()).Vector()
		g.Expect(err).NotTo(HaveOccurred())
		var got, want []string
		for _, sample := range answer {
			got = append(got, fmt.Sprintf("%s %.12g", sample.Metric, sample.F))
		}
		for _, sample := range check.ExpSamples {
			metric, err := parser.ParseMetric(sample.Labels)
			g.Expect(err).NotTo(HaveOccurred())
			want = append(want, fmt.Sprintf("%s %.12g", metric, sample.Value))
		}
		g.Expect(got).To(ConsistOf(want), "after %s: %s", check.EvalTime, check.Expr)
		query.Close()
	}
}

func duration(g Gomega, text string) time.Duration {
	d, err := model.ParseDuration(text)
	g.ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return time.Duration(d)
}
