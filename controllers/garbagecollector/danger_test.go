package garbagecollector

import (
	"context"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
)

// GC-19 and the statement MC-9 about kinds that come later, and what follows when ManagedResources go.
func TestGC19_KindsThatAreNotThere(t *testing.T) {
	b := register(t, shared.b, "b", nil)
	clearEvents()
	collect(t, Options{}, b)

	t.Log("GC-19 neither kind is there")
	garbage := b.secret(b.namespace, "garbage")
	b.gone(garbage)

	t.Log("MC-9 they come later")
	for _, crd := range append(chart.CRDs(), prometheusCRD()) {
		b.create(crd)
	}
	all := referrers(b.namespace)
	var used []client.Object
	for _, name := range []string{"managedresource", "prometheus"} {
		b.create(all[name])
		used = append(used, b.secret(b.namespace, name))
	}
	garbage = b.secret(b.namespace, "garbage")
	b.gone(garbage)
	b.passes()
	b.stays(used...)
	b.Expect(shared.recorder.Events).NotTo(Receive())

	t.Log("ManagedResources go: what they referred to is unknown")
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "managedresources.resources.gardener.cloud"},
	}
	b.Expect(b.cluster.Client.Delete(t.Context(), crd)).To(Succeed())
	b.Eventually(shared.recorder.Events).Should(Receive(ContainSubstring("GarbageCollectionSkipped")))
	garbage = b.secret(b.namespace, "garbage")
	b.Eventually(shared.recorder.Events).Should(Receive(ContainSubstring("GarbageCollectionSkipped")))
	b.Consistently(b.exists(garbage), "500ms").Should(BeTrue())
}

func TestGC20_ForbiddenToListPods(t *testing.T) {
	blind := register(t, shared.a, "blind", restricted(t, shared.a, collectRule, listRule))
	garbage := blind.secret(blind.namespace, "x")
	clearEvents()
	collect(t, Options{}, blind)
	blind.Eventually(shared.recorder.Events).Should(Receive(And(
		HavePrefix("Warning GarbageCollectionFailed"), ContainSubstring("Pod"), ContainSubstring("forbidden"),
	)))
	blind.passes()
	blind.stays(garbage)
}

func TestTheDocumentedRightsSuffice(t *testing.T) {
	a := register(t, shared.a, "least", restricted(t, shared.a, collectRule, podsRule, listRule))
	garbage := []client.Object{a.secret(a.namespace, "x"), a.configMap(a.namespace, "x")}
	clearEvents()
	collect(t, Options{}, a)
	a.gone(garbage...)
	a.passes()
	a.Expect(shared.recorder.Events).NotTo(Receive())
}

func TestGC21_WhatVanishedIsNoError(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	objects := map[string]client.Object{"x": a.secret(a.namespace, "x"), "y": a.secret(a.namespace, "y")}
	clearEvents()
	var once sync.Map
	intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		name := path.Base(r.URL.Path)
		gone := name == "x" && r.Method == http.MethodDelete || name == "y" && r.Method == http.MethodGet
		if !gone {
			return nil
		}
		if _, done := once.LoadOrStore(name, true); !done {
			a.Expect(a.cluster.Client.Delete(context.Background(), objects[name])).To(Succeed())
		}
		return nil
	})
	collect(t, Options{}, a)
	a.gone(objects["x"], objects["y"])
	a.passes()
	a.Expect(shared.recorder.Events).NotTo(Receive())
}

func TestGC22_OneFailureDoesNotStopTheOthers(t *testing.T) {
	reading := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"get", "list"},
	}
	some := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a", "z"}, Verbs: []string{"delete"},
	}
	a := register(t, shared.a, "partial", restricted(t, shared.a, reading, some, podsRule, listRule))
	first, stuck, last := a.secret(a.namespace, "a"), a.secret(a.namespace, "m"), a.secret(a.namespace, "z")
	clearEvents()
	collect(t, Options{}, a)
	a.gone(first, last)
	a.stays(stuck)
	a.Eventually(shared.recorder.Events).Should(Receive(And(
		HavePrefix("Warning GarbageCollectionFailed"), ContainSubstring("deleting Secret "+a.namespace+"/m"),
	)))
}

// Each test has something happen to an object at the worst of times.
func TestGC25_ReferencedAgainAfterTheLists(t *testing.T) {
	for name, test := range map[string]struct {
		when func(s *site, r *http.Request) bool
		do   func(s *site) error
	}{
		"GC-25 a ManagedResource, after the lists": {isRead, func(s *site) error {
			return s.cluster.Client.Create(context.Background(), &resourcesv1alpha1.ManagedResource{
				ObjectMeta: referringMeta(s.namespace, "x"),
				Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{}},
			})
		}},
		"GC-25 a pod, after the lists": {isRead, func(s *site) error {
			return s.cluster.Client.Create(context.Background(), pod(s.namespace, "x", refersTo("x")))
		}},
		"GC-25 the label is gone, after the lists":     {isRead, func(s *site) error { return s.label("x", "false") }},
		"GC-25 the label is gone, before the deletion": {isDelete, func(s *site) error { return s.label("x", "false") }},
		"GC-25 another object of that name, before the deletion": {isDelete, func(s *site) error {
			if err := s.cluster.Client.Delete(context.Background(), s.bare("x")); err != nil {
				return err
			}
			return s.cluster.Client.Create(context.Background(), s.bare("x"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := register(t, shared.a, "a", nil)
			object := a.secret(a.namespace, "x")
			clearEvents()
			done := make(chan struct{})
			var once sync.Once
			intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
				if test.when(a, r) {
					once.Do(func() {
						a.Expect(test.do(a)).To(Succeed())
						close(done)
					})
				}
				return nil
			})
			collect(t, Options{}, a)
			a.Eventually(done).Should(BeClosed())
			a.passes()
			a.stays(object)
			a.Expect(shared.recorder.Events).NotTo(Receive())
		})
	}
}

