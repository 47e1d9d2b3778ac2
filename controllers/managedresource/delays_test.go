package managedresource_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// stepped is a clock that stands still between steps. Its timers are real.
type stepped struct {
	clock.RealClock

	mu  sync.Mutex
	now time.Time
}

func newStepped() *stepped { return &stepped{now: time.Now()} }

func (s *stepped) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *stepped) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

func (s *stepped) step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fail has a ManagedResource fail until its pause is longer than soon lets pass.
func (p place) fail(c *stepped, name string) {
	p.t.Helper()
	for range 10 {
		c.step(5 * time.Minute)
		p.operation(name, resourcesv1alpha1.OperationReconcile)
		p.await(name, Not(HaveField("Annotations", HaveKey(resourcesv1alpha1.OperationAnnotation))), has(applied, no, ""))
	}
}

// soon waits for a condition while at most a minute passes by the clock of the hub.
func (p place) soon(c *stepped, condition func() bool) {
	p.t.Helper()
	steps := 0
	p.Eventually(func() bool {
		if steps++; steps <= 60 {
			c.step(time.Second)
		}
		return condition()
	}).Should(BeTrue())
}

// What lacks a kind is applied when another ManagedResource brings that, however long it has failed.
func TestWhatLacksAKindIsAppliedWhenThatComes(t *testing.T) {
	t.Parallel()
	p, c := apart(t, nil), newStepped()
	p.register("a", target.Kubeconfig())
	defer p.run(hubtest.HubOptions{Clock: c})()
	p.content("content", p.plant("rose", "", 1))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, "", "Plant"))
	p.fail(c, "mr")
	p.content("crd", p.crd("Cluster"))
	p.mr("crd", "crd")
	p.awaitReady("crd")
	p.soon(c, func() bool { ok, err := has(ready, yes, "").Match(p.get("mr")); return ok && err == nil })
}

// An object that is deleted while it is corrected, and cannot be created at first, comes back at its own pace: what
// else of its ManagedResource fails, and for how long that is not tried again, is nothing to it.
func TestObjectDeletedAmidItsCorrectionComesBackBesideFailures(t *testing.T) {
	t.Parallel()
	p, c := apart(t, nil), newStepped()
	p.register("a", target.Kubeconfig())
	one := p.configMap("one")
	var disturbed atomic.Int32 // how many applies are
	defer p.run(hubtest.HubOptions{Clock: c, WrapTarget: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/configmaps/one") {
				return next.RoundTrip(r)
			}
			switch disturbed.Add(-1) {
			case 1:
				if err := target.Client.Delete(r.Context(), p.configMap("one")); err != nil {
					return nil, err
				}
			case 0:
				const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure",` +
					`"message":"not now","reason":"Forbidden","code":403}`
				return &http.Response{
					StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
					Body: io.NopCloser(strings.NewReader(refusal)), ContentLength: int64(len(refusal)),
				}, nil
			}
			return next.RoundTrip(r)
		})
	}})()
	p.content("content", hubtest.ConfigMap(p.ns, "one", "1"), invalidConfigMap(p))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed))
	p.awaitValue("one", "1")
	p.fail(c, "mr")
	before := read(p, one).UID
	disturbed.Store(2)
	p.edit(target, one, func() { one.Data["key"] = "by hand" })
	p.soon(c, func() bool {
		live := p.configMap("one")
		err := target.Client.Get(p.ctx, client.ObjectKeyFromObject(live), live)
		return err == nil && live.UID != before && live.Data["key"] == "1"
	})
	p.Expect(disturbed.Load()).To(BeNumerically("<", 0))
}

// Whoever changes what he may change causes a look at the object. However many there were, what is wrong is corrected
// at once.
func TestLooksThatFoundNothingDelayNoCorrection(t *testing.T) {
	t.Parallel()
	p, c := apart(t, nil), newStepped()
	p.register("a", target.Kubeconfig())
	defer p.run(hubtest.HubOptions{Clock: c})()
	p.content("content", fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: a.trellis.test
  clientConfig: {service: {namespace: nowhere, name: nothing}}
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [{apiGroups: [nothing.trellis.test], apiVersions: [v1], operations: [CREATE], resources: [things], scope: "*"}]
`, p.ns))
	p.mr("mr", "content")
	p.awaitReady("mr")
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: p.ns}}
	t.Cleanup(func() { _ = target.Client.Delete(p.ctx, webhook) })
	for i := range 12 {
		ca := base64.StdEncoding.EncodeToString([][]byte{target.RESTConfig().CAData, p.source.RESTConfig().CAData}[i%2])
		patch := fmt.Sprintf(`{"webhooks":[{"name":"a.trellis.test","clientConfig":{"caBundle":%q}}]}`, ca)
		injected := client.RawPatch(types.StrategicMergePatchType, []byte(patch))
		p.Expect(target.Client.Patch(p.ctx, webhook, injected, client.FieldOwner(fmt.Sprint("injector-", i)))).To(Succeed())
		c.step(2 * time.Second)
		p.fence()
	}
	p.edit(target, webhook, func() { webhook.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail) })
	c.step(2 * time.Second)
	p.Eventually(func() admissionregistrationv1.FailurePolicyType {
		return *read(p, webhook).Webhooks[0].FailurePolicy
	}).Should(Equal(admissionregistrationv1.Ignore))
}
