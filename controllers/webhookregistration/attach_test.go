package webhookregistration

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

var (
	hostEntry, markEntry = "host" + domain, "mark" + domain
	ownEntry, probeEntry = ownPrefix + hostEntry, "probe" + domain
)

// HUB-1: objects of each target become what its own settings say.
func TestWhatTargetsGet(t *testing.T) {
	b := newBench(t, nil)
	b.serve(b.listener)
	b.switchOn(shared.A, "api.a")
	b.switchOn(shared.B, "api.b")
	b.start(nil)
	for target, host := range map[*twins.Target]string{shared.A: "api.a", shared.B: "api.b"} {
		b.Eventually(b.condition(target)).Should(Equal(registered))
		want := map[string]string{"own": "x", "host": host, "mark": target.Key.Name}
		b.Expect(create(b.ctx, b.user(target))).To(Equal(want))
		b.Expect(create(b.ctx, target.Client)).To(Equal(want), "the hub's own user")
		b.Expect(create(b.ctx, b.user(target), hubv1alpha1.WebhooksExcludeLabel)).To(HaveLen(1))
	}
	b.switchOn(shared.A, "api.new")
	b.Eventually(func() (map[string]string, error) { return create(b.ctx, b.user(shared.A)) }).Should(
		HaveKeyWithValue("host", "api.new"))
	b.Expect(create(b.ctx, b.user(shared.B))).To(HaveKeyWithValue("host", "api.b"))
}

// HUB-7: what can stop a target comes last, and only if the target can call the hub.
func TestTheOrderOfAttaching(t *testing.T) {
	b := newBench(t, nil)
	reason := errors.New("not yet")
	b.unserved.Store(&reason)
	b.switchOn(shared.B, "api.b")
	address := b.listener.Addr().String()
	b.Expect(b.listener.Close()).To(Succeed())
	stop := b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal("False WebhooksNotServed"))
	mutating, validating := b.names(shared.B)
	b.Expect(append(mutating, validating...)).To(BeEmpty())

	stop()
	b.unserved.Store(nil)
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal("False WebhooksUnreachable"))
	mutating, validating = b.names(shared.B)
	b.Expect(mutating).To(Equal([]string{ownEntry, markEntry}), "none has the policy Fail")
	b.Expect(validating).To(Equal([]string{probeEntry}))
	b.Expect(create(b.ctx, b.user(shared.B))).To(HaveLen(1))
	message := b.targetCluster(shared.B).Status.Conditions[0].Message
	b.Expect(message).To(ContainSubstring("connection refused"))
	b.Expect(message).To(ContainSubstring("(code)"), "the path is secret")

	listener, err := net.Listen("tcp", address)
	b.Expect(err).NotTo(HaveOccurred())
	b.serve(listener)
	b.switchOn(shared.B, "api.c") // a change has it tried again
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	mutating, _ = b.names(shared.B)
	b.Expect(mutating).To(Equal([]string{hostEntry, ownEntry, markEntry}))
	b.Eventually(func() (map[string]string, error) { return create(b.ctx, b.user(shared.B)) }).Should(HaveLen(3))
}

// HUB-9: what others change is undone, and what is in order is not written.
func TestDrift(t *testing.T) {
	b := newBench(t, nil)
	b.serve(b.listener)
	b.switchOn(shared.B, "api.b")
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	want, probes := b.names(shared.B)
	for name, harm := range map[string]func(client.Client, *admissionregistrationv1.MutatingWebhookConfiguration) error{
		"deleted": func(c client.Client, m *admissionregistrationv1.MutatingWebhookConfiguration) error {
			return c.Delete(b.ctx, m)
		},
		"edited": func(c client.Client, m *admissionregistrationv1.MutatingWebhookConfiguration) error {
			m.Webhooks = m.Webhooks[:1]
			m.Webhooks[0].ClientConfig.CABundle = nil
			return c.Update(b.ctx, m)
		},
		"unlabelled": func(c client.Client, m *admissionregistrationv1.MutatingWebhookConfiguration) error {
			m.Labels, m.Webhooks = nil, nil
			return c.Update(b.ctx, m)
		},
	} {
		all := &admissionregistrationv1.MutatingWebhookConfigurationList{}
		labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
		b.Expect(shared.B.Client.List(b.ctx, all, labelled)).To(Succeed())
		b.Expect(all.Items).To(HaveLen(1), name)
		b.Expect(harm(shared.B.Client, &all.Items[0])).To(Succeed())
		b.Eventually(func() []string { now, _ := b.names(shared.B); return now }).Should(Equal(want), name)
	}
	_, now := b.names(shared.B)
	b.Expect(now).To(Equal(probes))
	writes := func() int {
		return len(shared.Calls(shared.B.Key, func(c twins.Call) bool {
			return c.Method != http.MethodGet && strings.Contains(c.Path, "webhookconfigurations")
		}))
	}
	looks := func() int {
		return len(shared.Calls(shared.B.Key, func(c twins.Call) bool {
			return strings.HasSuffix(c.Path, "selfsubjectaccessreviews")
		}))
	}
	before := looks()
	b.Eventually(looks).Should(BeNumerically(">", before+1))
	written := writes()
	before = looks()
	b.Eventually(looks).Should(BeNumerically(">", before+3))
	b.Expect(writes()).To(Equal(written))
}

