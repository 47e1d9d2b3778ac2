package apiserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

func schemaOf(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
}

func TestWhoIsNotKnownGetsA401(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{Authenticate: func(r *http.Request) (apiserver.User, bool) {
		return apiserver.User{Name: "hub", UID: "7", Groups: []string{"g"}}, r.Header.Get("Authorization") == "Bearer good"
	}})
	refused := s.send(g, "GET", cms, "", "Authorization", "Bearer bad")
	g.Expect(refused.code).To(Equal(http.StatusUnauthorized))
	g.Expect(refused.status(g).Reason).To(Equal(metav1.StatusReasonUnauthorized))
	g.Expect(s.send(g, "GET", cms, "").code).To(Equal(http.StatusUnauthorized))
	g.Expect(s.send(g, "GET", "/readyz", "").text).To(Equal("ok"))
	g.Expect(s.send(g, "GET", "/readyz", "", "Authorization", "Bearer bad").code).To(Equal(http.StatusUnauthorized))
	review := s.send(g, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{apiVersion: authentication.k8s.io/v1, kind: SelfSubjectReview}", "Authorization", "Bearer good")
	g.Expect(review.at("status", "userInfo")).To(Equal(map[string]any{"username": "hub", "uid": "7", "groups": []any{"g"}}))
}

func TestAStoppedServerIsUnavailable(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	s.Stop()
	g.Expect(s.send(g, "GET", cms, "").status(g).Reason).To(Equal(metav1.StatusReasonServiceUnavailable))
	g.Expect(s.send(g, "GET", "/readyz", "").code).To(Equal(http.StatusServiceUnavailable))
	s.Stop()
}

func TestTheClockOfAServerMayBeWrong(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{Clock: func() time.Time { return time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC) }})
	created := s.send(g, "POST", cms, configMap("x", "data: {a: b}"))
	g.Expect(created.at("metadata", "creationTimestamp")).To(Equal("1999-12-31T00:00:00Z"))
	g.Expect(created.at("metadata", "managedFields")).To(ConsistOf(HaveKeyWithValue("time", "1999-12-31T00:00:00Z")))
}

func TestTheUIDOfAServerMustBeOne(t *testing.T) {
	_, err := apiserver.New(apiserver.Options{Name: "a", UID: "b"})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`namespace kube-system of API server "a"`)))
}

func TestDiscoveryIsSentOnce(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	first := s.send(g, "GET", "/apis", "", "Accept", aggregated+",application/json")
	g.Expect(first.header.Get("Content-Type")).To(Equal(aggregated))
	g.Expect(first.at("kind")).To(Equal("APIGroupDiscoveryList"))
	again := s.send(g, "GET", "/apis", "", "Accept", aggregated, "If-None-Match", first.header.Get("ETag"))
	g.Expect(again.code).To(Equal(http.StatusNotModified))
	g.Expect(again.text).To(BeEmpty())
	s.FailDiscovery(schema.GroupVersion{Group: "apps", Version: "v1"})
	stale := s.send(g, "GET", "/apis", "", "Accept", aggregated, "If-None-Match", first.header.Get("ETag"))
	g.Expect(stale.code).To(Equal(http.StatusOK))
	g.Expect(stale.text).To(ContainSubstring(`"Stale"`))
	g.Expect(s.send(g, "GET", "/apis/apps/v1", "").code).To(Equal(http.StatusServiceUnavailable))
}

func TestWritersAtTheSameTimeLoseNothing(t *testing.T) {
	const writers, writes = 4, 25
	g := NewWithT(t)
	target := journal.New(journal.Options{}).Target("t")
	s := start(t, apiserver.Options{Journal: target})
	g.Expect(s.send(g, "POST", cms, configMap("x", "")).code).To(Equal(http.StatusCreated))
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range writes {
				for {
					a := s.send(g, "PATCH", cms+"/x", fmt.Sprintf("{data: {k%d-%d: v}}", w, i), "Content-Type", "application/merge-patch+json")
					if a.code == http.StatusOK {
						break
					}
					g.Expect(a.code).To(Equal(http.StatusConflict))
				}
			}
		})
	}
	group.Wait()
	g.Expect(s.send(g, "GET", cms+"/x", "").at("data")).To(HaveLen(writers * writes))
	changes := target.History().Changes
	g.Expect(changes).To(HaveLen(1 + writers*writes))
	g.Expect(slices.IsSortedFunc(changes, func(a, b journal.Change) int { return int(a.ResourceVersion) - int(b.ResourceVersion) })).To(BeTrue())
}

