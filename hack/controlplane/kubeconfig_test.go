package controlplane

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigs(t *testing.T) {
	cp := StartForTest(t, Options{Name: "hub"})
	admin := newClient(t, cp.RESTConfig())
	ctx := t.Context()

	t.Run("admin", func(t *testing.T) {
		g := NewWithT(t)
		client := clientFor(t, cp.Kubeconfig())
		_, err := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(whoAmI(t, client).Groups).To(ContainElement("system:masters"))
	})

	t.Run("client certificate", func(t *testing.T) {
		g := NewWithT(t)
		kubeconfig, err := cp.ClientCertKubeconfig("alice", []string{"editors", "readers"}, time.Hour)
		g.Expect(err).NotTo(HaveOccurred())
		client := clientFor(t, kubeconfig)
		user := whoAmI(t, client)
		g.Expect(user.Username).To(Equal("alice"))
		g.Expect(user.Groups).To(ContainElements("editors", "readers"))
		_, err = client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		g.Expect(err).To(Satisfy(apierrors.IsForbidden))
	})

	t.Run("expired client certificate", func(t *testing.T) {
		g := NewWithT(t)
		kubeconfig, err := cp.ClientCertKubeconfig("alice", nil, -time.Minute)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = clientFor(t, kubeconfig).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		g.Expect(err).To(Satisfy(apierrors.IsUnauthorized))
	})

	t.Run("service account", func(t *testing.T) {
		g := NewWithT(t)
		_, err := admin.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		// The first is issued by the API server, the second signed by this package.
		for _, ttl := range []time.Duration{0, time.Minute} {
			kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, "default", "robot", ttl)
			g.Expect(err).NotTo(HaveOccurred())
			client := clientFor(t, kubeconfig)
			user := whoAmI(t, client)
			g.Expect(user.Username).To(Equal("system:serviceaccount:default:robot"))
			g.Expect(user.Groups).To(ContainElement("system:serviceaccounts:default"))
			_, err = client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			g.Expect(err).To(Satisfy(apierrors.IsForbidden))

			binding, err := admin.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "robot"},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "robot"}},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			list := func() error {
				_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
				return err
			}
			g.Eventually(list).WithTimeout(time.Minute).Should(Succeed())
			g.Expect(admin.RbacV1().RoleBindings("default").Delete(ctx, binding.Name, metav1.DeleteOptions{})).To(Succeed())
			g.Eventually(list).WithTimeout(time.Minute).Should(Satisfy(apierrors.IsForbidden))
		}
	})

	t.Run("expired token", func(t *testing.T) {
		g := NewWithT(t)
		kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, "default", "robot", -time.Minute)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = clientFor(t, kubeconfig).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		g.Expect(err).To(Satisfy(apierrors.IsUnauthorized))
	})

	t.Run("service account in a namespace that does not exist", func(t *testing.T) {
		g := NewWithT(t)
		_, err := cp.ServiceAccountKubeconfig(ctx, "missing", "robot", 0)
		g.Expect(err).To(MatchError(ContainSubstring(`cannot make a token for missing/robot: namespaces "missing" not found`)))
	})

	t.Run("anonymous", func(t *testing.T) {
		g := NewWithT(t)
		config := cp.RESTConfig()
		config.CertData, config.KeyData = nil, nil
		_, err := newClient(t, config).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		g.Expect(err).To(Satisfy(apierrors.IsForbidden))
	})
}

func clientFor(t *testing.T, kubeconfig []byte) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return newClient(t, config)
}

func whoAmI(t *testing.T, client kubernetes.Interface) authenticationv1.UserInfo {
	t.Helper()
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return review.Status.UserInfo
}
