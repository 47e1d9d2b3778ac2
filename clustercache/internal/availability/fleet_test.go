package availability

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// What counts as many, and as together.
func TestMassDisconnect(t *testing.T) {
	key := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "garden", Name: fmt.Sprint("t", i)}
	}
	for name, c := range map[string]struct {
		connected, lost int
		apart           time.Duration
		back            int
		want            bool
	}{
		"two of two":                          {connected: 2, lost: 2, want: false},
		"three of three":                      {connected: 3, lost: 3, want: true},
		"three of twenty":                     {connected: 20, lost: 3, want: false},
		"four of twenty":                      {connected: 20, lost: 4, want: true},
		"four of twenty, one after the other": {connected: 20, lost: 4, apart: 25 * time.Second, want: false},
		"ten of twenty, eight are back":       {connected: 20, lost: 10, back: 8, want: true},
		"ten of twenty, nine are back":        {connected: 20, lost: 10, back: 9, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFleet(Options{
				Logger: logr.Discard(), MassPercent: 20, MassWindow: time.Minute, MassLimit: 5 * time.Minute,
			})
			now := time.Now()
			for i := range c.connected {
				f.Connected(key(i), now)
			}
			for i := range c.lost {
				now = now.Add(c.apart)
				f.Lost(key(i), now)
			}
			for i := range c.back {
				f.Connected(key(i), now)
			}
			NewWithT(t).Expect(f.MassDisconnect(now)).To(Equal(c.want))
			NewWithT(t).Expect(f.MassDisconnect(now.Add(5 * time.Minute))).To(BeFalse())
		})
	}
}

// Static targets neither count as lost nor as connected: four of twenty are many, and four of twenty-one would not be.
func TestStaticTargetsDoNotCount(t *testing.T) {
	g := NewWithT(t)
	f := NewFleet(Options{Logger: logr.Discard(), MassPercent: 20, MassWindow: time.Minute, MassLimit: time.Hour})
	now := time.Now()
	f.Connected(types.NamespacedName{Name: "source"}, now)
	for i := range 20 {
		f.Connected(types.NamespacedName{Namespace: "garden", Name: fmt.Sprint("t", i)}, now)
	}
	f.Lost(types.NamespacedName{Name: "source"}, now)
	f.Connected(types.NamespacedName{Name: "source"}, now)
	for i := range 4 {
		g.Expect(f.MassDisconnect(now)).To(BeFalse())
		f.Lost(types.NamespacedName{Namespace: "garden", Name: fmt.Sprint("t", i)}, now)
	}
	g.Expect(f.MassDisconnect(now)).To(BeTrue())
}

// A lost connection is kept for the grace period, and for longer in a mass disconnect, but not for ever.
func TestGrace(t *testing.T) {
	g := NewWithT(t)
	const grace, window, limit = 10 * time.Second, time.Minute, 5 * time.Minute
	f := NewFleet(Options{
		Logger: logr.Discard(), Grace: grace, MassPercent: 20, MassWindow: window, MassLimit: limit,
	})
	key := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "garden", Name: fmt.Sprint("t", i)}
	}
	lost := time.Now()
	for i := range 3 {
		f.Connected(key(i), lost)
	}
	f.Lost(key(0), lost)
	g.Expect(f.GraceEnds(lost, lost)).To(Equal(lost.Add(grace)))
	f.Lost(key(1), lost)
	f.Lost(key(2), lost)
	now := lost.Add(time.Minute)
	g.Expect(f.GraceEnds(lost, now)).To(Equal(now.Add(grace)), "it begins anew all the time")
	now = lost.Add(limit + time.Hour)
	g.Expect(f.GraceEnds(lost, now)).To(Equal(lost.Add(limit+grace)), "but not for ever")
	g.Expect(f.MassDisconnect(now)).To(BeFalse())
}
