package targetcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// expiresSoon is how long before its end a credential is worth a warning if it does not say since when it is valid.
	expiresSoon = time.Hour

	messageNotProbed      = "there is no connection over which to find out"
	messageConnecting     = "the first attempt to connect is under way"
	messageGone           = "the registration Secret is gone"
	messageGoneButInUse   = "the registration Secret is gone; ManagedResources still have their objects in the target"
	messageGoneAndDrained = "the registration Secret is gone; the connection serves only to clean up"
)

// judgement is what the conditions become by an observation.
type judgement struct {
	conditions []metav1.Condition
	failing    []hubv1alpha1.FailingCheck
	// remembered are those and the ones whose threshold is over, but not yet for all to see.
	remembered []hubv1alpha1.FailingCheck
	// next is when they may become something else although nothing happens, zero if they will not.
	next time.Time
}

// judge returns what the conditions become. It never changes what it is given.
func judge(old *hubv1alpha1.TargetClusterStatus, generation int64, o observation) judgement {
	c := conditions{
		list: slices.Clone(old.Conditions), failing: map[string]time.Time{}, failed: map[string]time.Time{},
		over: map[string]time.Time{}, rules: o.rules, now: o.now, generation: generation,
	}
	for _, check := range o.failing {
		c.failed[check.Type] = check.Since.Time
	}
	if !o.registered || o.status.State != clustercache.StateDraining {
		// While a target drains, only that matters; the rest stays as it was.
		c.connected(o)
		c.credentialsValid(o)
		c.apiServerAvailable(o)
		c.everyNodeReady(o)
		c.duplicate(o)
		c.components(o)
	}
	c.ready(o)
	c.hubReady(o)
	for i := range c.list {
		// What the status was on the way here is no transition.
		if before := meta.FindStatusCondition(old.Conditions, c.list[i].Type); before != nil &&
			before.Status == c.list[i].Status {
			c.list[i].LastTransitionTime = before.LastTransitionTime
		}
	}
	failing := listed(c.failing)
	return judgement{conditions: c.list, failing: failing, remembered: append(listed(c.over), failing...), next: c.next}
}

// conditions is a list under change.
type conditions struct {
	list []metav1.Condition
	// failed says since when checks failed before, failing since when they do now, both for less than their thresholds.
	failed, failing map[string]time.Time
	// over says since when those have failed whose threshold is over.
	over       map[string]time.Time
	rules      rules
	now        time.Time
	generation int64
	next       time.Time
}

func listed(since map[string]time.Time) []hubv1alpha1.FailingCheck {
	var list []hubv1alpha1.FailingCheck
	for _, conditionType := range slices.Sorted(maps.Keys(since)) {
		list = append(list, hubv1alpha1.FailingCheck{Type: conditionType, Since: metav1.NewTime(since[conditionType])})
	}
	return list
}

// at has the target reconciled again then.
func (c *conditions) at(then time.Time) {
	if c.next.IsZero() || then.Before(c.next) {
		c.next = then
	}
}

// check sets a condition to what its check says, if that is not to be waited for.
func (c *conditions) check(conditionType string, check care.Check, threshold time.Duration) {
	old, since := c.known(conditionType), c.failed[conditionType]
	s := care.Advance(old, since, check, threshold, c.now)
	switch {
	case !s.Since.IsZero():
		c.failing[conditionType] = s.Since
		c.at(c.now.Add(s.Left))
	case check.Status != metav1.ConditionTrue && !since.IsZero() && (old == nil || old.Status != s.Status):
		c.over[conditionType] = since // the condition may have to wait for its write
	}
	c.set(conditionType, s.Status, s.Reason, s.Message)
}

// known returns what a condition was, nil if that says nothing of its check: if the check could not run before, a
// failure has its threshold as a first one has. Only the check of the API server reports that a target cannot be
// reached.
func (c *conditions) known(conditionType string) *metav1.Condition {
	old := meta.FindStatusCondition(c.list, conditionType)
	switch {
	case old == nil || old.Status != metav1.ConditionUnknown || isFailing(old.Reason) && !c.failed[conditionType].IsZero():
		return old
	case isFailing(old.Reason), conditionType != hubv1alpha1.ConditionAPIServerAvailable &&
		old.Reason != hubv1alpha1.ReasonManagedResourcesUnknown:
		return nil
	default:
		return old
	}
}

