package certificates

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Authorities of client certificates are taken over when they change, and given up with their Secret.
func TestClientAuthorities(t *testing.T) {
	name := types.NamespacedName{Namespace: "trellis", Name: "clients"}
	b := newBench(t, func(o *Options) { o.Clients = name })
	m := b.read(b.Store)
	b.Expect(b.lookClients(b.ctx)).To(MatchError(ContainSubstring("not found")))
	b.Expect(b.ClientAuthorities()).To(BeNil())

	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Data:       map[string][]byte{"ca.crt": m.Bundle},
	}
	b.Expect(b.client.Create(b.ctx, secret)).To(Succeed())
	b.Expect(b.lookClients(b.ctx)).To(Succeed())
	first := b.ClientAuthorities()
	b.Expect(first).NotTo(BeNil())
	b.Expect(b.lookClients(b.ctx)).To(Succeed())
	b.Expect(b.ClientAuthorities()).To(BeIdenticalTo(first), "nothing is new")

	secret.Data["ca.crt"] = []byte("no certificate")
	b.Expect(b.client.Update(b.ctx, secret)).To(Succeed())
	b.Expect(b.lookClients(b.ctx)).To(MatchError(ContainSubstring("no certificate authority")))
	b.Expect(b.ClientAuthorities()).To(BeIdenticalTo(first), "a slip does not lock everybody out")

	secret.Data["ca.crt"] = append(b.another(b.Options).mustMake(b), m.Bundle...)
	b.Expect(b.client.Update(b.ctx, secret)).To(Succeed())
	b.Expect(b.lookClients(b.ctx)).To(Succeed())
	b.Expect(b.ClientAuthorities()).NotTo(BeIdenticalTo(first))
	b.Expect(b.ClientAuthorities().Equal(first)).To(BeFalse())

	b.Expect(b.client.Delete(b.ctx, secret)).To(Succeed())
	b.Expect(b.lookClients(b.ctx)).NotTo(Succeed())
	b.Expect(b.ClientAuthorities()).To(BeNil())
}

// mustMake returns another authority in PEM.
func (s *Store) mustMake(b *bench) []byte {
	state := &state{}
	_, err := state.step(&s.Options, b.clock.Now(), complete)
	b.Expect(err).NotTo(HaveOccurred())
	m, err := state.material()
	b.Expect(err).NotTo(HaveOccurred())
	return m.Bundle
}