func TestTheJournalHasRequestsAndWrites(t *testing.T) {
	g := NewWithT(t)
	j := journal.New(journal.Options{})
	target := j.Target("t")
	s := start(t, apiserver.Options{Journal: target})
	apply := func(data string) answer {
		return s.send(g, "PATCH", cms+"/x?fieldManager=hub", configMap("x", data), "Content-Type", "application/apply-patch+yaml")
	}
	g.Expect(apply("data: {a: b}").code).To(Equal(http.StatusCreated))
	g.Expect(apply("data: {a: b}").code).To(Equal(http.StatusOK))
	g.Expect(apply("data: {a: c}").code).To(Equal(http.StatusOK))
	g.Expect(s.send(g, "PATCH", cms+"/x?dryRun=All", "{data: {a: d}}", "Content-Type", "application/merge-patch+json").code).To(Equal(http.StatusOK))
	g.Expect(s.send(g, "DELETE", cms+"/x?dryRun=All", "").code).To(Equal(http.StatusOK))
	g.Expect(s.send(g, "DELETE", cms+"/x", "").code).To(Equal(http.StatusOK))
	g.Expect(s.send(g, "GET", cms+"/x", "").code).To(Equal(http.StatusNotFound))

	changes := target.History().Changes
	g.Expect(changes).To(HaveLen(4))
	for i, want := range []struct {
		verb                   string
		changed, before, after bool
	}{{"apply", true, false, true}, {"apply", false, true, true}, {"apply", true, true, true}, {"delete", true, true, false}} {
		c := changes[i]
		g.Expect(c.Verb).To(Equal(want.verb))
		g.Expect(c.Changed).To(Equal(want.changed), "change %d", i)
		g.Expect([]bool{c.Before > 0, c.After > 0}).To(Equal([]bool{want.before, want.after}), "change %d", i)
		g.Expect(c.Resource).To(Equal("configmaps"))
		g.Expect(c.Namespace + "/" + c.Name).To(Equal("default/x"))
		g.Expect(c.UserAgent).To(Equal("tester/v1"))
		g.Expect(c.User).To(Equal("system:admin"))
	}
	g.Expect(changes[0].Manager).To(Equal("hub"))
	g.Expect(changes[3].Manager).To(Equal("tester"))
	g.Expect(changes[1].Before).To(Equal(changes[0].After))
	g.Expect(changes[2].After).NotTo(Equal(changes[0].After))

	counted := map[string]int64{}
	for _, c := range target.Counts() {
		counted[fmt.Sprintf("%s %s %d", c.Verb, c.Resource, c.Code)] += c.Requests
	}
	g.Expect(counted).To(Equal(map[string]int64{
		"apply configmaps 201": 1, "apply configmaps 200": 2, "patch configmaps 200": 1, "delete configmaps 200": 2, "get configmaps 404": 1,
	}))
}

// objects decodes a list in YAML.
func objects(g Gomega, texts ...string) []*unstructured.Unstructured {
	var list []*unstructured.Unstructured
	for _, text := range texts {
		o := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
		list = append(list, o)
	}
	return list
}

