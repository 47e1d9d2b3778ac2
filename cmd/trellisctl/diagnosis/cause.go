package diagnosis

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// Cause is the reason of a problem. The zero value means that there is none.
type Cause struct {
	// Reason is for programs: that of a condition if there is one.
	Reason string `json:"reason"`
	// Message is what is wrong.
	Message string `json:"message"`
	// Since is when it began; nil if that is not known.
	Since *metav1.Time `json:"since,omitempty"`
	// Unblock is what to do about it.
	Unblock string `json:"unblock,omitempty"`
	// Wished is true if a user requested that state.
	Wished bool `json:"wished,omitempty"`
}

// Reasons of causes that no condition has.
const (
	ReasonNoHub         = "NoHubWorks"
	ReasonNotSeen       = "NotSeen"
	ReasonNotClaimed    = "NotClaimed"
	ReasonNotRegistered = "NotRegistered"
	ReasonNotSelected   = "RegistrationNotSelected"
	ReasonNotObserved   = "NotObserved"
	ReasonWaitForState  = "WaitForState"
	ReasonHandover      = "WaitingForHandover"
	ReasonHibernated    = "Hibernated"
)

// OfManagedResource is the first cause of what is wrong with a ManagedResource.
func OfManagedResource(f *Facts) Cause {
	return first(f, OfHub, suspended, waitForState, noTarget, pausedTarget, handover, notSeen, unusableTarget,
		notObserved, conditions)
}

// OfCluster is the first cause of what is wrong with a cluster.
func OfCluster(f *Facts) Cause {
	return first(f, OfHub, webhooksLeft, notRegistered, notSelected, pausedTarget, unnoticed, unusableTarget,
		clusterConditions)
}

// OfControllers is the first cause of which no controller works in a cluster.
func OfControllers(f *Facts) Cause {
	return first(f, OfHub, notRegistered, notSelected, pausedTarget, unnoticed, unusableTarget, duplicated)
}

// first is the first cause that applies.
func first(f *Facts, causes ...func(*Facts) Cause) Cause {
	for _, find := range causes {
		if cause := find(f); cause.Reason != "" {
			return cause
		}
	}
	return Cause{}
}

// Since is a time of an object; nil if it is zero.
func Since(t metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// about replaces the parameters of a remedy by the namespace of an object, its name, and that of its registration, if
// it is a cluster. A remedy need not use all of them.
func about(obj metav1.Object, remedy string) string {
	return strings.NewReplacer("%[1]s", obj.GetNamespace(), "%[2]s", obj.GetName(),
		"%[3]s", remote.SecretName(obj.GetName())).Replace(remedy)
}

// annotatedAt is when an annotation was set, according to the managed fields.
func annotatedAt(obj metav1.Object, key string) *metav1.Time {
	for _, entry := range obj.GetManagedFields() {
		if entry.FieldsV1 != nil && entry.Time != nil && strings.Contains(entry.FieldsV1.GetRawString(),
			`"f:`+key+`"`) {
			return entry.Time
		}
	}
	return nil
}

// OfHub is the cause if no hub renews its heartbeat.
func OfHub(f *Facts) Cause {
	beat := &f.Heartbeat
	if !beat.Known || beat.Working {
		return Cause{}
	}
	return Cause{
		Reason: ReasonNoHub,
		Message: fmt.Sprintf("No hub works: the heartbeat %s was not renewed for %s. All conditions are as old.",
			beat.Lease, duration.HumanDuration(f.Now.Sub(*beat.Renewed))),
		Since:   Since(metav1.NewTime(*beat.Renewed)),
		Unblock: fmt.Sprintf("Look at the hub's pods and their log: kubectl -n %s get pods", beat.Lease.Namespace),
	}
}