func (c *conditions) has(conditionType string) bool {
	return meta.FindStatusCondition(c.list, conditionType) != nil
}

// maxMessage bounds the message of a condition, in bytes. It is made of bounded texts, some of which targets wrote.
const maxMessage = 4 << 10

func (c *conditions) set(conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.list, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: untrusted.Text(message, maxMessage),
		ObservedGeneration: c.generation, LastTransitionTime: metav1.NewTime(c.now.Truncate(time.Second)),
	})
}

func (c *conditions) connected(o observation) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		c.set(hubv1alpha1.ConditionConnected, status, reason, message)
	}
	switch {
	case !o.registered:
		set(metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone, messageGone)
	case o.connected():
		set(metav1.ConditionTrue, hubv1alpha1.ReasonConnected, "the hub is connected to the target")
	case o.status.State == clustercache.StateConnecting:
		set(metav1.ConditionUnknown, hubv1alpha1.ReasonConnecting, messageConnecting)
	default:
		set(metav1.ConditionFalse, reasonOf(o.status), o.status.Message)
	}
}

func (c *conditions) credentialsValid(o observation) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		c.set(hubv1alpha1.ConditionCredentialsValid, status, reason, message)
	}
	end, ends := o.credentialEnds()
	switch status := o.status; {
	case !o.registered:
		set(metav1.ConditionUnknown, hubv1alpha1.ReasonNotProbed, messageNotProbed)
	case status.State == clustercache.StateRefused:
		set(metav1.ConditionFalse, reasonOf(status), status.Message)
	case ends && !o.now.Before(end):
		set(metav1.ConditionFalse, hubv1alpha1.ReasonCredentialsExpired, "the credential expired at "+timeText(end))
	case status.PendingReason != "":
		set(metav1.ConditionFalse, status.PendingReason, pendingText(status))
	case status.State == clustercache.StateDisconnected &&
		(status.Reason == clustercache.ReasonUnauthorized || status.Reason == clustercache.ReasonForbidden):
		set(metav1.ConditionFalse, status.Reason, status.Message)
	case !o.connected():
		set(metav1.ConditionUnknown, hubv1alpha1.ReasonNotProbed, messageNotProbed)
	case ends && end.Sub(o.now) < warnBefore(o.status.CredentialIssued, end):
		set(metav1.ConditionTrue, hubv1alpha1.ReasonCredentialsExpireSoon, "the credential "+expiryText(o.now, end))
	case ends:
		set(metav1.ConditionTrue, hubv1alpha1.ReasonCredentialsAccepted,
			"the target accepts the credential, which "+expiryText(o.now, end))
	default:
		set(metav1.ConditionTrue, hubv1alpha1.ReasonCredentialsAccepted,
			"the target accepts the credential, which does not expire")
	}
}

// probeThreshold is the least threshold for a probe that fails while the connection continues: it is the clustercache
// that decides when that is a failure.
const probeThreshold = time.Minute

func (c *conditions) apiServerAvailable(o observation) {
	const conditionType = hubv1alpha1.ConditionAPIServerAvailable
	threshold := c.rules.thresholds[conditionType]
	failing := func(reason, message string) care.Check {
		return care.Check{Status: metav1.ConditionFalse, Reason: reason, Message: message,
			Failing: hubv1alpha1.ReasonProbeFailing}
	}
	switch status := o.status; {
	case o.connecting() && c.has(conditionType):
		c.keep(conditionType) // it is known in a moment
	case o.connected() && o.health.ConsecutiveFailures > 0:
		c.check(conditionType, failing(hubv1alpha1.ReasonProbeFailed, "the last probe failed"),
			max(threshold, probeThreshold))
	case o.connected():
		c.check(conditionType, care.Check{Status: metav1.ConditionTrue, Reason: hubv1alpha1.ReasonHealthzRequestSucceeded,
			Message: availableText(o)}, threshold)
	case o.registered && status.State == clustercache.StateDisconnected &&
		status.Reason != clustercache.ReasonUnauthorized && status.Reason != clustercache.ReasonForbidden:
		c.check(conditionType, failing(reasonOf(status), status.Message), threshold)
	default:
		reason, message := notAsked(o)
		c.set(conditionType, metav1.ConditionUnknown, reason, message)
	}
}

