package highavailability_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/trellis-hub/trellis/webhooks/highavailability"
)

func TestHA_ObjectsThatAreNotLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		object string
	}{
		"HA-1 a namespace that does not ask": {map[string]string{"gardener.cloud/role": "shoot"},
			deployment("server", "replicas: 1,", "")},
		"HA-1 a namespace that says no": {map[string]string{"gardener.cloud/role": "shoot", prefix + "consider": "false"},
			deployment("server", "replicas: 1,", "")},
		"HA-2 skipped": {map[string]string{"gardener.cloud/role": "shoot", prefix + "consider": "true"},
			object("Deployment", "labels: {"+prefix+"type: server, "+prefix+"skip: \"true\"}", "replicas: 1,", "")},
		"CMN-15 skipped, whatever the value": {map[string]string{"gardener.cloud/role": "shoot", prefix + "consider": "true"},
			object("Deployment", "labels: {"+prefix+"type: server, "+prefix+"skip: \"false\"}", "replicas: 1,", "")},
	} {
		t.Run(name, func(t *testing.T) {
			c := target(t, "zone", "a,b", 2)
			c.Labels = test.labels
			NewWithT(t).Expect(c.Send(t, highavailability.Webhook(), test.object).Called).To(BeFalse())
		})
	}
}

func TestHA_Replicas(t *testing.T) {
	scaled := []autoscalingv2.HorizontalPodAutoscaler{scaler("ns", "apps/v1", "Deployment", "w", 9)}
	for name, test := range map[string]struct {
		tolerance, kind, annotation, replicas string
		scalers                               []autoscalingv2.HorizontalPodAutoscaler
		want                                  int32
	}{
		"HA-3 of no type":                      {"zone", "", "", "5", nil, 5},
		"HA-4 a controller":                    {unset, "controller", "", "1", nil, 2},
		"HA-5 a controller, nothing tolerated": {"", "controller", "", "3", nil, 1},
		"HA-6 a controller, nodes tolerated":   {"node", "controller", "", "1", nil, 2},
		"HA-7 a server":                        {unset, "server", "", "1", nil, 2},
		"HA-8 a server, nothing tolerated":     {"", "server", "", "1", nil, 2},
		"HA-9 a server, zones tolerated":       {"zone", "server", "", "1", nil, 2},
		"HA-10 of a type that is unknown":      {"", "x", "", "1", nil, 2},
		"HA-11 none stay none":                 {"zone", "server", "", "0", nil, 0},
		"HA-13 as the annotation says":         {"", "controller", "4", "1", nil, 4},
		"HA-14 no type, no annotation":         {"", "", "4", "1", nil, 1},
		"HA-16 autoscaled, too few":            {unset, "server", "", "1", scaled, 2},
		"HA-17 autoscaled, more":               {unset, "server", "", "5", scaled, 5},
		"HA-18 not autoscaled, more":           {unset, "server", "", "5", nil, 2},
		"HA-20 an autoscaler of another kind": {unset, "server", "", "5",
			[]autoscalingv2.HorizontalPodAutoscaler{scaler("ns", "apps/v1", "StatefulSet", "w", 9)}, 2},
		"HA-20 an autoscaler of another API": {unset, "server", "", "5",
			[]autoscalingv2.HorizontalPodAutoscaler{scaler("ns", "x/v1", "Deployment", "w", 9)}, 2},
		"HA-20 an autoscaler of another object": {unset, "server", "", "5",
			[]autoscalingv2.HorizontalPodAutoscaler{scaler("ns", "apps/v1", "Deployment", "v", 9)}, 2},
		"HA-21 an autoscaler elsewhere": {unset, "server", "", "5",
			[]autoscalingv2.HorizontalPodAutoscaler{scaler("other", "apps/v1", "Deployment", "w", 9)}, 2},
	} {
		for _, kind := range []string{"Deployment", "StatefulSet"} {
			if kind == "StatefulSet" && len(test.scalers) > 0 {
				continue
			}
			t.Run(name+" "+kind, func(t *testing.T) {
				c := target(t, test.tolerance, "", 2)
				c.State.Autoscalers = test.scalers
				metadata := "annotations: {" + prefix + "replicas: \"" + test.annotation + "\"}, " + typed(test.kind)
				d := send(t, c, object(kind, metadata, "replicas: "+test.replicas+",", ""))
				NewWithT(t).Expect(d.Spec.Replicas).To(HaveValue(Equal(test.want)))
			})
		}
	}
}

func TestHA12_ReplicasThatAreNotSaid(t *testing.T) {
	g := NewWithT(t)
	d := send(t, target(t, "zone", "a,b", 2), deployment("server", "", ""))
	g.Expect(d.Spec.Replicas).To(BeNil())
	g.Expect(d.Spec.Template.Spec.TopologySpreadConstraints).To(BeEmpty())
}

func TestHA15_ReplicasThatAreNoNumber(t *testing.T) {
	g := NewWithT(t)
	answer := target(t, unset, unset, 2).Send(t, highavailability.Webhook(), object("Deployment",
		typed("server")+", annotations: {"+prefix+"replicas: abc}", "replicas: 1,", ""))
	g.Expect(answer.Denied).NotTo(BeNil())
	g.Expect(answer.Denied.Code).To(BeEquivalentTo(403))
	g.Expect(answer.Patch).To(BeEmpty())
}

