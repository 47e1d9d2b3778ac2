package targetcluster

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
	"github.com/trellis-hub/trellis/controllers/targetcluster/nodes"
)

// observation is everything that is known of a target at one moment.
type observation struct {
	now       time.Time
	namespace string
	// registered is false if the registration is gone and nothing is left of the connection. Then status is empty.
	registered bool
	status     clustercache.Status
	health     clustercache.HealthCheckingState
	nodes      nodes.Summary
	// roundTrip is the coarse one, in milliseconds; zero if there is none.
	roundTrip int64
	// conflict says that the cluster at the other end is not the one that it should be; nil if it is.
	conflict error
	// others are the other targets of the namespace that are the same cluster. elsewhereToo is true if the same API
	// server is registered in another namespace, which may not be named.
	others       []clustercache.ClusterKey
	elsewhereToo bool
	// holder is the target of the same cluster for which controllers work instead; zero if they work for this one.
	holder clustercache.ClusterKey
	// elsewhere names another manager at work in the namespace; empty if there is none.
	elsewhere string
	paused    bool
	// facts are nil if none are known.
	facts *targetfacts.Facts
	// members are the ManagedResources of the target, if membersKnown.
	members      []care.Member
	membersKnown bool
	// sign is the last sign of the hub's work on the target.
	sign time.Time
	// failing are the checks that failed in the last observation.
	failing []hubv1alpha1.FailingCheck
	// rules are those of the configuration.
	rules rules
	// revision is that of what sources had reported of the target before.
	revision uint64
}

// rules say what an observation means.
type rules struct {
	thresholds       map[string]time.Duration
	progressingLimit time.Duration
	monitor          time.Duration
	targetMonitor    time.Duration
	termBegan        time.Time
}

// takeOver is how long after the start of a term the hub may still begin to connect to targets that a previous leader
// worked on. Later ones were registered during the term.
const takeOver = 10 * time.Second

// signOfWork returns when the hub gave the last sign that it works on a target: it probed or dialled it, or has decided
// when it will next. A registration that is refused or gone, and a target that is hibernated, need no work. A target
// that was registered during this term is worked on from then on. Before the first sign on any other, that of the
// previous leader counts, whose status it is that operators see.
func (o *observation) signOfWork(watchedUntil time.Time) time.Time {
	if !o.registered {
		return o.now
	}
	switch o.status.State {
	case clustercache.StateRefused, clustercache.StateDraining, clustercache.StateHibernated:
		return o.now
	}
	sign := latest(o.health.LastProbeTime, o.status.NextAttempt)
	if o.status.State != clustercache.StateConnecting || o.status.Since.After(o.rules.termBegan.Add(takeOver)) {
		sign = latest(sign, o.status.Since)
	}
	switch {
	case !sign.IsZero():
		return sign
	case !watchedUntil.IsZero():
		return watchedUntil
	default:
		return o.rules.termBegan
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// down is why the target cannot be asked, empty if it can.
func (o *observation) down() string {
	switch {
	case !o.registered:
		return messageGone
	case o.conflict != nil:
		return o.conflict.Error()
	case o.connected():
		return ""
	case o.status.Message == "":
		return reasonOf(o.status)
	default:
		return o.status.Message
	}
}

// isDuplicate reports whether controllers work for another registration of the cluster.
func (o *observation) isDuplicate() bool { return o.holder != clustercache.ClusterKey{} }

func (o *observation) connected() bool {
	return o.registered && o.status.State == clustercache.StateConnected
}

func (o *observation) connecting() bool {
	return o.registered && o.status.State == clustercache.StateConnecting
}

// firstAttempt is how long a hub that has just started leaves the status of a target as it is while it dials it first.
const firstAttempt = 10 * time.Second

// tooEarly returns for how much longer the status of a target stays as the previous leader left it. A restart would
// otherwise have a whole fleet become Unknown for a second.
func (o *observation) tooEarly(status *hubv1alpha1.TargetClusterStatus) time.Duration {
	connected := meta.FindStatusCondition(status.Conditions, hubv1alpha1.ConditionConnected)
	if !o.connecting() || connected == nil || connected.Reason == hubv1alpha1.ReasonConnecting {
		return 0
	}
	return max(0, firstAttempt-o.now.Sub(o.status.Since))
}

// credentialEnds returns when the credential ends, and false if it does not or that is not known.
func (o *observation) credentialEnds() (time.Time, bool) {
	return o.status.CredentialExpiry, !o.status.CredentialExpiry.IsZero()
}