// availableText has the text of Gardener, which users know, although the hub probes in another way. The response time
// is in coarse steps, so that it rarely changes.
func availableText(o observation) string {
	const text = "API server /healthz endpoint responded with success status code."
	if o.roundTrip == 0 {
		return text
	}
	return fmt.Sprintf("%s [response_time:%dms]", text, o.roundTrip)
}

// notAsked is why a target was not even asked.
func notAsked(o observation) (reason, message string) {
	switch {
	case !o.registered:
		return hubv1alpha1.ReasonRegistrationGone, messageGone
	case o.status.State == clustercache.StateRefused:
		return reasonOf(o.status), o.status.Message
	default:
		return hubv1alpha1.ReasonNotProbed, messageNotProbed
	}
}

func (c *conditions) everyNodeReady(o observation) {
	const conditionType = hubv1alpha1.ConditionEveryNodeReady
	threshold := c.rules.thresholds[conditionType]
	switch is := o.nodes; {
	case o.connecting():
		c.keep(conditionType)
	case !o.connected():
		if c.has(conditionType) {
			reason, message := notAsked(o)
			c.set(conditionType, metav1.ConditionUnknown, reason, message)
		}
	case is.Fault != nil:
		c.set(conditionType, metav1.ConditionUnknown, hubv1alpha1.ReasonNodesUnknown,
			"the nodes cannot be watched: "+untrusted.Text(is.Fault.Error(), maxFault))
	case !is.Known:
		c.keep(conditionType) // not listed yet
	case is.Total == 0:
		meta.RemoveStatusCondition(&c.list, conditionType)
	case is.Ready < is.Total:
		c.check(conditionType, care.Check{
			Status: metav1.ConditionFalse, Reason: hubv1alpha1.ReasonNodesUnhealthy, Failing: hubv1alpha1.ReasonNodesFailing,
			Message: fmt.Sprintf("%d of %d nodes are not healthy, %s", is.Total-is.Ready, is.Total, is.Problem),
		}, threshold)
	default:
		c.set(conditionType, metav1.ConditionTrue, hubv1alpha1.ReasonEveryNodeReady,
			"Every node registered to the cluster is ready.")
	}
}

// ready names the first root cause; the package documentation says in which order.
func (c *conditions) ready(o observation) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		c.set(hubv1alpha1.ConditionReady, status, reason, message)
	}
	end, ends := o.credentialEnds()
	switch status := o.status; {
	case !o.registered:
		set(metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone, messageGoneButInUse)
	case status.State == clustercache.StateDraining:
		set(metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone, messageGoneAndDrained)
	case status.State == clustercache.StateRefused:
		set(metav1.ConditionFalse, reasonOf(status), status.Message)
	case o.conflict != nil:
		set(metav1.ConditionFalse, hubv1alpha1.ReasonIdentityChanged, o.conflict.Error())
	case status.State == clustercache.StateConnecting:
		set(metav1.ConditionUnknown, hubv1alpha1.ReasonConnecting, messageConnecting)
	case !o.connected() && ends && !o.now.Before(end):
		set(metav1.ConditionFalse, hubv1alpha1.ReasonCredentialsExpired,
			fmt.Sprintf("the credential expired at %s: %s", timeText(end), status.Message))
	case !o.connected():
		set(metav1.ConditionFalse, reasonOf(status), status.Message)
	case o.elsewhere != "":
		set(metav1.ConditionFalse, hubv1alpha1.ReasonManagedElsewhere,
			o.elsewhere+" is at work in this namespace; stop it, or give it another class and another Lease")
	case o.paused:
		set(metav1.ConditionFalse, hubv1alpha1.ReasonPaused, "spec.paused is set, nothing is written to the target")
	case status.Overfull != "":
		set(metav1.ConditionFalse, hubv1alpha1.ReasonTooManyObjects, status.Overfull+"; see clusterCache.maxObjectsPerTarget")
	case len(o.others) > 0 || o.elsewhereToo || o.isDuplicate():
		set(metav1.ConditionTrue, hubv1alpha1.ReasonDuplicateRegistration, duplicateText(o))
	case status.PendingReason != "":
		set(metav1.ConditionTrue, hubv1alpha1.ReasonReady, pendingText(status))
	default:
		set(metav1.ConditionTrue, hubv1alpha1.ReasonReady, "the hub does its work in the target")
	}
}

