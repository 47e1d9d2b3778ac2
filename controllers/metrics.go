package controllers

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/care"
	"github.com/trellis-hub/trellis/controllers/criticalcomponents"
	"github.com/trellis-hub/trellis/controllers/csrapprover"
	"github.com/trellis-hub/trellis/controllers/garbagecollector"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/controllers/networkpolicy"
	"github.com/trellis-hub/trellis/controllers/stalepods"
	"github.com/trellis-hub/trellis/controllers/targetcluster"
	"github.com/trellis-hub/trellis/controllers/tokenrequestor"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of all controllers, and of what only they use.
func MetricDefinitions() []*metrics.Definition {
	return slices.Concat(targetcluster.MetricDefinitions.All(), multicluster.MetricDefinitions.All(),
		telemetry.MetricDefinitions.All(), fairqueue.MetricDefinitions.All(), bundle.MetricDefinitions.All(),
		tokenrequestor.MetricDefinitions.All(), csrapprover.MetricDefinitions.All(),
		garbagecollector.MetricDefinitions.All(), criticalcomponents.MetricDefinitions.All(),
		networkpolicy.MetricDefinitions.All(), stalepods.MetricDefinitions.All(), care.MetricDefinitions.All())
}

// Metrics take the figures of controllers in all terms. Make them with NewMetrics.
type Metrics struct {
	// Resources are those of ManagedResources, Queues those of their queues.
	Resources *telemetry.Metrics
	Queues    *fairqueue.Metrics
	// Targets are those of controllers in targets.
	Targets *multicluster.Metrics
	// Tokens are those of the token requestor, and Certificates those of the CSR approver.
	Tokens       *tokenrequestor.Metrics
	Certificates *csrapprover.Metrics
	// StalePods are those of stale pods, and Care those of the constraints of targets.
	StalePods *stalepods.Metrics
	Care      *care.Metrics
	// Garbage are those of the garbage collector, Nodes those of critical components, Policies those of network policies.
	Garbage  *garbagecollector.Metrics
	Nodes    *criticalcomponents.Metrics
	Policies *networkpolicy.Metrics
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer, config *configv1alpha1.HubConfiguration) (*Metrics, error) {
	queues, err := fairqueue.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of queues: %w", err)
	}
	targets, err := multicluster.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of controllers: %w", err)
	}
	tokens, err := tokenrequestor.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of the token requestor: %w", err)
	}
	certificates, err := csrapprover.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of the CSR approver: %w", err)
	}
	stale, err := stalepods.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of stale pods: %w", err)
	}
	constraints, err := care.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of constraints: %w", err)
	}
	garbage, err := garbagecollector.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of the garbage collector: %w", err)
	}
	nodes, err := criticalcomponents.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of critical components: %w", err)
	}
	policies, err := networkpolicy.NewMetrics(registerer)
	if err != nil {
		return nil, fmt.Errorf("metrics of network policies: %w", err)
	}
	resources := telemetry.NewMetrics(registerer, config.Metrics.TargetHistograms)
	return &Metrics{
		Resources: resources, Queues: queues, Targets: targets, Tokens: tokens, Certificates: certificates,
		StalePods: stale, Care: constraints,
		Garbage: garbage, Nodes: nodes, Policies: policies,
	}, nil
}
