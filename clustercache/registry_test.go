package clustercache

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/clustercache/internal/registration"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// blockade keeps registrations of one namespace, or a single one of them, from being read until it is lifted.
type blockade struct {
	namespace string
	name      string // of the target, or empty
	lift      func()
	reads     atomic.Int32 // of these
	lifted    chan struct{}
}

func block(namespace string) *blockade {
	b := &blockade{namespace: namespace, lifted: make(chan struct{})}
	b.lift = sync.OnceFunc(func() { close(b.lifted) })
	return b
}

func (b *blockade) read(s *corev1.Secret, p kubeconfig.Policy) *registration.Registration {
	if s.Namespace == b.namespace && (b.name == "" || s.Labels[kubeconfig.ClusterNameLabel] == b.name) {
		b.reads.Add(1)
		<-b.lifted
	}
	return registration.Read(s, p)
}

// startBlocked is start with a blockade that is lifted at the end.
func startBlocked(t *testing.T, b *blockade, options Options) *hub {
	t.Helper()
	options.read = b.read
	h := start(t, options)
	t.Cleanup(b.lift)
	return h
}

// Kubeconfigs that take very long to read delay neither the informer nor those of other namespaces.
func TestOneNamespaceCannotKeepOthersFromBeingRead(t *testing.T) {
	b := block("hostile")
	h := startBlocked(t, b, Options{})
	var keys []ClusterKey
	for i := range 50 {
		key := ClusterKey{Namespace: "hostile", Name: fmt.Sprint("t-", i)}
		keys = append(keys, key)
		h.secrets.set(registrationSecret(key, []byte("garbage"))) // returns when the handler does
	}
	h.Eventually(b.reads.Load).Should(BeNumerically(">=", 2), "they are being read")
	a := newAPIServer(t, newStore("uid-a"))
	h.expectState(h.register("a", a.kubeconfig("token")), StateConnected)
	h.Expect(h.cache.List("hostile")).To(BeEmpty())
	h.Expect(b.reads.Load()).To(BeEquivalentTo(h.cache.registry.Reading()))
	b.lift()
	for _, key := range keys {
		h.expectState(key, StateRefused)
	}
}