func TestAPreparedSnapshotFillsServers(t *testing.T) {
	g := NewWithT(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	snapshot, err := apiserver.Prepare(objects(g,
		"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: own, name: x}, data: {a: b}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: own}}",
		"{apiVersion: sim.test/v1, kind: Thing, metadata: {namespace: own, name: t}, spec: {a: x}}",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: own, name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}, status: {availableReplicas: 1}}",
		crd,
	), "hub", now)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(snapshot.Count()).To(Equal(4 + 5))

	load := func(seed int64) *simulator {
		s := start(t, apiserver.Options{UID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"})
		g.Expect(s.Load(snapshot, seed)).To(Succeed())
		return s
	}
	one, same, other := load(1), load(1), load(2)
	get := func(s *simulator, path string) answer {
		a := s.send(g, "GET", path, "")
		g.Expect(a.code).To(Equal(http.StatusOK), a.text)
		return a
	}
	const configMap, deployment = nss + "/own/configmaps/x", "/apis/apps/v1/namespaces/own/deployments/d"
	uid := get(one, configMap).at("metadata", "uid")
	g.Expect(get(same, configMap).at("metadata", "uid")).To(Equal(uid))
	g.Expect(get(other, configMap).at("metadata", "uid")).NotTo(Equal(uid))
	g.Expect(get(one, configMap).at("metadata", "managedFields")).To(ConsistOf(And(HaveKeyWithValue("manager", "hub"), HaveKeyWithValue("operation", "Apply"))))
	g.Expect(get(one, configMap).at("metadata", "creationTimestamp")).To(Equal("2026-01-02T03:04:05Z"))
	g.Expect(get(one, deployment).at("status", "availableReplicas")).To(Equal(1.0))
	g.Expect(get(one, "/apis/sim.test/v1/namespaces/own/things/t").at("spec", "a")).To(Equal("x"))
	g.Expect(get(one, nss+"/kube-system").at("metadata", "uid")).To(Equal("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
	g.Expect(one.Count()).To(Equal(snapshot.Count()))

	// An apply of the same changes nothing, and servers do not see what happens to others.
	again := one.send(g, "PATCH", configMap+"?fieldManager=hub", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: own, name: x}, data: {a: b}}", "Content-Type", "application/apply-patch+yaml")
	g.Expect(again.at("metadata", "resourceVersion")).To(Equal(get(one, configMap).at("metadata", "resourceVersion")))
	g.Expect(one.send(g, "DELETE", configMap, "").code).To(Equal(http.StatusOK))
	g.Expect(get(same, configMap).at("data")).To(Equal(map[string]any{"a": "b"}))

	g.Expect(one.Load(snapshot, 1)).To(MatchError(ContainSubstring("not empty")))
	copied := start(t, apiserver.Options{})
	g.Expect(copied.Load(one.Snapshot(), 3)).To(Succeed())
	g.Expect(copied.Count()).To(Equal(one.Count()))
	g.Expect(copied.send(g, "GET", configMap, "").code).To(Equal(http.StatusNotFound))
}

func TestPrepareSaysWhatItCannotApply(t *testing.T) {
	for name, c := range map[string]struct{ object, message string }{
		"an unknown kind": {"{apiVersion: sim.test/v1, kind: Thing, metadata: {namespace: default, name: t}}",
			"preparing Thing default/t: no resource of the kind"},
		"a missing namespace":  {"{apiVersion: v1, kind: Secret, metadata: {namespace: missing, name: x}}", `namespaces "missing" not found`},
		"what is not accepted": {"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: UPPER}}", "is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := apiserver.Prepare(objects(g, c.object), "hub", time.Now())
			g.Expect(err).To(MatchError(ContainSubstring(c.message)))
		})
	}
}

func TestRequestsThatAreCutShortEndTheirHandlers(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.Host+cms, &endless{})
	g.Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusRequestEntityTooLarge))
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestUIDsFollowFromTheSeed(t *testing.T) {
	uids := func(seed int64) (all []string) {
		g := NewWithT(t)
		s := start(t, apiserver.Options{Seed: seed})
		g.Expect(s.send(g, "POST", cms, configMap("x", "")).code).To(Equal(http.StatusCreated))
		for _, r := range []string{"namespaces", "configmaps"} {
			for _, o := range s.Objects(schemaOf("", r)) {
				all = append(all, string(o.GetUID()))
			}
		}
		return all
	}
	g := NewWithT(t)
	one, two := uids(1), uids(2)
	g.Expect(one).To(HaveLen(5))
	g.Expect(uids(1)).To(Equal(one))
	seen := map[string]bool{}
	for _, uid := range slices.Concat(one, two, uids(0), uids(0)) {
		g.Expect(seen).NotTo(HaveKey(uid))
		seen[uid] = true
	}
}

// TestAClientThatDoesNotReadHoldsNothing asks for a long list that it does not read.
func TestAClientThatDoesNotReadHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	s, err := apiserver.New(apiserver.Options{WriteTimeout: 100 * time.Millisecond})
	g.Expect(err).NotTo(HaveOccurred())
	defer s.Stop()
	for i := range 8 { // more than the buffers of a connection take
		g.Expect(serve(g, s, "POST", cms, configMap(fmt.Sprint("x-", i), "data: {a: "+strings.Repeat("x", 1<<20)+"}"))).To(Equal(http.StatusCreated))
	}
	ended := make(chan struct{}, 1)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		ended <- struct{}{}
	}))
	defer h.Close()
	conn, err := net.Dial("tcp", h.Listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", cms)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(ended, patience).Should(Receive())
}

func TestWritesThatChangeNothingAreRecordedInTheirOrder(t *testing.T) {
	g := NewWithT(t)
	target := journal.New(journal.Options{}).Target("t")
	s := start(t, apiserver.Options{Journal: target})
	g.Expect(s.send(g, "POST", cms, configMap("x", "data: {a: b}")).code).To(Equal(http.StatusCreated))
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i := range 60 {
				body := "{data: {a: b}}"
				if w == 0 {
					body = fmt.Sprintf("{data: {c: v%d}}", i)
				}
				s.send(g, "PATCH", cms+"/x", body, "Content-Type", "application/merge-patch+json")
			}
		})
	}
	group.Wait()
	changes := target.History().Changes
	g.Expect(slices.IsSortedFunc(changes, func(a, b journal.Change) int { return int(a.ResourceVersion) - int(b.ResourceVersion) })).To(BeTrue())
}