func TestHA_Autoscalers(t *testing.T) {
	for name, test := range map[string]struct {
		kind, annotation string
		before, want     string
	}{
		"HA-43 too few": {"controller", "", "minReplicas: 1, maxReplicas: 2",
			"minReplicas: 2, maxReplicas: 2"},
		"HA-44 too few at most": {"controller", "", "minReplicas: 1, maxReplicas: 1",
			"minReplicas: 2, maxReplicas: 2"},
		"HA-45 as the annotation says": {"controller", "12", "minReplicas: 1, maxReplicas: 1",
			"minReplicas: 12, maxReplicas: 12"},
		"HA-46 enough": {"controller", "", "minReplicas: 12, maxReplicas: 16",
			"minReplicas: 12, maxReplicas: 16"},
		"HA-47 of no type": {"", "", "minReplicas: 1, maxReplicas: 1", "minReplicas: 1, maxReplicas: 1"},
		"HA-54 the most is not below the least": {"controller", "", "minReplicas: 5, maxReplicas: 3",
			"minReplicas: 5, maxReplicas: 5"},
		"none": {"controller", "", "minReplicas: 0, maxReplicas: 1",
			"minReplicas: 0, maxReplicas: 1"},
		"nothing is said": {"controller", "", "maxReplicas: 1", "maxReplicas: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			made := func(spec string) string {
				metadata := "name: h, " + typed(test.kind)
				if test.annotation != "" {
					metadata += ", annotations: {" + prefix + "replicas: \"" + test.annotation + "\"}"
				}
				return "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {" + metadata + "}, spec: " +
					"{" + spec + "}}"
			}
			answer := target(t, "zone", unset, 2).Send(t, highavailability.Webhook(), made(test.before))
			g.Expect(answer.Err).NotTo(HaveOccurred())
			g.Expect(answer.Object).To(MatchYAML(made(test.want)))
		})
	}
	t.Run("HA-48 a namespace that does not ask", func(t *testing.T) {
		c := target(t, "zone", unset, 2)
		delete(c.Labels, prefix+"consider")
		NewWithT(t).Expect(c.Send(t, highavailability.Webhook(),
			"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "+
				"metadata: {"+typed("server")+"}, spec: {minReplicas: 1, maxReplicas: 1}}").Called).To(BeFalse())
	})
}

func TestHA49_StateThatCannotBeRead(t *testing.T) {
	for _, resource := range []string{"namespaces", "horizontalpodautoscalers", "nodes"} {
		t.Run(resource, func(t *testing.T) {
			g := NewWithT(t)
			c := target(t, "zone", "a,b", 2)
			c.State.ErrOf = map[string]error{resource: apierrors.NewForbidden(corev1.Resource(resource), "", errors.New("no"))}
			answer := c.Send(t, highavailability.Webhook(), deployment("server", "replicas: 1,", ""))
			g.Expect(answer.Patch).To(BeEmpty())
			g.Expect(apierrors.IsInternalError(answer.Err)).To(BeTrue(), "%v", answer.Err)
		})
	}
	t.Run("a namespace that is not there", func(t *testing.T) {
		c := target(t, "zone", "a,b", 2)
		c.State.Spaces = nil
		answer := c.Send(t, highavailability.Webhook(), "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "+
			"metadata: {"+typed("server")+"}, spec: {minReplicas: 1, maxReplicas: 1}}")
		NewWithT(t).Expect(apierrors.IsInternalError(answer.Err)).To(BeTrue())
	})
}

func TestHA50_ObjectsOfOtherKinds(t *testing.T) {
	g := NewWithT(t)
	answer := target(t, "zone", "a,b", 2).Send(t, highavailability.Webhook(),
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {"+typed("server")+"}, spec: {replicas: 1}}")
	g.Expect(answer.Err).NotTo(HaveOccurred())
	g.Expect(answer.Patch).To(BeEmpty())
	g.Expect(answer.Message).To(ContainSubstring("ReplicaSet.apps"))
}

func TestHA_DeletionsAreAllowed(t *testing.T) {
	g := NewWithT(t)
	c := target(t, "zone", "a,b", 2)
	c.Operation = admissionv1.Delete
	answer := c.Send(t, highavailability.Webhook(), deployment("server", "replicas: 1,", ""))
	g.Expect(answer.Response).To(BeZero())
	g.Expect(c.State.Calls).To(BeEmpty())
}

func TestHA_OneNamespaceOfATargetConcernsNoOther(t *testing.T) {
	g := NewWithT(t)
	a, b := target(t, "zone", "of-a", 2), target(t, "zone", "of-b", 2)
	for range 3 {
		g.Expect(string(a.Send(t, highavailability.Webhook(), deployment("server", "replicas: 1,", "")).Patch)).To(And(
			ContainSubstring("of-a"), Not(ContainSubstring("of-b"))))
		g.Expect(string(b.Send(t, highavailability.Webhook(), deployment("server", "replicas: 1,", "")).Patch)).To(And(
			ContainSubstring("of-b"), Not(ContainSubstring("of-a"))))
	}
}
