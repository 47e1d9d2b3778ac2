package tokeninvalidator

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

// purpose and both are the labels of a Secret whose token stays valid, and is to be invalid.
var purpose, both = labelled(PurposeLabel), labelled(PurposeLabel, ConsiderLabel)

func TestTI3_SecretsFollowTheirServiceAccount(t *testing.T) {
	b := newBench(t)
	account := b.account(shared.A, "a", nil)
	b.account(shared.A, "other", nil)
	b.patch(shared.A, account, `{"secrets":[{"name":"s1"},{"name":"s2"}]}`)
	for _, name := range []string{"s1", "s2", "unlisted"} {
		b.secret(shared.A, name, "a")
	}
	b.secret(shared.A, "other", "other")
	b.start(nil)
	for _, name := range []string{"s1", "s2", "unlisted", "other"} {
		b.Eventually(b.labels(shared.A, name)).Should(Equal(purpose))
	}
	b.patch(shared.A, account, `{"automountServiceAccountToken":false}`)
	for _, name := range []string{"s1", "s2", "unlisted"} { // Gardener's would not notice the last one
		b.Eventually(b.labels(shared.A, name)).Should(Equal(both))
	}
	b.Expect(b.labels(shared.A, "other")()).To(Equal(purpose))
}

func TestTI4_SecretThatIsGoneIsNoError(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", nil)
	secret := b.secret(shared.A, "s", "a")
	var gone atomic.Bool
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if r.Method == http.MethodPatch && r.URL.Path == b.path("s") && gone.CompareAndSwap(false, true) {
			shared.A.Delete(t, secret)
		}
		return nil
	})
	b.start(nil)
	b.Eventually(gone.Load).Should(BeTrue())
	b.secret(shared.A, "another", "a")
	b.Eventually(b.labels(shared.A, "another")).Should(Equal(purpose))
	b.Expect(b.failures(b.namespace)()).To(BeEmpty())
}

func TestTI5_ServiceAccountThatIsMissingIsAnError(t *testing.T) {
	b := newBench(t)
	b.secret(shared.A, "s", "a")
	b.start(nil)
	b.Eventually(b.failures("ServiceAccount a of the Secret does not exist")).ShouldNot(BeEmpty())
	b.Expect(b.writes(shared.A, "s")).To(BeEmpty())
	b.account(shared.A, "a", ptr.To(false))
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(both))
}

func TestTI6_SecretsGetTheirPurpose(t *testing.T) {
	b := newBench(t)
	for name, automount := range map[string]*bool{"unset": nil, "on": ptr.To(true), "off": ptr.To(false)} {
		b.account(shared.A, name, automount)
		b.secret(shared.A, name, name)
		taken := b.secret(shared.A, "taken-"+name, name)
		b.patch(shared.A, taken, `{"metadata":{"labels":{"`+PurposeLabel+`":"another"}}}`)
	}
	b.start(nil)
	b.Eventually(b.labels(shared.A, "unset")).Should(Equal(purpose))
	b.Eventually(b.labels(shared.A, "on")).Should(Equal(purpose))
	b.Eventually(b.labels(shared.A, "off")).Should(Equal(both))
	b.Eventually(b.labels(shared.A, "taken-off")).Should(Equal(map[string]string{
		PurposeLabel: "another", ConsiderLabel: "true",
	}))
	for _, name := range []string{"taken-unset", "taken-on"} {
		b.Expect(b.labels(shared.A, name)()).To(Equal(map[string]string{PurposeLabel: "another"}))
	}
}

func TestTI7_TokensThatAreToBeValidAreNotConsidered(t *testing.T) {
	b := newBench(t)
	tests := map[string]struct {
		automount *bool
		skips     []string
	}{
		"unset":      {nil, nil},
		"unset-skip": {nil, []string{"true"}},
		"on":         {ptr.To(true), nil},
		"on-skip":    {ptr.To(true), []string{"true"}},
		"off-skip":   {ptr.To(false), []string{"true"}},
		"off-skip-0": {ptr.To(false), []string{"false"}}, // the value does not matter
	}
	for name, test := range tests {
		b.account(shared.A, name, test.automount, test.skips...)
		s := b.secret(shared.A, name, name, PurposeLabel, ConsiderLabel)
		b.patch(shared.A, s, `{"metadata":{"labels":{"another":"label"}}}`)
	}
	b.start(nil)
	for name := range tests {
		t.Run("TI-7 "+name, func(t *testing.T) {
			NewWithT(t).Eventually(b.labels(shared.A, name)).Should(Equal(map[string]string{
				PurposeLabel: Purpose, "another": "label",
			}))
		})
	}
	b.Expect(b.lists(shared.A)()).To(BeZero(), "pods do not matter")
}