func TestNewestVersionOfASecretIsRead(t *testing.T) {
	b := block("garden")
	h := startBlocked(t, b, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	key := ClusterKey{Namespace: "garden", Name: "a"}
	for i := range 5 {
		h.secrets.set(registrationSecret(key, fmt.Appendf(nil, "garbage %d", i)))
		h.Eventually(b.reads.Load).Should(BeEquivalentTo(1))
	}
	h.secrets.set(registrationSecret(key, a.kubeconfig("token")))
	b.lift()
	h.Expect(h.expectState(key, StateConnected).SecretResourceVersion).To(Equal("6"))
	h.Expect(b.reads.Load()).To(BeEquivalentTo(2), "those between were never read")
	// A version that the informer repeats is not read again.
	h.secrets.mu.Lock()
	for _, handler := range h.secrets.handlers {
		for _, s := range h.secrets.content {
			handler.OnUpdate(s.DeepCopy(), s.DeepCopy())
		}
	}
	h.secrets.mu.Unlock()
	h.Expect(b.reads.Load()).To(BeEquivalentTo(2))
}

func TestSecretThatGoesWhileItIsRead(t *testing.T) {
	b := block("garden")
	h := startBlocked(t, b, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	key := ClusterKey{Namespace: "garden", Name: "a"}
	h.secrets.set(registrationSecret(key, a.kubeconfig("token")))
	h.Eventually(b.reads.Load).Should(BeEquivalentTo(1))
	h.unregister(key)
	b.lift()
	h.Eventually(h.cache.registry.Reading).Should(BeZero())
	h.Expect(h.exists(key)()).To(BeFalse())
	h.Expect(a.count("GET /version")).To(BeZero())
}

// Waiting for all registrations takes until they were read, not only seen.
func TestSyncedMeansRead(t *testing.T) {
	g := NewWithT(t)
	b := block("garden")
	defer b.lift()
	existing := newSecrets()
	for i := range 3 {
		existing.set(registrationSecret(ClusterKey{Namespace: "garden", Name: fmt.Sprint("t-", i)}, []byte("garbage")))
	}
	cache, err := New(quick(Options{Secrets: existing, read: b.read}))
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cache.Start(ctx) }()
	g.Eventually(b.reads.Load).Should(BeNumerically(">=", 1))
	g.Consistently(cache.synced, "100ms").ShouldNot(BeClosed())
	b.lift()
	g.Eventually(cache.synced, patience).Should(BeClosed())
	g.Expect(cache.List("garden")).To(HaveLen(3))
	cancel()
	g.Eventually(ended, patience).Should(Receive(BeNil()))
}

// timerClock is a clock that counts its timers by their durations.
type timerClock struct {
	*clocktesting.FakeClock

	mu     sync.Mutex
	timers map[time.Duration]int
}

func newTimerClock() *timerClock {
	return &timerClock{FakeClock: clocktesting.NewFakeClock(time.Now()), timers: map[time.Duration]int{}}
}

func (c *timerClock) NewTimer(d time.Duration) clock.Timer {
	timer := c.FakeClock.NewTimer(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers[d]++
	return timer
}

// asked returns how many timers of that duration there were.
func (c *timerClock) asked(d time.Duration) func() int {
	return func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.timers[d]
	}
}

// The start waits for a limited time in all, not for each registration: a namespace with many that take long does not
// keep the hub from serving the others. Until they are read, its registrations are known, so that nothing takes them
// for gone, and each of them is used when it was read.
func TestStartDoesNotWaitForWhatTakesLong(t *testing.T) {
	b, ticks := block("hostile"), newTimerClock()
	h := &hub{WithT: NewWithT(t), t: t, secrets: newSecrets()}
	h.SetDefaultEventuallyTimeout(patience)
	a := newAPIServer(t, newStore("uid-a"))
	begun := max(4, runtime.GOMAXPROCS(0)) / 2 // what is read of a namespace at a time
	var keys []ClusterKey
	for i := range begun + 10 {
		keys = append(keys, ClusterKey{Namespace: "hostile", Name: fmt.Sprint("t-", i)})
		h.secrets.set(registrationSecret(keys[i], a.kubeconfig("token")))
	}
	other := h.registered("a", 0, []byte("garbage"))
	options := quick(Options{
		Secrets: h.secrets,
		Clock:   ticks,
		read:    b.read,
		Dial:    DialOptions{Addresses: onLoopback(), ConnectTimeout: patience},
		Probe:   ProbeOptions{Timeout: patience},
	})
	var err error
	h.cache, err = New(options)
	h.Expect(err).NotTo(HaveOccurred())
	h.events = h.cache.GetClusterSource("test")
	defer h.events.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.cache.Start(ctx) }()
	defer func() {
		cancel()
		b.lift()
		h.Eventually(ended).Should(Receive(BeNil()))
	}()

	h.Eventually(h.exists(other)).Should(BeTrue(), "others are read meanwhile")
	h.Eventually(ticks.asked(registration.StartTimeout)).Should(Equal(1))
	h.Eventually(b.reads.Load).Should(BeEquivalentTo(begun))
	ticks.Step(registration.StartTimeout - 1)
	h.Eventually(func() int { return len(h.cache.List("hostile")) }).Should(Equal(begun), "these are overdue")
	h.Consistently(h.cache.synced, "100ms").ShouldNot(BeClosed(), "the others have not even begun")
	ticks.Step(1)
	h.Eventually(h.cache.synced).Should(BeClosed())

	h.Expect(h.cache.List("hostile")).To(HaveLen(len(keys)))
	h.Expect(b.reads.Load()).To(BeEquivalentTo(begun), "nothing more was read")
	gone := keys[len(keys)-1]
	h.pass(ticks.FakeClock, 0, keys...)
	unread := func() (n int) {
		for _, status := range h.cache.List("hostile") {
			h.Expect(status.Labels).To(HaveKeyWithValue(kubeconfig.ClusterNameLabel, status.Cluster.Name))
			if status.State == StateRefused && strings.Contains(status.Message, "was not read within 30s") {
				h.Expect(status.Reason).To(Equal(ReasonKubeconfigInvalid))
				n++
			}
		}
		return n
	}
	h.Eventually(unread).Should(Equal(len(keys) - begun))
	_, err = h.cache.GetClient(ctx, gone)
	h.Expect(err).To(MatchError(ErrClusterNotConnected), "it is not unknown")
	h.expectEvent(gone, EventRegistered)

	// One of them may be deleted before it was read.
	h.unregister(gone)
	h.pass(ticks.FakeClock, 0, gone)
	h.Eventually(h.exists(gone)).Should(BeFalse())
	h.expectEvent(gone, EventGone)

	b.lift()
	for _, key := range keys {
		if key == gone {
			continue
		}
		h.Eventually(func() State {
			h.pass(ticks.FakeClock, 100*time.Millisecond, key)
			return h.state(key)
		}).Should(Equal(StateConnected), key.Name)
	}
	h.Expect(h.exists(gone)()).To(BeFalse())
	h.Expect(h.cache.List("hostile")).To(HaveLen(len(keys) - 1))
}

