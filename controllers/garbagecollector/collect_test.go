package garbagecollector

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/apis/references"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

func TestGC1_NothingThereNothingChanges(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	clearEvents()
	collect(t, Options{}, a)
	a.passes()
	a.Expect(shared.recorder.Events).NotTo(Receive())
}

func TestGC2_ObjectsWithoutTheLabelStay(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	without := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: "without"}}
	a.create(without)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.namespace, Name: "other", Labels: map[string]string{references.Label: "True"},
	}}
	a.create(other)
	collect(t, Options{}, a)
	a.passes()
	a.stays(without, other)
}

func TestGC3_WhatNothingRefersToIsDeleted(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	second := a.newNamespace()
	garbage := []client.Object{
		a.secret(a.namespace, "x"), a.configMap(a.namespace, "x"), a.secret(second, "y"), a.configMap(second, "y"),
	}
	collect(t, Options{}, a)
	a.gone(garbage...)
}

func TestGC4_ReferencesEndAtTheNamespace(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	second := a.newNamespace()
	used, unused := a.secret(a.namespace, "x"), a.secret(second, "x")
	a.create(pod(a.namespace, "pod", refersTo("x")))
	collect(t, Options{}, a)
	a.gone(unused)
	a.passes()
	a.stays(used)
}

func TestGC5_EachKindProtects(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	all := referrers(a.namespace)
	a.Expect(all).To(HaveLen(len(referring)))
	var used []client.Object
	for name, obj := range all {
		a.create(obj)
		used = append(used, a.secret(a.namespace, name), a.configMap(a.namespace, name))
	}
	garbage := a.secret(a.namespace, "garbage")
	collect(t, Options{}, a)
	a.gone(garbage)
	a.passes()
	a.stays(used...)

	t.Log("they are what protects")
	for _, obj := range all {
		a.Expect(a.cluster.Client.Delete(t.Context(), obj,
			client.GracePeriodSeconds(0), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	}
	a.gone(used...)
}

func TestGC6_YoungObjectsStay(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	young := a.secret(a.namespace, "x")
	clock := clocktesting.NewFakePassiveClock(young.CreationTimestamp.Add(30 * time.Second))
	collect(t, Options{MinimumLifetime: ptr.To(time.Minute), Clock: clock}, a)
	a.passes()
	a.stays(young)
	clock.SetTime(young.CreationTimestamp.Add(time.Minute - time.Nanosecond))
	a.passes()
	a.stays(young)
	clock.SetTime(young.CreationTimestamp.Add(time.Minute))
	a.gone(young)
}

func TestGC6_TheLifetimeIsTenMinutes(t *testing.T) {
	NewWithT(t).Expect(newCollector(Options{}).lifetime).To(Equal(10 * time.Minute))
}

func TestGC7_APassIsRepeatedAfterThePeriod(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	collect(t, Options{}, a)
	for range 3 {
		garbage := a.secret(a.namespace, "x")
		a.gone(garbage)
	}
}

func TestGC7_TheResultOfAPassIsThePeriod(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	c := newCollector(Options{Settings: func(clustercache.Status) (Settings, bool) {
		return Settings{SyncPeriod: 42 * time.Minute}, true
	}})
	uncached, err := shared.clusters.GetUncachedClient(t.Context(), a.key)
	a.Expect(err).NotTo(HaveOccurred())
	status, _ := shared.clusters.GetStatus(a.key)
	result, err := c.Reconcile(t.Context(), &multicluster.Target{Status: status, Client: uncached}, client.ObjectKey{})
	a.Expect(err).NotTo(HaveOccurred())
	a.Expect(result.RequeueAfter).To(Equal(42 * time.Minute))
}

func TestReferences(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	const prefix = "reference.resources.gardener.cloud/"
	tests := []struct {
		name, key string
		value     func(name string) string
		protects  bool
	}{
		{"GC-8 an arbitrary hash", prefix + "secret-foo", func(name string) string { return name }, true},
		{"GC-8 the hash of another name", prefix + "secret-82a3537f", func(name string) string { return name }, true},
		{"GC-9 an empty value", prefix + "secret-82a3537f", func(string) string { return "" }, false},
		{"GC-10 an unknown kind", prefix + "kind-82a3537f", func(name string) string { return name }, false},
		{"GC-10 another kind", prefix + "configmap-82a3537f", func(name string) string { return name }, false},
		{"GC-10 another prefix", "resources.gardener.cloud/secret-82a3537f", func(name string) string { return name }, false},
	}
	var objects []client.Object
	for i, test := range tests {
		name := fmt.Sprintf("test-%d", i)
		a.create(pod(a.namespace, name, map[string]string{test.key: test.value(name)}))
		objects = append(objects, a.secret(a.namespace, name))
	}
	collect(t, Options{}, a)
	a.passes()
	a.passes()
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(a.exists(objects[i])()).To(Equal(test.protects))
		})
	}
}

func TestExampleOfTheDocumentation(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	unused, used := a.configMap(a.namespace, "test-1234"), a.configMap(a.namespace, "test-5678")
	a.create(pod(a.namespace, "example",
		map[string]string{"reference.resources.gardener.cloud/configmap-82a3537f": "test-5678"}))
	collect(t, Options{}, a)
	a.gone(unused)
	a.passes()
	a.stays(used)
}

func TestAllPagesAreRead(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	var used, garbage []client.Object
	for i := range 5 {
		name := fmt.Sprintf("used-%d", i)
		a.create(pod(a.namespace, name, refersTo(name)))
		used = append(used, a.secret(a.namespace, name), a.configMap(a.namespace, name))
		garbage = append(garbage, a.secret(a.namespace, fmt.Sprintf("unused-%d", i)))
	}
	collect(t, Options{pageSize: 2}, a)
	a.gone(garbage...)
	a.passes()
	a.stays(used...)
}

func TestPassesThatAreBoundedComeToEverything(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	var used []client.Object
	for i := range 5 {
		name := fmt.Sprintf("a-%d", i)
		a.create(pod(a.namespace, name, refersTo(name)))
		used = append(used, a.secret(a.namespace, name))
	}
	last := a.secret(a.namespace, "z") // three passes away
	collect(t, Options{pageSize: 3, maxCandidates: 4}, a)
	a.gone(last)
	a.stays(used...)
	first := a.secret(a.namespace, "a")
	a.gone(first)
}

func TestSettingsAreNeeded(t *testing.T) {
	_, err := New(multicluster.Environment{}, Options{})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("it needs settings")))
}
