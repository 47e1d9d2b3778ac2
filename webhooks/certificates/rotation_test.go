package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var secretName = types.NamespacedName{Namespace: "trellis", Name: "trellis-webhooks"}

const day = 24 * time.Hour

// bench is a store with a clock, whose Secret has no other writer.
type bench struct {
	*WithT
	ctx    context.Context
	clock  *testingclock.FakeClock
	client client.Client
	*Store
}

func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{
		WithT: NewWithT(t), ctx: t.Context(), client: fake.NewClientBuilder().Build(),
		clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second)),
	}
	options := Options{
		Secret: secretName, Names: []string{"hub.example.org", "10.0.0.1"}, Client: b.client, Clock: b.clock,
	}
	if change != nil {
		change(&options)
	}
	b.Store = b.another(options)
	return b
}

func (b *bench) another(o Options) *Store {
	s, err := New(o)
	b.Expect(err).NotTo(HaveOccurred())
	return s
}

// read returns what a store has after it has read the Secret.
func (b *bench) read(s *Store) *Material {
	b.Expect(s.look(b.ctx)).To(Succeed())
	m, _ := s.Material()
	b.Expect(m).NotTo(BeNil())
	return m
}

// after has the leader look for something to renew after a time.
func (b *bench) after(d time.Duration, p Progress) *Material {
	b.clock.Step(d)
	b.Expect(b.rotate(b.ctx, b.client, func(string) Progress { return p })).To(Succeed())
	return b.read(b.Store)
}

// trusts returns nil if a client with the bundle of one material trusts the server of another.
func (b *bench) trusts(bundle, server *Material) error {
	roots := x509.NewCertPool()
	b.Expect(roots.AppendCertsFromPEM(bundle.Bundle)).To(BeTrue())
	for _, name := range []string{"hub.example.org", "10.0.0.1"} {
		if net.ParseIP(name) != nil {
			name = "[" + name + "]"
		}
		if _, err := server.certificate.Leaf.Verify(
			x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: b.clock.Now()}); err != nil {
			return err
		}
	}
	return nil
}

func authorities(m *Material) int {
	all, _ := cert.ParseCertsPEM(m.Bundle)
	return len(all)
}

var (
	complete = Progress{}
	pending  = Progress{Pending: 1}
	away     = Progress{Unreachable: 1}
)

func TestAllReplicasHaveTheSame(t *testing.T) {
	b := newBench(t, nil)
	first := b.read(b.Store)
	other := b.another(b.Options)
	second := b.read(other)
	b.Expect(second.Hash).To(Equal(first.Hash))
	b.Expect(second.Keys).To(Equal(first.Keys))
	b.Expect(b.trusts(first, second)).To(Succeed())
	b.Expect(other.Known()).To(BeClosed())
}

