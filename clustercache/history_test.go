package clustercache

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// past is the history of a simulated cluster as its Leases show it: there is one, which is renewed now and then.
type past struct {
	mu       sync.Mutex
	version  int
	renewals map[int]string // when the Lease was renewed, by the version of that
	renewed  int            // how often, in all histories
	oldest   int            // what was before is compacted
	present  bool           // versions that are asked for are ignored
	opaque   bool           // versions are no numbers
	refusal  int            // a status instead of answers
	looks    int            // how often the present was asked for
}

// newPast adds Leases to a server.
func newPast(a *apiServer) *past {
	p := &past{version: 100, renewals: map[int]string{}}
	p.renew()
	a.setFault(p.serve)
	return p
}

func (p *past) serve(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != leasesPath {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.version
	if asked := r.URL.Query().Get("resourceVersion"); asked == "" {
		p.looks++
	} else if !p.present {
		at, _ = strconv.Atoi(asked)
	}
	switch {
	case p.refusal != 0:
		writeStatus(w, p.refusal, "the test says so")
		return true
	case at < p.oldest:
		writeStatus(w, http.StatusGone, "compacted")
		return true
	case at > p.version:
		writeStatus(w, http.StatusGatewayTimeout, "Too large resource version")
		return true
	}
	items := []any{map[string]any{"metadata": map[string]any{"name": "idle", "uid": "idle", "resourceVersion": p.text(50)}}}
	for written := at; written > 0; written-- {
		if renewed, found := p.renewals[written]; found {
			items = append(items, map[string]any{
				"metadata": map[string]any{"name": "controller", "uid": "controller", "resourceVersion": p.text(written)}, "spec": map[string]any{"renewTime": renewed},
			})
			break
		}
	}
	writeJSON(w, "application/json", map[string]any{"kind": "LeaseList", "metadata": map[string]any{"resourceVersion": p.text(at)}, "items": items})
	return true
}

func (p *past) text(version int) string {
	if p.opaque {
		return fmt.Sprintf("v%d", version)
	}
	return strconv.Itoa(version)
}

func (p *past) change(change func(*past)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// renew is a change that is seen, write is some that are not.
func (p *past) renew() {
	p.change(func(p *past) {
		p.version++
		p.renewed++
		p.renewals[p.version] = fmt.Sprintf("2026-01-01T00:00:%02d.000000Z", p.renewed)
	})
}

func (p *past) write(n int) { p.change(func(p *past) { p.version += n }) }

// restore forgets what was after a version.
func (p *past) restore(version int) {
	p.change(func(p *past) {
		for written := range p.renewals {
			if written > version {
				delete(p.renewals, written)
			}
		}
		p.version = version
	})
}

func (p *past) now() (version, looks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.looks
}

// looksBack has the hub look at the history of a target, and waits until it has.
func (h *hub) looksBack(key ClusterKey, p *past) {
	h.t.Helper()
	target := h.cache.target(key)
	for range 2 { // the first one may be over in a moment
		_, before := p.now()
		h.Eventually(func() int {
			target.suspect()
			_, looks := p.now()
			return looks
		}).Should(BeNumerically(">", before))
	}
}

func (h *hub) rewinds(key ClusterKey) func() int64 {
	return func() int64 { return h.status(key).Rewinds }
}

func TestTargetThatWentBackInTimeIsLookedAtAnew(t *testing.T) {
	for name, later := range map[string]func(p *past){
		"its version is lower": func(p *past) { p.restore(103); p.renew() },
		"its version is the same, and so is that of its youngest Lease": func(p *past) {
			version, _ := p.now()
			p.restore(version - 2)
			p.write(1)
			p.renew()
		},
		"its version is the same, and the Lease was not renewed": func(p *past) {
			version, _ := p.now()
			p.restore(version - 2)
			p.write(2)
		},
		"its version is higher": func(p *past) {
			p.restore(103)
			for range 20 {
				p.write(3)
				p.renew()
			}
		},
		"its version is higher, and there are no Leases any longer": func(p *past) {
			p.restore(100)
			p.write(100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, Options{Probe: ProbeOptions{Timeout: patience}})
			a := newAPIServer(t, newStore("uid-a"))
			p := newPast(a)
			p.write(5)
			p.renew()
			p.write(4)
			p.renew()
			a.store.put("configmaps", "default", "one", map[string]any{"data": map[string]any{"k": "before"}})
			a.store.put("configmaps", "default", "two", nil)
			key := h.register("a", a.kubeconfig("x"))
			h.expectState(key, StateConnected)
			r := newRecorder()
			h.watch(key, Watcher{Name: "cm", Kind: configMapKind, Handler: r})
			h.Eventually(r.syncs).Should(Equal(1))
			h.looksBack(key, p)
			h.Expect(h.rewinds(key)()).To(BeZero())

			a.store.mu.Lock() // of the versions that were there before, with other content
			a.store.objects["configmaps"]["default/one"]["data"] = map[string]any{"k": "after"}
			delete(a.store.objects["configmaps"], "default/two")
			a.store.mu.Unlock()
			later(p)
			h.looksBack(key, p)
			h.Eventually(h.rewinds(key)).Should(BeEquivalentTo(1))
			h.expectEvent(key, EventRewound)
			h.Eventually(r.syncs).Should(Equal(2))
			h.Expect(r.names()).To(ConsistOf("one"))
			h.Expect(r.count(func(r *recorder) int { return r.updates[types.NamespacedName{Namespace: "default", Name: "one"}] })()).To(Equal(2), "although its version is the same")
			h.Expect(r.faultsNow()).To(BeEmpty())
			h.Expect(h.state(key)).To(Equal(StateConnected))
			h.Expect(h.status(key).Connection).To(BeEquivalentTo(1), "nothing is wrong with the connection")

			p.renew()
			h.looksBack(key, p)
			p.restore(50)
			h.looksBack(key, p)
			h.Consistently(h.rewinds(key)).Should(BeEquivalentTo(1), "a second time at once costs it nothing yet")
			h.Expect(r.syncs()).To(Equal(2))
		})
	}
}

func TestWhatIsNoEvidenceOfAnotherPast(t *testing.T) {
	for name, later := range map[string]func(p *past){
		"it went on":                   func(p *past) { p.renew(); p.write(7) },
		"nothing happened":             func(*past) {},
		"the mark is compacted":        func(p *past) { p.write(100); p.change(func(p *past) { p.oldest = p.version }) },
		"the Lease is gone since":      func(p *past) { p.write(100) },
		"versions cannot be compared":  func(p *past) { p.change(func(p *past) { p.opaque = true }); p.restore(101) },
		"the hub may not read Leases":  func(p *past) { p.change(func(p *past) { p.refusal = http.StatusForbidden }); p.restore(101) },
		"there are no Leases":          func(p *past) { p.change(func(p *past) { p.refusal = http.StatusNotFound }); p.restore(101) },
		"the server is out of order":   func(p *past) { p.change(func(p *past) { p.refusal = http.StatusInternalServerError }) },
		"it does not know how to look": func(p *past) { p.change(func(p *past) { p.present = true }); p.renew(); p.renew() },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, Options{Probe: ProbeOptions{Timeout: patience}})
			a := newAPIServer(t, newStore("uid-a"))
			p := newPast(a)
			p.write(5)
			p.renew()
			key := h.register("a", a.kubeconfig("x"))
			h.expectState(key, StateConnected)
			r := h.watchConfigMaps(key)
			h.looksBack(key, p)
			later(p)
			for range 2 {
				h.looksBack(key, p)
				p.renew()
			}
			h.Consistently(h.rewinds(key)).Should(BeZero())
			h.Expect(r.syncs()).To(Equal(1))
			h.Expect(h.state(key)).To(Equal(StateConnected))
		})
	}
}

// A target may say anything of its versions. That costs itself a list of each kind now and then, and no other target
// anything.
func TestTargetThatLiesAboutItsVersions(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	tg := &target{clock: clock}
	g := NewWithT(t)
	due := func() bool {
		tg.loop.history.rewound = true
		if !tg.mayRewind(clock.Now()) {
			return false
		}
		tg.loop.history.rewoundAt = clock.Now()
		return true
	}
	g.Expect(due()).To(BeTrue())
	for range 4 {
		clock.Step(time.Minute)
		g.Expect(due()).To(BeFalse())
	}
	clock.Step(time.Minute)
	g.Expect(due()).To(BeTrue(), "what was noted meanwhile is not forgotten")
}
