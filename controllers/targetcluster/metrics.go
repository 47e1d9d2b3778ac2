package targetcluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricInfo = MetricDefinitions.Gauge("trellis_target_info", "1, with version, cloud type and region of the "+
		"target. From the leader.",
		metrics.LabelTarget, "version", "cloud_type", "region")
	metricFalse = MetricDefinitions.Gauge("trellis_target_condition_false",
		"1 for each condition of the target that is False. Absent if it is not. From the leader.",
		metrics.LabelTarget, "condition")
	metricLeftBehind = MetricDefinitions.Gauge("trellis_target_webhooks_left_behind",
		"1 if the registration of the target is gone, and webhooks of the hub were left in it. Absent if not. From the "+
			"leader.",
		metrics.LabelTarget)
	metricTargets = MetricDefinitions.Gauge(
		"trellis_targets", "TargetClusters by condition and its status. From the leader.", "condition", "status")
)

// Collector reads what TargetClusters say when it is asked. Make it with NewCollector.
type Collector struct {
	reader  client.Reader
	leading func() bool
	types   *metrics.Names
}

// NewCollector returns a collector. reader answers from memory; leading reports whether this replica is the one that
// exports the metrics.
func NewCollector(reader client.Reader, leading func() bool) *Collector {
	return &Collector{reader: reader, leading: leading, types: metrics.NewNames(typeLimit)}
}

// memoryTimeout bounds reads that are answered by informers and cannot take long.
const memoryTimeout = time.Second

// typeLimit bounds the types of conditions that are counted separately: labels of ManagedResources invent some.
const typeLimit = 40

var (
	descInfo, descFalse         = metricInfo.Desc(), metricFalse.Desc()
	descLeftBehind, descTargets = metricLeftBehind.Desc(), metricTargets.Desc()
)

// Describe implements prometheus.Collector.
func (*Collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descInfo
	descriptions <- descFalse
	descriptions <- descLeftBehind
	descriptions <- descTargets
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(collected chan<- prometheus.Metric) {
	if !c.leading() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), memoryTimeout)
	defer cancel()
	list := &hubv1alpha1.TargetClusterList{}
	if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // the informer is not there yet
	}
	counts := map[[2]string]int{}
	for i := range list.Items {
		tc := &list.Items[i]
		s := &tc.Status
		name := metrics.TargetName(client.ObjectKeyFromObject(tc))
		collected <- metrics.Const(descInfo, prometheus.GaugeValue, 1, name, s.KubernetesVersion, s.CloudType, s.Region)
		failing := map[string]bool{} // several types may have one label
		for _, condition := range s.Conditions {
			label := c.types.Label(condition.Type)
			counts[[2]string{label, string(condition.Status)}]++
			if condition.Status == metav1.ConditionFalse {
				failing[label] = true
			}
			if condition.Reason == hubv1alpha1.ReasonWebhooksLeftBehind {
				collected <- metrics.Const(descLeftBehind, prometheus.GaugeValue, 1, name)
			}
		}
		for label := range failing {
			collected <- metrics.Const(descFalse, prometheus.GaugeValue, 1, name, label)
		}
	}
	for of, n := range counts {
		collected <- metrics.Const(descTargets, prometheus.GaugeValue, float64(n), of[0], of[1])
	}
}
