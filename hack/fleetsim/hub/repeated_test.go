package hub_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A target answers what it made of an object. While it does not list the kind, as one does that is asked for many lists
// at once, attempts at the rest of a ManagedResource must not send the object again; and whatever others did to it
// meanwhile is undone as soon as it is listed.
func TestRepeatedAttemptsSendOnceWhatIsNotListedYet(t *testing.T) {
	w := newWorld(t, "repeated-", 1)
	testbed.StartHubForTest(t, source, testbed.HubOptions{})
	target := w.fleet.Targets()[0]
	toHub := []string{"trellis*"}
	_, err := target.Faults().Set(fault.Fault{Kind: fault.Hang, Match: fault.Match{UserAgents: toHub, Verbs: []string{"list", "watch"}, Resources: []string{"configmaps"}}})
	w.Expect(err).NotTo(HaveOccurred())
	_, err = target.Faults().Set(fault.Fault{Kind: fault.Status, Code: 500, Match: fault.Match{UserAgents: toHub, Verbs: []string{"apply"}, Resources: []string{"serviceaccounts"}}})
	w.Expect(err).NotTo(HaveOccurred())

	ns := namespace(target)
	content := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "content"}, Data: map[string][]byte{"objects.yaml": []byte(
		testbed.ConfigMap("default", "sent", "1") +
			"\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: default, name: refused}\n")}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, target.Registration(ns), content,
		&resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "repeated"},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: content.Name}}},
		},
	} {
		w.Expect(source.Client.Create(w.ctx, object)).To(Succeed())
	}

	w.Eventually(target.Faults().Struck).Should(HaveKeyWithValue(fault.Status, BeNumerically(">=", 3)), "it is attempted again and again")
	applies := func() (n int64) {
		for _, count := range w.writesOfHub() {
			if count.Resource == "configmaps" {
				n += count.Requests
			}
		}
		return n
	}
	w.Expect(applies()).To(BeEquivalentTo(1))
	w.Expect(journal.Repeated(byHub, w.journal.Histories()...).Err()).To(Succeed())

	w.Expect(edit{"it is edited meanwhile", configMap, "default", "sent", `{"data":{"key":"edited"}}`}.do(w.ctx, target)).To(Succeed())
	_, err = target.Faults().Clear()
	w.Expect(err).NotTo(HaveOccurred())
	w.eventually(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue)
	w.Eventually(func() any {
		return contents(target, configMap)[client.ObjectKey{Namespace: "default", Name: "sent"}].Object["data"]
	}).Should(HaveKeyWithValue("key", "1"))
	w.nothingWorse(time.Time{})
}