// duplicate reports that controllers work for another registration of the cluster.
func (c *conditions) duplicate(o observation) {
	const conditionType = hubv1alpha1.ConditionDuplicateRegistration
	if !o.registered || !o.isDuplicate() {
		meta.RemoveStatusCondition(&c.list, conditionType)
		return
	}
	c.set(conditionType, metav1.ConditionTrue, hubv1alpha1.ReasonDuplicateRegistration, holderText(o))
}

// duplicateText names the other registrations of the same cluster. Those of other namespaces are not named: readers of
// this one may not know of them.
func duplicateText(o observation) string {
	var text string
	switch {
	case len(o.others) > 0 && o.elsewhereToo:
		text = "the same cluster is also registered as " + names(o.others) + ", and in another namespace"
	case len(o.others) > 0:
		text = "the same cluster is also registered as " + names(o.others)
	case o.elsewhereToo:
		text = "the same cluster is also registered in another namespace"
	}
	switch {
	case !o.isDuplicate():
		return text
	case text == "":
		return holderText(o)
	default:
		return text + "; " + holderText(o)
	}
}

// holderText says for which registration of the cluster controllers work instead, with its name if readers of this one
// may know it.
func holderText(o observation) string {
	switch o.holder.Namespace {
	case "":
		return "controllers do not work for this registration: the configuration of the hub has them for the source, " +
			"which is the same cluster; ManagedResources are applied"
	case o.namespace:
		return "controllers do not work for this registration, but for " + o.holder.String() + ", which had the cluster " +
			"first; they will when that one is gone; ManagedResources are applied"
	default:
		return "controllers do not work for this registration, but for one in another namespace, which had the cluster " +
			"first; they will when that one is gone; ManagedResources are applied"
	}
}

// reasonOf returns the reason of a target that is not connected, which a condition cannot be without.
func reasonOf(status clustercache.Status) string {
	if status.Reason == "" {
		return hubv1alpha1.ReasonUnreachable
	}
	return status.Reason
}

func pendingText(status clustercache.Status) string {
	return "the new content of the Secret is not used, the former connection stays in use: " + status.PendingMessage
}

// warnBefore returns how long before its end a credential is worth a warning: at a fifth of its life. One that lives
// for a day at most is renewed by a program, as those of a token requestor are, which does that at a fifth or a bit
// later; there it is a tenth, so that there is no warning about a program that renews in time.
func warnBefore(issued, end time.Time) time.Duration {
	switch life := end.Sub(issued); {
	case issued.IsZero():
		return expiresSoon
	case life <= 24*time.Hour:
		return life / 10
	default:
		return life / 5
	}
}

const day = 24 * time.Hour

// remaining are the steps in which the remaining time of a credential is given.
var remaining = []struct {
	limit time.Duration
	name  string
}{{time.Hour, "an hour"}, {day, "a day"}, {7 * day, "a week"}, {30 * day, "30 days"}}

// expirySteps are the limits of these steps.
func expirySteps() []time.Duration {
	limits := make([]time.Duration, 0, len(remaining))
	for _, step := range remaining {
		limits = append(limits, step.limit)
	}
	return limits
}

// expiryText gives the remaining time in steps, so that the text rarely changes.
func expiryText(now, end time.Time) string {
	left := end.Sub(now)
	for _, step := range remaining {
		if left < step.limit {
			return fmt.Sprintf("expires in less than %s, at %s", step.name, timeText(end))
		}
	}
	return "expires at " + timeText(end)
}

func timeText(t time.Time) string {
	return t.UTC().Format(time.RFC3339)
}

// maxFault bounds what a message repeats of the text of an error, in bytes.
const maxFault = 512

// names lists targets, but not without end.
func names(keys []clustercache.ClusterKey) string {
	const most = 5
	var list []string
	for _, key := range keys[:min(len(keys), most)] {
		list = append(list, key.String())
	}
	text := strings.Join(list, ", ")
	if len(keys) > most {
		text += fmt.Sprintf(" and %d more", len(keys)-most)
	}
	return text
}
