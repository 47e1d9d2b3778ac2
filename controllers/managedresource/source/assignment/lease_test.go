package assignment

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// lease is one of 10 s that was renewed 4 s ago by our clock.
func lease(change func(l *coordinationv1.LeaseSpec)) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: ResourceManagerLease}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("grm"), LeaseDurationSeconds: ptr.To(int32(10)), RenewTime: renewed(-4 * time.Second),
	}}
	change(&l.Spec)
	return l
}

func renewed(ago time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(now.Add(ago))) }

// Another machine's clock says little. What counts is when we saw a Lease, and whether it changes.
func TestManagedElsewhere(t *testing.T) {
	tests := map[string]struct {
		change func(l *coordinationv1.LeaseSpec)
		until  time.Duration // from now; zero if it is not held
	}{
		"renewed":                       {change: func(*coordinationv1.LeaseSpec) {}, until: 10 * time.Second},
		"without a duration":            {change: func(l *coordinationv1.LeaseSpec) { l.LeaseDurationSeconds = nil }, until: 15 * time.Second},
		"given up":                      {change: func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = ptr.To("") }},
		"without a holder":              {change: func(l *coordinationv1.LeaseSpec) { l.HolderIdentity = nil }},
		"never renewed":                 {change: func(l *coordinationv1.LeaseSpec) { l.RenewTime = nil }},
		"by a clock ahead of ours":      {change: func(l *coordinationv1.LeaseSpec) { l.RenewTime = renewed(time.Hour) }, until: 10 * time.Second},
		"expired, or by a clock behind": {change: func(l *coordinationv1.LeaseSpec) { l.RenewTime = renewed(-39 * time.Second) }, until: 10 * time.Second},
		"expired by any clock":          {change: func(l *coordinationv1.LeaseSpec) { l.RenewTime = renewed(-40 * time.Second) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := claims(t, lease(test.change))
			for range 2 { // looking twice makes no difference
				d, err := c.Decide(context.Background(), managedResource("one"))
				g.Expect(err).NotTo(HaveOccurred())
				want := time.Time{}
				if test.until != 0 {
					want = now.Add(test.until)
				}
				g.Expect(d.ElsewhereUntil.Equal(want)).To(BeTrue(), d.ElsewhereUntil.String())
			}
			// It holds the default class, in its own namespace.
			for _, mr := range []*resourcesv1alpha1.ManagedResource{managedResource("two"), managedResource("seed", class("seed"))} {
				d, err := c.Decide(context.Background(), mr)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(d.ElsewhereUntil.IsZero()).To(BeTrue())
			}
		})
	}
}

func TestLeaseIsJudgedByWhatIsSeen(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(now)
	l := lease(func(*coordinationv1.LeaseSpec) {})
	c := claims(t, l)
	c.Clock = clock
	ctx := context.Background()
	until := func() time.Time {
		u, err := c.ManagedElsewhere(ctx, "one")
		g.Expect(err).NotTo(HaveOccurred())
		return u
	}
	source, ok := c.Reader.(client.Client)
	g.Expect(ok).To(BeTrue())
	update := func(change func()) {
		change()
		g.Expect(source.Update(ctx, l)).To(Succeed())
	}
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

	g.Expect(until()).To(Equal(now.Add(10 * time.Second)))
	step(9 * time.Second)
	update(func() { l.Spec.RenewTime = renewed(-time.Hour) })
	g.Expect(until()).To(Equal(clock.Now().Add(10*time.Second)), "renewed, by a clock that is far behind")
	step(9 * time.Second)
	update(func() { l.Labels = map[string]string{"a": "b"} })
	g.Expect(until()).To(Equal(clock.Now().Add(time.Second)), "an edit is no renewal")
	step(time.Second)
	g.Expect(until().IsZero()).To(BeTrue(), "expired")
	step(time.Hour)
	g.Expect(until().IsZero()).To(BeTrue())
	update(func() { l.Spec.RenewTime = renewed(-time.Minute) })
	g.Expect(until()).To(Equal(clock.Now().Add(10*time.Second)), "its holder is back")
	update(func() { l.Spec.HolderIdentity = ptr.To("") })
	g.Expect(until().IsZero()).To(BeTrue(), "given up")
	update(func() { l.Spec.HolderIdentity = ptr.To("other") })
	g.Expect(until()).To(Equal(clock.Now().Add(10*time.Second)), "another one takes it, with the time of the last")

	stale := l.DeepCopy()
	update(func() { l.Spec.HolderIdentity = ptr.To("") })
	g.Expect(until().IsZero()).To(BeTrue())
	g.Expect(c.SeeLease(stale).IsZero()).To(BeTrue(), "an informer that is behind a live read")
	g.Expect(source.Delete(ctx, l)).To(Succeed())
	g.Expect(until().IsZero()).To(BeTrue())
	fresh := lease(func(l *coordinationv1.LeaseSpec) { l.RenewTime = renewed(-time.Hour) })
	g.Expect(source.Create(ctx, fresh)).To(Succeed())
	g.Expect(until().IsZero()).To(BeTrue(), "what was seen of another one is forgotten")
}

// A resource manager that came a moment ago is in no informer.
func TestManagedElsewhereNow(t *testing.T) {
	g := NewWithT(t)
	live := claims(t, lease(func(*coordinationv1.LeaseSpec) {}))
	c := claims(t)
	for name, held := range map[string]bool{"": true, "seed": false, "garden": false} {
		until, err := c.ManagedElsewhereNow(context.Background(), live.Reader, c.Classes[name], "one")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(!until.IsZero()).To(Equal(held), name)
	}
}