func TestTI8_WhatIsRightIsNotWritten(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	b.account(shared.A, "valid", nil)
	b.secret(shared.A, "s", "a", PurposeLabel, ConsiderLabel)
	b.secret(shared.A, "valid", "valid", PurposeLabel)
	b.start(nil)
	b.secret(shared.A, "z", "a")
	b.Eventually(b.labels(shared.A, "z")).Should(Equal(both))
	silent := func() []string { return append(b.writes(shared.A, "s"), b.writes(shared.A, "valid")...) }
	b.Consistently(silent, "500ms").Should(BeEmpty())
}

func TestTI9_TokensOfServiceAccountsThatMountNoneAreConsidered(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	b.secret(shared.A, "before", "a")
	stop := b.start(nil)
	b.Eventually(b.labels(shared.A, "before")).Should(Equal(both))
	b.secret(shared.A, "later", "a")
	b.Eventually(b.labels(shared.A, "later")).Should(Equal(both))
	for _, body := range b.writes(shared.A, "later") {
		b.Expect(body).To(ContainSubstring(`"resourceVersion":"`))
	}

	t.Log("another term writes nothing")
	stop()
	shared.Reset()
	b.start(nil)
	b.secret(shared.A, "last", "a")
	b.Eventually(b.labels(shared.A, "last")).Should(Equal(both))
	b.Expect(b.writes(shared.A, "later")).To(BeEmpty())
}

func TestTI10_TokensThatPodsUseStayValid(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	b.pod(shared.A, "p1", "something-else")
	pod := b.pod(shared.A, "p2", "s")
	b.pod(shared.A, "p3", "other")
	b.secret(shared.A, "s", "a")
	b.start(func(o *Options) { o.pageSize = 1 })
	b.Eventually(b.lists(shared.A)).Should(BeNumerically(">=", 3))
	b.Expect(b.labels(shared.A, "s")()).To(Equal(purpose))
	shared.A.Delete(t, pod)
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(both))
	b.Expect(b.failures(b.namespace)()).To(BeEmpty(), "waiting is no error")
}

func TestTI18_OtherSecretsAreLeftAlone(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	plain := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "plain"},
		Data:       map[string][]byte{"token": []byte("valid")},
	}
	shared.A.Create(t, plain)
	t.Log("nor are those with the annotation of another type, whose content no controller would generate again")
	typed := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: "typed", Annotations: map[string]string{corev1.ServiceAccountNameKey: "a"},
		},
		Data: map[string][]byte{"token": []byte("valid")},
	}
	shared.A.Create(t, typed)
	empty := b.secret(shared.A, "empty", "a", PurposeLabel)
	b.patch(shared.A, empty, `{"data":null}`)
	b.webhook(shared.A)
	b.start(nil)
	b.secret(shared.A, "s", "a")
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(both))
	b.Eventually(b.labels(shared.A, "empty")).Should(Equal(both))
	b.Expect(b.read(shared.A, "empty").Data).To(BeNil(), "TI-11")
	for _, secret := range []*corev1.Secret{plain, typed} {
		b.Expect(b.read(shared.A, secret.Name).ResourceVersion).To(Equal(secret.ResourceVersion))
	}
}

func TestTI20_ServiceAccountsOfATargetConcernNoOther(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	b.account(shared.B, "a", ptr.To(false), "true")
	for _, in := range []*twins.Target{shared.A, shared.B} {
		b.secret(in, "s", "a")
	}
	b.start(nil)
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(both))
	b.Eventually(b.labels(shared.B, "s")).Should(Equal(purpose))
	about := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "a"}}
	b.patch(shared.A, about.DeepCopy(), `{"metadata":{"labels":{"`+SkipLabel+`":"true"}}}`)
	b.patch(shared.B, about.DeepCopy(), `{"metadata":{"labels":{"`+SkipLabel+`":null}}}`)
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(purpose))
	b.Eventually(b.labels(shared.B, "s")).Should(Equal(both))
}

func TestSecretThatChangesMeanwhileIsLookedAtAgain(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	secret := b.secret(shared.A, "s", "a")
	var tried atomic.Int64
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		if r.Method == http.MethodPatch && r.URL.Path == b.path("s") && tried.Add(1) <= 2 {
			b.patch(shared.A, secret.DeepCopy(), `{"metadata":{"labels":{"n`+rand.String(3)+`":"x"}}}`)
		}
		return nil
	})
	b.start(nil)
	b.Eventually(b.labels(shared.A, "s")).Should(And(HaveKey(PurposeLabel), HaveKey(ConsiderLabel), HaveLen(4)))
	b.Expect(b.failures(b.namespace)()).To(BeEmpty())
}