func isRead(s *site, r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+s.namespace+"/secrets/x")
}

func isDelete(s *site, r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+s.namespace+"/secrets/x")
}

// bare is a Secret of the test without the label.
func (s *site) bare(name string) client.Object {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

func (s *site) label(name, value string) error {
	secret := s.bare(name)
	patch := []byte(`{"metadata":{"labels":{"` + references.Label + `":"` + value + `"}}}`)
	return s.cluster.Client.Patch(context.Background(), secret, client.RawPatch("application/merge-patch+json", patch))
}

func TestAPassWithAPageMissingDeletesNothing(t *testing.T) {
	for name, faulty := range map[string]func(r *http.Request) bool{
		"what may be garbage":       func(r *http.Request) bool { return isList(r, "secrets") },
		"what refers to it":         func(r *http.Request) bool { return isList(r, "deployments") },
		"ManagedResources":          func(r *http.Request) bool { return isList(r, "managedresources") },
		"the same in the namespace": func(r *http.Request) bool { return isList(r, "pods") && strings.Contains(r.URL.Path, "/namespaces/") },
	} {
		t.Run(name, func(t *testing.T) {
			a := register(t, shared.a, "a", nil)
			all := referrers(a.namespace)
			for _, kind := range []string{"deployment", "managedresource", "pod"} {
				for _, name := range []string{"1", "2", "3"} {
					obj, is := all[kind].DeepCopyObject().(client.Object)
					a.Expect(is).To(BeTrue())
					obj.SetName(kind + name)
					a.create(obj)
				}
			}
			objects := []client.Object{
				a.secret(a.namespace, "x1"), a.secret(a.namespace, "x2"), a.secret(a.namespace, "x3"),
			}
			clearEvents()
			intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
				if faulty(r) && r.URL.Query().Get("continue") != "" {
					return answer(http.StatusGone, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
				}
				return nil
			})
			collect(t, Options{pageSize: 1}, a)
			a.Eventually(shared.recorder.Events).Should(Receive(ContainSubstring("GarbageCollectionFailed")))
			a.stays(objects...)
		})
	}
}

// A kind that every cluster has is not believed to be missing.
func TestNoOtherKindMayBeMissing(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	object := a.secret(a.namespace, "x")
	clearEvents()
	intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if isList(r, "jobs") {
			return answer(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
		return nil
	})
	collect(t, Options{}, a)
	a.Eventually(shared.recorder.Events).Should(Receive(ContainSubstring("GarbageCollectionFailed")))
	a.stays(object)
}

// ManagedResources that are known to be there and answer 404 are not believed to be gone.
func TestManagedResourcesThatVanishDuringAPass(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	object := a.secret(a.namespace, "x")
	clearEvents()
	intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if isList(r, "managedresources") {
			return answer(http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		}
		return nil
	})
	collect(t, Options{}, a)
	a.Eventually(shared.recorder.Events).Should(Receive(ContainSubstring("GarbageCollectionSkipped")))
	a.stays(object)
}

func answer(code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

func TestGC26_TargetsDoNotMix(t *testing.T) {
	a, b := register(t, shared.a, "a", nil), register(t, shared.b, "b", nil)
	same := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.namespace}}
	b.Expect(b.cluster.Client.Create(t.Context(), same)).To(Succeed())
	b.create(pod(a.namespace, "x", refersTo("x")))
	clearEvents()
	intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key == b.key && isList(r, "deployments") {
			return answer(http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`)
		}
		return nil
	})
	inA, inB := a.secret(a.namespace, "x"), b.secret(b.namespace, "unused")
	collect(t, Options{}, a, b)

	t.Log("GC-26 a reference in B does not protect, and lists that fail there do not delay A")
	a.gone(inA)
	b.Eventually(shared.recorder.Events).Should(Receive(ContainSubstring("GarbageCollectionFailed")))
	again := a.secret(a.namespace, "x")
	a.gone(again)

	t.Log("GC-26 what nothing refers to in A is not deleted in B")
	b.stays(inB)
}

func TestAPassEndsWithTheRegistration(t *testing.T) {
	a := register(t, shared.a, "a", nil)
	object := a.secret(a.namespace, "x")
	done := make(chan struct{})
	var once sync.Once
	intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if isRead(a, r) {
			once.Do(func() {
				err := shared.a.Client.DeleteAllOf(context.Background(), &corev1.Secret{}, client.InNamespace(a.key.Namespace))
				a.Expect(err).NotTo(HaveOccurred())
				a.Eventually(a.registered).Should(BeFalse())
				close(done)
			})
		}
		return nil
	})
	collect(t, Options{}, a)
	a.Eventually(done).Should(BeClosed())
	a.Consistently(a.exists(object), "500ms").Should(BeTrue())
}
