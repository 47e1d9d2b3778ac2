package pods_test

import (
	"testing"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

// PTS-10 is part of all cases: everything is sent twice.
func TestPTS_TopologySpread(t *testing.T) {
	c := reviews.Target{Settings: reviews.Webhooks(t, "podTopologySpreadConstraints: {enabled: true}")}
	const managed = `resources.gardener.cloud/managed-by: gardener`
	spread := func(constraints string) string {
		return pod(`labels: {pod-template-hash: 123abc, `+managed+`}`, `topologySpreadConstraints: [`+constraints+`]`)
	}
	for name, object := range map[string]string{
		"PTS-1 no ReplicaSet":  pod(`labels: {`+managed+`}`, `topologySpreadConstraints: [{topologyKey: zone}]`),
		"PTS-2 no constraints": pod(`labels: {pod-template-hash: 123abc, `+managed+`}`, ``),
		"PTS-5 selected already": spread(`{topologyKey: zone,
			labelSelector: {matchLabels: {pod-template-hash: 123abc}}}`),
		"PTS-5 with another value": spread(`{topologyKey: zone, labelSelector: {matchLabels: {pod-template-hash: x}},
			matchLabelKeys: [pod-template-hash]}`),
		"PTS-6 by an expression": spread(`{topologyKey: zone,
			labelSelector: {matchExpressions: [{key: pod-template-hash, operator: In, values: [x]}]}}`),
		"PTS-8 skipped": pod(`labels: {pod-template-hash: a, `+managed+`,
			topology-spread-constraints.resources.gardener.cloud/skip: ""}`, `topologySpreadConstraints: [{topologyKey: zone}]`),
		"PTS-9 a resource manager": pod(`labels: {pod-template-hash: a, `+managed+`, app: gardener-resource-manager}`,
			`topologySpreadConstraints: [{topologyKey: zone}]`),
		"what is not managed": pod(`labels: {pod-template-hash: a}`,
			`topologySpreadConstraints: [{topologyKey: zone}]`),
		"CMN-14 a static pod's mirror": pod(`labels: {pod-template-hash: a, `+managed+`, static-pod: "true"}`,
			`topologySpreadConstraints: [{topologyKey: zone}]`),
	} {
		t.Run(name, func(t *testing.T) { unchanged(t, c, pods.TopologySpread(), object) })
	}
	for name, test := range map[string]struct{ before, after string }{
		"PTS-3 PTS-10 no selector": {`{topologyKey: zone}`,
			`{topologyKey: zone, labelSelector: {matchLabels: {pod-template-hash: 123abc}}}`},
		"PTS-4 more labels": {`{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}`,
			`{topologyKey: zone, labelSelector: {matchLabels: {a: b, pod-template-hash: 123abc}}}`},
		"PTS-6 other expressions": {
			`{topologyKey: zone, labelSelector: {matchExpressions: [{key: pod-template-hash, operator: NotIn, values: [x]},
				{key: pod-template-hash, operator: Exists}]}}`,
			`{topologyKey: zone, labelSelector: {matchLabels: {pod-template-hash: 123abc}, matchExpressions: [
				{key: pod-template-hash, operator: NotIn, values: [x]}, {key: pod-template-hash, operator: Exists}]}}`},
		"PTS-7 not in two places": {
			`{topologyKey: zone, matchLabelKeys: [a, pod-template-hash, b]}, {topologyKey: host, labelSelector: {},
				matchLabelKeys: [pod-template-hash]}`,
			`{topologyKey: zone, matchLabelKeys: [a, b], labelSelector: {matchLabels: {pod-template-hash: 123abc}}},
				{topologyKey: host, labelSelector: {matchLabels: {pod-template-hash: 123abc}}}`},
	} {
		t.Run(name, func(t *testing.T) { changed(t, c, pods.TopologySpread(), spread(test.before), spread(test.after)) })
	}
}