// HUB-12, HUB-13, CMN-18: no target is served a certificate of an authority that it does not have, nor is one taken
// away that it needs.
func TestRotation(t *testing.T) {
	b := newBench(t, nil)
	first := b.read(b.Store)
	b.Expect(first.Phase).To(Equal("stable"))
	b.Expect(b.after(20*day-time.Minute, complete)).To(Equal(first), "it is not time")

	published := b.after(time.Minute, complete)
	b.Expect(published.Phase).To(Equal("publishing"))
	b.Expect(authorities(published)).To(Equal(2))
	b.Expect(published.Key).To(Equal(first.Key), "paths are the former ones")
	b.Expect(published.Keys).To(HaveLen(2))
	b.Expect(published.certificate.Certificate).To(Equal(first.certificate.Certificate))
	b.Expect(published.Hash).NotTo(Equal(first.Hash))

	b.Expect(b.after(time.Second, complete).Phase).To(Equal("publishing"), "other replicas have not read it yet")
	b.Expect(b.after(time.Minute, pending).Phase).To(Equal("publishing"), "a target does not have the bundle")
	b.Expect(b.after(time.Minute, away).Phase).To(Equal("publishing"), "nor does one that is away")

	overlapping := b.after(time.Minute, complete)
	b.Expect(overlapping.Phase).To(Equal("overlap"))
	b.Expect(authorities(overlapping)).To(Equal(2))
	b.Expect(overlapping.Key).NotTo(Equal(first.Key))
	b.Expect(overlapping.Keys).To(ConsistOf(first.Key, overlapping.Key))
	b.Expect(b.trusts(published, overlapping)).To(Succeed(), "who has the bundle")
	b.Expect(b.trusts(first, overlapping)).NotTo(Succeed(), "who has not")

	b.Expect(b.after(day-time.Minute, complete).Phase).To(Equal("overlap"))
	b.Expect(b.after(time.Minute, pending).Phase).To(Equal("overlap"))
	b.Expect(b.after(time.Minute, away).Phase).To(Equal("overlap"))
	last := b.after(time.Minute, complete)
	b.Expect(last.Phase).To(Equal("stable"))
	b.Expect(authorities(last)).To(Equal(1))
	b.Expect(last.Keys).To(HaveLen(1))
	b.Expect(last.Keys[0]).To(Equal(overlapping.Key))
	b.Expect(last.certificate.Certificate).To(Equal(overlapping.certificate.Certificate))
}

// Who cannot be reached has the former certificate until a day before its end, and who can is waited for until an hour
// before.
func TestThoseWhoAreAwayAreWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		progress Progress
		switched time.Duration // after which the new certificate is served
	}{
		"away":    {away, 29 * day},
		"pending": {pending, 30*day - time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.read(b.Store)
			b.Expect(b.after(20*day, test.progress).Phase).To(Equal("publishing"))
			b.Expect(b.after(test.switched-20*day, test.progress).Phase).To(Equal("publishing"))
			b.Expect(b.after(time.Minute, test.progress).Phase).To(Equal("overlap"))
			b.Expect(b.after(30*day-test.switched-time.Minute, test.progress).Phase).To(Equal("overlap"))
			b.Expect(b.after(time.Minute, test.progress).Phase).To(Equal("stable"), "the former authority has expired")
		})
	}
}

// After a long pause what has expired is left out.
func TestALongPause(t *testing.T) {
	b := newBench(t, nil)
	first := b.read(b.Store)
	renewed := b.after(31*day, away)
	b.Expect(renewed.Phase).To(Equal("stable"))
	b.Expect(authorities(renewed)).To(Equal(1))
	b.Expect(renewed.Hash).NotTo(Equal(first.Hash))
	b.Expect(b.trusts(renewed, renewed)).To(Succeed())

	b.Expect(b.after(20*day, away).Phase).To(Equal("publishing"))
	b.Expect(b.after(20*day, away).Phase).To(Equal("overlap"), "no client trusts what has expired")
	b.Expect(b.after(time.Minute, away).Phase).To(Equal("stable"))
}

func TestOtherNames(t *testing.T) {
	b := newBench(t, nil)
	first := b.read(b.Store)
	b.Names = []string{"10.0.0.1", "hub.example.org", "other.example.org"}
	renamed := b.after(0, pending)
	b.Expect(renamed.Hash).To(Equal(first.Hash), "targets need nothing new")
	b.Expect(renamed.certificate.Leaf.DNSNames).To(ContainElement("other.example.org"))
	b.Expect(b.trusts(first, renamed)).To(Succeed())
	b.Names = []string{"hub.example.org", "10.0.0.1", "other.example.org"}
	b.Expect(b.after(0, pending).certificate.Certificate).To(
		Equal(renamed.certificate.Certificate), "the order of names does not matter")
}

