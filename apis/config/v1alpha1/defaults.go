package v1alpha1

import (
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	defaultClassConcurrentSyncs = 20
	otherClassConcurrentSyncs   = 5
)

// SetDefaults sets every field that is zero to its default. The defaults are documented at the fields.
func SetDefaults(c *HubConfiguration) {
	setDefault(&c.SourceClientConnection.QPS, -1)
	if qps := c.SourceClientConnection.QPS; qps > 0 {
		setDefault(&c.SourceClientConnection.Burst, max(1, int32(min(2*qps, math.MaxInt16))))
	}

	setDefault(&c.TargetClientConnection.QPS, 500)
	setDefault(&c.TargetClientConnection.Burst, 1000)
	setDefault(&c.TargetClientConnection.MaxInFlight, 40)
	setDuration(&c.TargetClientConnection.Timeout, 10*time.Second)

	setPointer(&c.LeaderElection.LeaderElect, true)
	setDuration(&c.LeaderElection.LeaseDuration, 15*time.Second)
	setDuration(&c.LeaderElection.RenewDeadline, 10*time.Second)
	setDuration(&c.LeaderElection.RetryPeriod, 2*time.Second)
	setDefault(&c.LeaderElection.ResourceLock, "leases")
	setDefault(&c.LeaderElection.ResourceName, "trellis")

	setDefault(&c.Server.HealthProbes.Port, 8081)
	setDefault(&c.Server.Metrics.Port, 8080)
	setWebhookDefaults(&c.Server.Webhooks, c.LeaderElection)
	setDefault(&c.LogLevel, "info")
	setDefault(&c.LogFormat, "json")

	setPointer(&c.Controllers.ClusterID, "")
	setDuration(&c.Controllers.ManagedResource.SyncPeriod, 10*time.Minute)
	setDefault(&c.Controllers.ManagedResource.ManagedByLabelValue, resourcesv1alpha1.ManagedByDefault)
	setDefault(&c.Controllers.ManagedResource.MaxConcurrentObjects, 16)
	setDefault(&c.Controllers.TargetCluster.ConcurrentSyncs, 20)
	setDuration(&c.Controllers.TargetCluster.SyncPeriod, 30*time.Second)

	setThresholds(&c.Controllers.Care)
	setDuration(&c.Controllers.Heartbeat.RenewInterval, 10*time.Second)
	setDuration(&c.Controllers.Heartbeat.MonitorPeriod, 40*time.Second)
	setDuration(&c.Controllers.Heartbeat.TargetMonitorPeriod, 200*time.Second)
	setDuration(&c.Controllers.Heartbeat.LivenessStuckAfter, 2*time.Minute)

	for i := range c.Classes {
		class := &c.Classes[i]
		if class.Name == resourcesv1alpha1.DefaultClass {
			setDefault(&class.ConcurrentSyncs, defaultClassConcurrentSyncs)
		} else {
			setDefault(&class.ConcurrentSyncs, otherClassConcurrentSyncs)
		}
		setPointer(&class.ClusterID, *c.Controllers.ClusterID)
		class.Controllers.SetDefaults()
		class.Webhooks.SetDefaults(class.WebhookScope())
	}

	setDuration(&c.ClusterCache.ProbeInterval, 5*time.Second)
	setDuration(&c.ClusterCache.ProbeTimeout, 4*time.Second)
	setDefault(&c.ClusterCache.FailureThreshold, 2)
	setDefault(&c.ClusterCache.ConnectConcurrency, 64)
	setDuration(&c.ClusterCache.DisconnectGrace, 10*time.Second)
	setDefault(&c.ClusterCache.MassDisconnectPercent, 20)
	setDuration(&c.ClusterCache.MassDisconnectLimit, 5*time.Minute)
	setDefault(&c.ClusterCache.MaxObjectsPerTarget, 50_000)
	setDefault(&c.ClusterCache.MaxRegistrationsPerNamespace, 1000)
	setDuration(&c.ClusterCache.DrainTimeout, 5*time.Minute)
}

// defaultThresholds are how long a check has to fail before its condition becomes False.
var defaultThresholds = []ConditionThreshold{
	{Type: hubv1alpha1.ConditionAPIServerAvailable, Duration: metav1.Duration{Duration: time.Minute}},
	{Type: hubv1alpha1.ConditionControlPlaneHealthy, Duration: metav1.Duration{Duration: time.Minute}},
	{Type: hubv1alpha1.ConditionEveryNodeReady, Duration: metav1.Duration{Duration: 5 * time.Minute}},
	{Type: hubv1alpha1.ConditionObservabilityComponentsHealthy, Duration: metav1.Duration{Duration: time.Minute}},
	{Type: hubv1alpha1.ConditionSystemComponentsHealthy, Duration: metav1.Duration{Duration: time.Minute}},
}

// setThresholds adds the default thresholds of conditions that are not listed.
func setThresholds(c *Care) {
	for _, threshold := range defaultThresholds {
		if !slices.ContainsFunc(c.ConditionThresholds, func(t ConditionThreshold) bool { return t.Type == threshold.Type }) {
			c.ConditionThresholds = append(c.ConditionThresholds, threshold)
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setDuration(field *metav1.Duration, value time.Duration) {
	setDefault(&field.Duration, value)
}

func setPointer[T any](field **T, value T) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