// The same holds at the end: no read is under way any longer.
func TestEndWhileSecretsAreRead(t *testing.T) {
	b := block("garden")
	h := startBlocked(t, b, Options{})
	for i := range 20 {
		h.secrets.set(registrationSecret(ClusterKey{Namespace: "garden", Name: fmt.Sprint("t-", i)}, []byte("garbage")))
	}
	h.Eventually(b.reads.Load).Should(BeNumerically(">=", 2))
	go func() {
		<-h.cache.ctx.Done()
		b.lift()
	}()
	h.stop()
	h.Expect(b.reads.Load()).To(BeNumerically("<", 20), "those that waited are not read any longer")
}

func TestSecretThatTakesTooLongToRead(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := block("garden")
	h := startBlocked(t, b, Options{Clock: clock})
	key := ClusterKey{Namespace: "garden", Name: "a"}
	h.secrets.set(registrationSecret(key, []byte("garbage")))
	h.Eventually(b.reads.Load).Should(BeEquivalentTo(1))
	h.Eventually(clock.HasWaiters).Should(BeTrue())
	clock.Step(registration.ReadTimeout)
	h.Eventually(h.exists(key)).Should(BeTrue())
	h.pass(clock, 0, key) // the loop begins with a timer of no time at all
	h.Eventually(func() string { return h.status(key).Message }).Should(ContainSubstring("takes longer"))
	h.Expect(h.status(key).Reason).To(Equal(ReasonKubeconfigInvalid))
	b.lift()
	h.Eventually(func() string { return h.status(key).Message }).
		Should(ContainSubstring("no kubeconfig"), "in the end it was read")
	h.Expect(b.reads.Load()).To(BeEquivalentTo(1))
}

// registered creates a registration of some age.
func (h *hub) registered(name string, age time.Duration, content []byte) ClusterKey {
	key := ClusterKey{Namespace: "garden", Name: name}
	h.secrets.set(aged(key, age, content))
	return key
}

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func aged(key ClusterKey, age time.Duration, content []byte) *corev1.Secret {
	secret := registrationSecret(key, content)
	secret.CreationTimestamp.Time = now.Add(-age)
	return secret
}

func (h *hub) expectOverQuota(key ClusterKey) {
	h.t.Helper()
	h.Expect(h.expectState(key, StateRefused).Reason).To(Equal(ReasonQuotaExceeded))
	h.Expect(h.status(key).Message).To(ContainSubstring("more than 2 registrations"))
	h.Expect(h.cache.target(key)).To(BeNil(), "it has no loop")
}

func TestQuotaOfANamespace(t *testing.T) {
	h := start(t, Options{MaxRegistrations: 2})
	a, waiting := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	first, second := h.registered("a", time.Hour, a.kubeconfig("x")), h.registered("b", time.Minute, a.kubeconfig("x"))
	h.expectState(first, StateConnected)
	h.expectState(second, StateConnected)

	third := h.registered("c", time.Second, waiting.kubeconfig("x"))
	h.expectOverQuota(third)
	h.expectEvent(third, EventRegistered)
	older := h.registered("d", 2*time.Hour, waiting.kubeconfig("x"))
	h.expectOverQuota(older) // though it is the oldest now: the others are in use
	other := h.registerIn("other", "a", a.kubeconfig("x"))
	h.expectState(other, StateConnected)
	static := h.cache.List("garden")
	h.Expect(static).To(HaveLen(4))
	h.Expect(h.cache.Inspect()).To(HaveLen(5))

	// They cannot be used, but they are known.
	_, err := h.cache.GetClient(t.Context(), third)
	h.Expect(err).To(MatchError(ErrClusterNotConnected))
	_, err = h.cache.Watch(t.Context(), third, Watcher{Name: "cm", Kind: configMapKind})
	h.Expect(err).To(MatchError(ErrClusterNotConnected))
	h.Expect(waiting.sockets()).To(BeZero(), "nothing is dialled")

	// A change does not help. The next one in the order of age follows when one is gone.
	h.registered("c", time.Second, waiting.kubeconfig("y"))
	h.Expect(h.status(third).SecretResourceVersion).To(Equal(fmt.Sprint(h.secrets.latest())))
	h.expectOverQuota(third)
	h.unregister(second)
	h.expectState(older, StateConnected)
	h.expectOverQuota(third)
	h.Eventually(h.exists(second)).Should(BeFalse())
	h.unregister(first)
	h.expectState(third, StateConnected)

	// Registrations that never had a place can be deleted like others.
	last := h.registered("e", 0, waiting.kubeconfig("x"))
	h.expectOverQuota(last)
	h.expectEvent(last, EventRegistered) // without having seen it, a handler would not be notified that it is gone
	h.unregister(last)
	h.Expect(h.exists(last)()).To(BeFalse())
	h.expectEvent(last, EventGone)
	h.Expect(h.cache.refused).To(BeEmpty())
	h.unregister(older)
	h.unregister(third)
	h.unregister(other)
	h.Eventually(func() int { return len(h.cache.List("")) }).Should(BeZero())
	h.Expect(h.cache.registry.Empty()).To(BeTrue())
}

