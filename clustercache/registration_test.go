package clustercache

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCacheHoldsNoMoreOfSecretsThanItNeeds(t *testing.T) {
	g := NewWithT(t)
	secret := registrationSecret(ClusterKey{Namespace: "garden", Name: "a"}, []byte("content"))
	secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "content", "other": "stays"}
	secret.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	g.Expect(trimSecret(secret)).To(BeIdenticalTo(secret))
	g.Expect(secret.Data).NotTo(BeEmpty())
	g.Expect(secret.Annotations).To(Equal(map[string]string{"other": "stays"}))
	g.Expect(secret.ManagedFields).To(BeEmpty())
	secret.Name = "a-ca"
	g.Expect(trimSecret(secret)).To(BeIdenticalTo(secret))
	g.Expect(secret.Data).To(BeNil())
}

func TestStatusShowsNoContentOfTheSecret(t *testing.T) {
	h, a, key := connected(t, Options{})
	secret := registrationSecret(key, a.kubeconfig("x"))
	secret.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "content"}
	h.secrets.set(secret)
	h.Eventually(func() string { return h.status(key).SecretResourceVersion }).Should(Equal("2"))
	h.Expect(h.status(key).Annotations).To(BeEmpty())
}

func TestRealSecretsRegisterTargets(t *testing.T) {
	cp := realCluster(t)
	h := start(t, Options{})
	ctx := context.Background()
	c, namespace := realNamespace(t, cp)
	secrets, err := cache.New(cp.RESTConfig(), cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: SecretCacheOptions()}})
	h.Expect(err).NotTo(HaveOccurred())
	hub, err := New(quick(Options{Secrets: secrets, Dial: DialOptions{Addresses: onLoopback()}}))
	h.Expect(err).NotTo(HaveOccurred())
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 2)
	go func() { ended <- secrets.Start(running) }()
	go func() { ended <- hub.Start(running) }()
	defer func() {
		cancel()
		h.Eventually(ended).Should(Receive(BeNil()))
		h.Eventually(ended).Should(Receive(BeNil()))
	}()
	h.Expect(hub.WaitForSync(ctx)).To(BeTrue())

	key := ClusterKey{Namespace: namespace, Name: "a"}
	state := func() State { s, _ := hub.GetStatus(key); return s.State }
	secret := registrationSecret(key, cp.Kubeconfig())
	began := time.Now()
	h.Expect(c.Create(ctx, secret)).To(Succeed())
	h.Eventually(state).Should(Equal(StateConnected))
	t.Logf("connected %s after the Secret was created", time.Since(began).Round(time.Millisecond))

	secret.Labels = map[string]string{}
	h.Expect(c.Update(ctx, secret)).To(Succeed())
	h.Eventually(state).Should(BeEmpty(), "a Secret without its label leaves the selection")
	secret.Labels = registrationSecret(key, nil).Labels
	h.Expect(c.Update(ctx, secret)).To(Succeed())
	h.Eventually(state).Should(Equal(StateConnected))
	h.Expect(c.Delete(ctx, secret)).To(Succeed())
	h.Eventually(state).Should(BeEmpty())
}
