package clustercache

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// leasesPath has the Leases that are renewed all the time in nearly every cluster: those of API servers and of
	// the controllers of the control plane. leasesMost is how many are looked at.
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + metav1.NamespaceSystem + "/leases"
	leasesMost = 20
	// rewindPause is the least time from one rewind of a target to the next. Each has all of its watches list anew,
	// and a target may say anything of its versions.
	rewindPause = 5 * time.Minute
)

// history is what is remembered of the past of a target. The zero value is nothing.
type history struct {
	// version is the highest that the target was found to have.
	version string
	// mark is the youngest change that was found.
	mark lease
}

// lease is a Lease as it was written at a version.
type lease struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		RenewTime string `json:"renewTime"`
	} `json:"spec"`
}

// leases are some Leases as they were at a version.
type leases struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []lease `json:"items"`
}

// pastResult is what a look at the history of a target found.
type pastResult struct {
	answered bool // if not, the target is to be asked again soon
	now      history
	rewound  bool
}

// readPast finds out whether the past that is remembered of a target is its past still. Answers that do not tell,
// because the hub may not read Leases, or a version cannot be compared or is forgotten, are no evidence.
func (g *connection) readPast(ctx context.Context, past history, patience time.Duration) *pastResult {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var present leases
	// Without a version it is a consistent read: the answer is not older than any that was given before, whichever
	// API server gives it.
	err := g.call(ctx, http.MethodGet, leasesPath+"?limit="+strconv.Itoa(leasesMost), nil, &present)
	if err != nil {
		return &pastResult{answered: isAnswered(err), now: past}
	}
	result := &pastResult{answered: true, now: history{version: present.Metadata.ResourceVersion,
		mark: present.youngest()}}
	if !isVersion(result.now.version) {
		result.now = past
		return result
	}
	if isOlder(result.now.version, past.version) {
		result.rewound = true
		return result
	}
	if past.mark == (lease{}) {
		return result
	}
	result.rewound, err = g.misses(ctx, past.mark)
	result.answered = err == nil || isAnswered(err)
	if !result.answered {
		result.now = past
	}
	return result
}

// misses tells whether a change that was found once is no part of the history of a target. A target that went back
// and has had as many changes since has another one of that version, and be it of the same Lease, it was renewed at
// another time.
func (g *connection) misses(ctx context.Context, mark lease) (bool, error) {
	version := mark.Metadata.ResourceVersion
	query := url.Values{
		"fieldSelector": {"metadata.name=" + mark.Metadata.Name}, "resourceVersion": {version},
		"resourceVersionMatch": {string(metav1.ResourceVersionMatchExact)},
	}
	var then leases
	if err := g.call(ctx, http.MethodGet, leasesPath+"?"+query.Encode(), nil, &then); err != nil {
		return false, err
	}
	if then.Metadata.ResourceVersion != version {
		return false, nil // it does not know how to look back
	}
	return !slices.Contains(then.Items, mark), nil
}

// youngest returns the Lease that was written last, the zero value if there is none that can be asked for again.
func (l *leases) youngest() (youngest lease) {
	for _, item := range l.Items {
		m := item.Metadata
		usable := untrusted.Name(m.Name) == m.Name && untrusted.Token(m.UID) == m.UID &&
			isVersion(m.ResourceVersion) && untrusted.Token(item.Spec.RenewTime) == item.Spec.RenewTime
		if usable && (youngest == (lease{}) || isOlder(youngest.Metadata.ResourceVersion, m.ResourceVersion)) {
			youngest = item
		}
	}
	return youngest
}

// isVersion tells whether a text is a version that can be compared with others.
func isVersion(text string) bool {
	_, err := resourceversion.CompareResourceVersion(text, text)
	return err == nil && untrusted.Token(text) == text
}

// isOlder tells of two versions whether the first one is older. Of what cannot be compared nothing is.
func isOlder(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// isAnswered tells of the error of a call whether the target would say the same if it was asked again.
func isAnswered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError &&
		!apierrors.IsTooManyRequests(err)
}

// asksPast tells whether the next probe is to find out whether the target still has the past that is remembered of
// it: now and then, and as soon as the connection was lost or is suspected, for nobody restores etcd without a restart
// of the API servers.
func (t *target) asksPast() bool {
	return t.loop.failures == 0 && (t.loop.unsure || t.loop.probeNo%versionEvery == 0)
}

// remembered returns what is remembered of the past of the target.
func (t *target) remembered() history {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.past
}

func (t *target) remember(past history) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.past = past
}

// looked takes what a look at the history found.
func (t *target) looked(result *pastResult, g *connection, now time.Time) {
	if result != nil {
		t.loop.unsure = !result.answered
		t.loop.rewound = t.loop.rewound || result.rewound
		t.remember(result.now)
	}
	if t.mayRewind(now) {
		t.rewind(g, now)
	}
}

// mayRewind tells whether the target went back in time, and it is not too early to act on that.
func (t *target) mayRewind(now time.Time) bool {
	return t.loop.rewound && (t.loop.rewoundAt.IsZero() || now.Sub(t.loop.rewoundAt) >= rewindPause)
}

// rewind has all of a target looked at anew that went back in time. Versions of another history cannot be compared
// with those of this one, and a watch that goes on from one shows what never was.
func (t *target) rewind(g *connection, now time.Time) {
	t.loop.rewound, t.loop.rewoundAt = false, now
	t.cache.metrics.rewinds.Inc()
	t.log.Info("The target went back in time, as when its etcd is restored from a backup; all of it is looked at anew")
	if a := t.loop.attempt; a != nil && a.mode == modeGeneration { // its watches have listed what was
		a.outdated = true
		a.cancel()
		t.retryNow()
	}
	g.mapper.Reset()
	for _, w := range t.streams() {
		w.Distrust()
		w.boundTo = 0
	}
	t.bind(g)
	t.update(func(s *Status) { s.Rewinds++ }, EventRewound)
}
