package managedresource_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
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
	"github.com/trellis-hub/trellis/hack/testbed"
)

// ahead is the real clock, but for what it was put forward. Its timers are real.
type ahead struct {
	clock.RealClock

	by atomic.Int64
}

func (a *ahead) Now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

func (a *ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }

func (a *ahead) forward(d time.Duration) { a.by.Add(int64(d)) }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fail has a ManagedResource fail until its pause is five minutes, longer than any test waits.
func (p place) fail(c *ahead, name string) {
	p.t.Helper()
	for range 10 {
		c.forward(5 * time.Minute)
		p.operation(name, resourcesv1alpha1.OperationReconcile)
		p.await(name, Not(HaveField("Annotations", HaveKey(resourcesv1alpha1.OperationAnnotation))), has(applied, no, ""))
	}
}

// What lacks a kind is applied when another ManagedResource brings that, however long it has failed.
func TestWhatLacksAKindIsAppliedWhenThatComes(t *testing.T) {
	t.Parallel()
	p, c := apart(t, nil), &ahead{}
	p.register("a", target.Kubeconfig())
	defer p.run(testbed.HubOptions{Clock: c})()
	p.content("content", p.plant("rose", "", 1))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, "", "Plant"))
	p.fail(c, "mr")
	p.content("crd", p.crd("Cluster"))
	p.mr("crd", "crd")
	p.awaitReady("crd")
	p.awaitReady("mr")
}

// An object that is deleted while it is corrected, and cannot be created at first, comes back at its own pace: what
// else of its ManagedResource fails, and for how long that is not tried again, is nothing to it.
func TestObjectDeletedAmidItsCorrectionComesBackBesideFailures(t *testing.T) {
	t.Parallel()
	p, c := apart(t, nil), &ahead{}
	p.register("a", target.Kubeconfig())
	one := p.configMap("one")
	var disturbed, sent atomic.Int32 // how many applies are, and how many there were
	defer p.run(testbed.HubOptions{Clock: c, WrapTarget: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.HasSuffix(r.URL.Path, "/configmaps/one") {
				return next.RoundTrip(r)
			}
			defer sent.Add(1)
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
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), invalidConfigMap(p))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed))
	p.awaitValue("one", "1")
	p.fail(c, "mr")
	// The last of the eleven runs may still be at work. It must not be the one that is disturbed: what a run of everything
	// fails at waits for the next one.
	p.Eventually(sent.Load).Should(BeNumerically(">=", 11))
	before := read(p, one).UID
	disturbed.Store(2)
	byHand := client.RawPatch(types.MergePatchType, []byte(`{"data":{"key":"by hand"}}`))
	p.Expect(target.Client.Patch(p.ctx, one, byHand)).To(Succeed())
	p.Eventually(func() bool {
		live := p.configMap("one")
		err := target.Client.Get(p.ctx, client.ObjectKeyFromObject(live), live)
		return err == nil && live.UID != before && live.Data["key"] == "1"
	}).Should(BeTrue())
	p.Expect(disturbed.Load()).To(BeNumerically("<", 0))
}

// A permitted change causes a look at the object. However many there were, what is wrong is corrected at
// once.
func TestLooksThatFoundNothingDelayNoCorrection(t *testing.T) {
	t.Parallel()
	p, c := apart(t, nil), &ahead{}
	p.register("a", target.Kubeconfig())
	defer p.run(testbed.HubOptions{Clock: c})()
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
		c.forward(time.Minute)
		p.fence()
	}
	p.edit(target, webhook, func() { webhook.Webhooks[0].FailurePolicy = ptr.To(admissionregistrationv1.Fail) })
	// The correction of an object that is fought over would wait for a minute.
	p.Eventually(func() admissionregistrationv1.FailurePolicyType {
		return *read(p, webhook).Webhooks[0].FailurePolicy
	}).WithTimeout(45 * time.Second).Should(Equal(admissionregistrationv1.Ignore))
}