func TestServiceAccountThatChangesMeanwhileKeepsItsToken(t *testing.T) {
	b := newBench(t)
	account := b.account(shared.A, "a", ptr.To(false))
	b.secret(shared.A, "s", "a")
	var changed atomic.Bool
	shared.Intercept(t, func(_ clustercache.ClusterKey, r *http.Request) *http.Response {
		read := "/api/v1/namespaces/" + b.namespace + "/serviceaccounts/a"
		if r.Method == http.MethodGet && r.URL.Path == read && changed.CompareAndSwap(false, true) {
			b.patch(shared.A, account, `{"automountServiceAccountToken":null}`)
		}
		return nil
	})
	b.start(nil)
	b.Eventually(changed.Load).Should(BeTrue())
	b.secret(shared.A, "later", "a")
	b.Eventually(b.labels(shared.A, "later")).Should(Equal(purpose))
	b.Expect(b.labels(shared.A, "s")()).To(Equal(purpose))
	b.Expect(b.lists(shared.A)()).To(BeZero())
}

func TestOnlyMetadataOfSecretsIsAskedFor(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	b.secret(shared.A, "s", "a")
	var asked, whole atomic.Int64
	shared.Intercept(t, func(key clustercache.ClusterKey, r *http.Request) *http.Response {
		if key != shared.A.Key || !strings.Contains(r.URL.Path, "/secrets") {
			return nil
		}
		asked.Add(1)
		if first, _, _ := strings.Cut(r.Header.Get("Accept"), ","); !strings.Contains(first, ";as=PartialObjectMetadata") {
			whole.Add(1)
			t.Log(r.Method, r.URL, r.Header.Get("Accept"))
		}
		return nil
	})
	b.start(nil)
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(both))
	b.Expect(asked.Load()).To(BeNumerically(">=", 2))
	b.Expect(whole.Load()).To(BeZero())
}

// rights are those that the controller needs, but for some resources.
func rights(without ...string) (rules []rbacv1.PolicyRule) {
	for resource, verbs := range map[string][]string{
		"secrets": {"list", "watch", "patch"}, "serviceaccounts": {"get", "list", "watch"}, "pods": {"list"},
	} {
		if len(without) > 0 && without[0] == resource {
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs})
	}
	return rules
}

// restricted registers the second target once more, with some rights.
func (b *bench) restricted(rules []rbacv1.PolicyRule) clustercache.ClusterKey {
	b.t.Helper()
	user := "user-" + rand.String(8)
	key := clustercache.ClusterKey{Namespace: "shoot-" + user, Name: user}
	kubeconfig, err := shared.B.Restricted(context.Background(), user, rules...)
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(shared.Register(context.Background(), key, kubeconfig)).To(Succeed())
	return key
}

func TestRights(t *testing.T) {
	b := newBench(t)
	b.account(shared.B, "a", ptr.To(false))
	b.secret(shared.B, "s", "a")
	stop := b.start(nil, b.restricted(rights("serviceaccounts")))
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning "+reasonFailed), ContainSubstring("watching objects of kind ServiceAccount"))))
	stop()
	stop = b.start(nil, b.restricted(rights("pods")))
	b.Eventually(b.events.Events).Should(Receive(And(
		HavePrefix("Warning "+reasonFailed), ContainSubstring("listing pods of Namespace "+b.namespace))))
	b.Expect(b.labels(shared.B, "s")()).To(Equal(purpose))
	b.Eventually(func() int { return len(b.failures("listing pods")()) }).Should(BeNumerically(">=", 2))
	b.Expect(b.events.Events).To(BeEmpty(), "once is enough")
	stop()
	b.start(nil, b.restricted(rights()))
	b.Eventually(b.labels(shared.B, "s")).Should(Equal(both))
}

func TestTooManyPodsAreReported(t *testing.T) {
	b := newBench(t)
	b.account(shared.A, "a", ptr.To(false))
	for _, name := range []string{"p1", "p2", "p3"} {
		b.pod(shared.A, name, "something-else")
	}
	b.secret(shared.A, "s", "a")
	b.start(func(o *Options) { o.pageSize, o.maxPods = 1, 2 })
	b.Eventually(b.events.Events).Should(Receive(ContainSubstring("there are too many: 2 are looked at")))
	b.Expect(b.labels(shared.A, "s")()).To(Equal(purpose))
	shared.A.Delete(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "p1"}})
	b.Eventually(b.labels(shared.A, "s")).Should(Equal(both))
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller token-invalidator: a required option is missing"))
}