// One that gets a place when another one is deleted counts as refused until it was read. It may be deleted before.
func TestQuotaOfASecretThatGoesBeforeItIsRead(t *testing.T) {
	b := block("garden")
	b.name = "b"
	h := startBlocked(t, b, Options{MaxRegistrations: 1})
	first, second := h.registered("a", time.Hour, []byte("garbage")), h.registered("b", time.Minute, []byte("garbage"))
	h.Eventually(func() string { return h.status(first).Reason }).Should(Equal(ReasonKubeconfigInvalid))
	h.Expect(h.status(second).Reason).To(Equal(ReasonQuotaExceeded))
	h.expectEvent(second, EventRegistered)

	h.unregister(first)
	h.Eventually(b.reads.Load).Should(BeEquivalentTo(1), "it got the place")
	h.Expect(h.status(second).Reason).To(Equal(ReasonQuotaExceeded), "it is not known to be anything else")
	h.unregister(second)
	h.Expect(h.exists(second)()).To(BeFalse())
	h.expectEvent(second, EventGone)
	h.Expect(h.cache.refused).To(BeEmpty())
	b.lift()
	h.Eventually(h.cache.registry.Reading).Should(BeZero())
	h.Expect(h.exists(second)()).To(BeFalse())
	_, err := h.cache.GetClient(t.Context(), second)
	h.Expect(err).To(MatchError(ErrClusterUnknown))
}

// Whichever order the Secrets come in at the start, the oldest have the places, and of those of one second the first by
// name.
func TestQuotaAtTheStart(t *testing.T) {
	for range 5 { // the order of the first list is random
		h := &hub{WithT: NewWithT(t), t: t, secrets: newSecrets()}
		keys := []ClusterKey{
			h.registered("z", time.Hour, []byte("garbage")), h.registered("b", time.Minute, []byte("garbage")),
			h.registered("c", time.Minute, []byte("garbage")), h.registered("a", time.Second, []byte("garbage")),
		}
		cache, err := New(quick(Options{Secrets: h.secrets, MaxRegistrations: 2}))
		h.Expect(err).NotTo(HaveOccurred())
		h.cache = cache
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- cache.Start(ctx) }()
		h.Eventually(cache.synced, patience).Should(BeClosed())
		for i, key := range keys {
			want := ReasonKubeconfigInvalid
			if i > 1 {
				want = ReasonQuotaExceeded
			}
			h.Eventually(func() string { return h.status(key).Reason }, patience).Should(Equal(want), key.Name)
		}
		cancel()
		h.Eventually(ended, patience).Should(Receive(BeNil()))
	}
}

// Another Secret under the name of one that has a place has its own age, even if the deletion of the other one was
// not observed.
func TestQuotaOfASecretThatIsReplaced(t *testing.T) {
	h := start(t, Options{MaxRegistrations: 2})
	a := newAPIServer(t, newStore("uid-a"))
	first, second := h.registered("a", time.Hour, a.kubeconfig("x")), h.registered("b", time.Minute, a.kubeconfig("x"))
	h.expectState(first, StateConnected)
	h.expectState(second, StateConnected)
	third := h.registered("c", time.Second, a.kubeconfig("x"))
	h.expectOverQuota(third)
	replaced := aged(first, 0, a.kubeconfig("x"))
	replaced.UID, replaced.ResourceVersion = types.UID("another"), "100"
	h.secrets.mu.Lock()
	h.secrets.handlers[0].OnUpdate(nil, replaced)
	h.secrets.mu.Unlock()
	h.expectState(third, StateConnected)
	h.expectOverQuotaEventually(first)
}

// expectOverQuotaEventually waits until the target that was there before is gone.
func (h *hub) expectOverQuotaEventually(key ClusterKey) {
	h.t.Helper()
	h.Eventually(func() string { return h.status(key).Reason }).Should(Equal(ReasonQuotaExceeded))
	h.expectOverQuota(key)
}