// HUB-8: what calls is deleted before the hub forgets that there is something to delete.
func TestDetaching(t *testing.T) {
	b := newBench(t, nil)
	b.serve(b.listener)
	b.switchOn(shared.A, "api.a")
	b.switchOn(shared.B, "api.b")
	stop := b.start(nil)
	for _, target := range []*twins.Target{shared.A, shared.B} {
		b.Eventually(b.condition(target)).Should(Equal(registered))
	}
	b.switchOff(shared.B)
	b.Eventually(b.condition(shared.B)).Should(BeEmpty())
	mutating, validating := b.names(shared.B)
	b.Expect(append(mutating, validating...)).To(BeEmpty())
	b.Expect(create(b.ctx, b.user(shared.B))).To(HaveLen(1))

	// A hub that serves no webhooks any longer cleans up, too. One that is paused there does not.
	stop()
	paused := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))
	b.Expect(source.Patch(b.ctx, b.targetCluster(shared.A), paused)).To(Succeed())
	stop = b.start(func(o *Options) { o.Webhooks, o.Store, o.Served = nil, nil, nil })
	mutating, _ = b.names(shared.A)
	b.Expect(mutating).To(HaveLen(3))
	stop()
	b.Expect(b.condition(shared.A)()).To(Equal(registered))
	goes := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":false}}`))
	b.Expect(source.Patch(b.ctx, b.targetCluster(shared.A), goes)).To(Succeed())
	b.start(func(o *Options) { o.Webhooks, o.Store, o.Served = nil, nil, nil })
	b.Eventually(b.condition(shared.A)).Should(BeEmpty())
	mutating, validating = b.names(shared.A)
	b.Expect(append(mutating, validating...)).To(BeEmpty())
}

// HUB-8: what was written before webhooks are switched off is deleted, although no condition says yet that it is there.
func TestSwitchedOffWhileAttaching(t *testing.T) {
	b := newBench(t, nil)
	b.serve(b.listener)
	const none, written, off = 0, 1, 2
	var state atomic.Int32
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key != shared.A.Key || r.Method == http.MethodGet {
			return nil
		}
		if strings.HasSuffix(r.URL.Path, "/mutatingwebhookconfigurations") {
			state.CompareAndSwap(none, written)
		} else if state.CompareAndSwap(written, off) {
			b.switchOff(shared.A)
		}
		return nil
	})
	b.switchOn(shared.A, "api.a")
	b.start(func(o *Options) { o.period = time.Hour })
	b.Eventually(state.Load).Should(BeEquivalentTo(off))
	b.Eventually(func() []string {
		mutating, validating := b.names(shared.A)
		return append(mutating, validating...)
	}).Should(BeEmpty())
	b.Eventually(b.condition(shared.A)).Should(BeEmpty())
}

// A hub that cannot be called does not stop its own repair, nor pods that it needs.
//
// HUB-11: objects with the label are not mutated.
func TestAHubThatIsDown(t *testing.T) {
	b := newBench(t, nil)
	_, stop := b.serve(b.listener)
	b.switchOn(shared.B, "api.b")
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	stop()
	b.Eventually(func() error { _, err := create(b.ctx, b.user(shared.B)); return err }).Should(
		MatchError(ContainSubstring("failed calling webhook")))
	b.Expect(create(b.ctx, shared.B.Client)).To(HaveLen(1), "the hub's own user")
	b.Expect(create(b.ctx, b.user(shared.B), hubv1alpha1.WebhooksExcludeLabel)).To(HaveLen(1), "HUB-11")
	b.Eventually(b.condition(shared.B)).Should(Equal("False WebhooksUnreachable"))
	mutating, _ := b.names(shared.B)
	b.Expect(mutating).To(ContainElement(hostEntry), "a policy Fail that the settings ask for is kept")
	b.switchOff(shared.B)
	b.Eventually(b.condition(shared.B)).Should(BeEmpty())
	b.Expect(create(b.ctx, b.user(shared.B))).To(HaveLen(1))
}

// HUB-10: a hub leaves alone what is of another one, or of a resource manager.
func TestNames(t *testing.T) {
	b := newBench(t, nil)
	b.serve(b.listener)
	for _, name := range []string{"gardener-resource-manager", "gardener-resource-manager-shoot"} {
		shared.B.Create(t, &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
		})
	}
	b.switchOn(shared.B, "api.b")
	b.start(nil)
	b.start(func(o *Options) { o.ID = "another-hub" })
	count := func() int {
		all := &admissionregistrationv1.MutatingWebhookConfigurationList{}
		b.Expect(shared.B.Client.List(b.ctx, all)).To(Succeed())
		return len(all.Items)
	}
	b.Eventually(count).Should(Equal(4))
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
}