func TestASecretOfAnotherProgram(t *testing.T) {
	external := types.NamespacedName{Namespace: "trellis", Name: "from-cert-manager"}
	b := newBench(t, func(o *Options) { o.External = external })
	b.Expect(b.look(b.ctx)).NotTo(Succeed(), "there is none")
	g, err := newGeneration([]string{"hub.example.org", "10.0.0.1"}, b.clock.Now(), 90*day)
	b.Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{Data: g.data("")}
	secret.Namespace, secret.Name = external.Namespace, external.Name
	b.Expect(b.client.Create(b.ctx, secret)).To(Succeed())
	m := b.read(b.Store)
	b.Expect(m.Bundle).To(Equal(g.authority))
	b.Expect(m.Key).NotTo(Equal(g.key), "the key is the hub's own")
	b.Expect(b.trusts(m, m)).To(Succeed())

	_, changed := b.Material()
	b.Expect(g.issue([]string{"hub.example.org", "10.0.0.1"}, b.clock.Now())).To(Succeed())
	secret.Data = g.data("")
	b.Expect(b.client.Update(b.ctx, secret)).To(Succeed())
	b.Expect(b.after(25*day, complete).Phase).To(Equal("stable"), "the other program renews it")
	b.Expect(changed).To(BeClosed())
	served, err := b.Certificate(&tls.ClientHelloInfo{})
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(served.Leaf.Verify(x509.VerifyOptions{Roots: nil})).Error().To(HaveOccurred())
	b.Expect(served.Certificate[0]).To(Equal(mustPair(b, g).Certificate[0]))
}

func mustPair(b *bench, g *generation) *tls.Certificate {
	pair, err := g.pair()
	b.Expect(err).NotTo(HaveOccurred())
	return pair
}

func TestSecretsThatAreFaulty(t *testing.T) {
	for name, spoil := range map[string]func(map[string][]byte){
		"no key":                   func(d map[string][]byte) { delete(d, keyOfPaths) },
		"a key that can be tried":  func(d map[string][]byte) { d[keyOfPaths] = []byte("short") },
		"no authority":             func(d map[string][]byte) { d[keyAuthority] = nil },
		"a private key of another": func(d map[string][]byte) { d[keyCertificateKey] = d[keyAuthorityKey] },
		"half a former one":        func(d map[string][]byte) { d[prefixPrevious+keyOfPaths] = d[keyOfPaths] },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			good := b.read(b.Store)
			secret := &corev1.Secret{}
			b.Expect(b.client.Get(b.ctx, secretName, secret)).To(Succeed())
			private := string(secret.Data[keyAuthorityKey])
			spoil(secret.Data)
			b.Expect(b.client.Update(b.ctx, secret)).To(Succeed())
			err := b.look(b.ctx)
			b.Expect(err).To(HaveOccurred())
			b.Expect(err.Error()).NotTo(ContainSubstring(private[30:60]))
			still, _ := b.Material()
			b.Expect(still).To(Equal(good), "what was good stays in use")
			b.Expect(b.rotate(b.ctx, b.client, func(string) Progress { return complete })).NotTo(Succeed())
		})
	}
}

// HUB-14: replicas take over what is new by reading it.
func TestFollow(t *testing.T) {
	b := newBench(t, func(o *Options) {
		o.Poll = time.Millisecond
		o.Clock = nil
		o.Spread, o.Check = time.Nanosecond, time.Millisecond
	})
	ctx, end := context.WithCancel(b.ctx)
	ended := make(chan error, 2)
	go func() { ended <- b.Follow(ctx) }()
	b.Eventually(b.Known()).Should(BeClosed())
	other := b.another(b.Options)
	go func() { ended <- other.Follow(ctx) }()
	b.Eventually(other.Known()).Should(BeClosed())
	before, changed := other.Material()
	b.Names = []string{"new.example.org"}
	b.Expect(b.rotate(ctx, b.client, func(string) Progress { return complete })).To(Succeed())
	b.Eventually(changed).Should(BeClosed())
	after, _ := other.Material()
	b.Expect(after.certificate.Leaf.DNSNames).To(ConsistOf("new.example.org"))
	b.Expect(after.Hash).To(Equal(before.Hash))
	end()
	b.Eventually(ended).Should(Receive(BeNil()))
	b.Eventually(ended).Should(Receive(BeNil()))
}
