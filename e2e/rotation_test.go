package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestRotatedTokenIsUsedAndWatchesGoOn(t *testing.T) {
	s := newSpace(t, nil)
	for _, name := range []string{"first", "second"} {
		s.Expect(east.Client.Create(s.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: s.name + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.name, Name: name}},
		})).To(Succeed())
	}
	kubeconfig := func(account string, ttl time.Duration) []byte {
		content, err := east.ServiceAccountKubeconfig(s.ctx, s.name, account, ttl)
		s.Expect(err).NotTo(HaveOccurred())
		return content
	}
	expiry := func() time.Time {
		if end := s.target("target").Status.CredentialExpiry; end != nil {
			return end.Time
		}
		return time.Time{}
	}
	s.startHub()
	s.registerBy("target", kubeconfig("first", 2*time.Hour))
	s.manage("mr", s.configMap("one", "1"), `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"`+s.name+`","name":"secret"}}`)
	s.eventuallyReady("mr")
	s.Eventually(expiry).ShouldNot(BeZero())
	before := expiry()
	changes := s.watchStatus()
	asked := listen(s.WithT, east)

	s.Expect(source.Client.Update(s.ctx, testbed.Registration(s.name, "target", kubeconfig("second", 5*time.Hour)))).To(
		Succeed())
	s.Eventually(func() bool { return expiry().After(before.Add(time.Hour)) }).Should(BeTrue(), "the new token is in use")
	// The old one is of no use from now on.
	s.Expect(east.Client.Delete(s.ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "first"}})).To(Succeed())
	s.edit(east, "one", "edited")
	s.eventuallyValue(east, "one", "1")
	s.remove(east, "one")
	s.eventuallyValue(east, "one", "1")
	s.manage("later", s.configMap("later", "l"))
	s.eventuallyReady("later")

	s.Expect(texts(without(asked(), func(e request) bool { return !isRead(e) }))).To(BeEmpty(),
		"a list or watch that was started again")
	var writers []string
	for _, e := range without(asked(), func(e request) bool { return !isWrite(e) }) {
		writers = append(writers, e.Username)
	}
	s.Expect(writers).NotTo(BeEmpty())
	s.Expect(writers).To(HaveEach("system:serviceaccount:" + s.name + ":second"))
	s.Expect(changesOf(changes(), "mr")).To(BeEmpty(), "what is said of the ManagedResource")
}
