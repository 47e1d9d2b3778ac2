package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// Cause is the reason of a problem. The zero value means that there is none.
type Cause struct {
	// Reason is for programs: that of a condition if there is one.
	Reason string `json:"reason"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Since is when it began; nil if that is not known.
	Since *metav1.Time `json:"since,omitempty"`
	// Unblock says what to do about it.
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
	ReasonNotObserved   = "NotObserved"
	ReasonWaitForState  = "WaitForState"
	ReasonHandover      = "WaitingForHandover"
	ReasonHibernated    = "Hibernated"
)

// OfManagedResource is the first cause of what is wrong with a ManagedResource.
func OfManagedResource(f *Facts) Cause {
	for _, ask := range []func(*Facts) Cause{
		noHub, suspended, waitForState, noTarget, pausedTarget, handover, notSeen, unusableTarget, notObserved, conditions,
	} {
		if cause := ask(f); cause.Reason != "" {
			return cause
		}
	}
	return Cause{}
}

// OfCluster is the first cause of what is wrong with a cluster.
func OfCluster(f *Facts) Cause {
	for _, ask := range []func(*Facts) Cause{noHub, notRegistered, pausedTarget, unnoticed, unusableTarget,
		clusterConditions} {
		if cause := ask(f); cause.Reason != "" {
			return cause
		}
	}
	return Cause{}
}

func since(t metav1.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// annotatedAt is when an annotation was set, according to the managed fields.
func annotatedAt(obj metav1.Object, key string) *metav1.Time {
	for _, entry := range obj.GetManagedFields() {
		if entry.FieldsV1 != nil && entry.Time != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`) {
			return entry.Time
		}
	}
	return nil
}

// noHub is the cause if no hub renews its heartbeat.
func noHub(f *Facts) Cause {
	if !f.HeartbeatKnown || f.Heartbeat == nil || f.Heartbeat.Spec.RenewTime == nil {
		return Cause{} // not known
	}
	beat := f.Heartbeat.Spec.RenewTime.Time
	if f.Now.Sub(beat) <= heartbeatLimit {
		return Cause{}
	}
	return Cause{
		Reason: ReasonNoHub,
		Message: fmt.Sprintf("No hub works: the heartbeat %s/%s was not renewed for %s. All conditions are as old.",
			f.Heartbeat.Namespace, f.Heartbeat.Name, duration.HumanDuration(f.Now.Sub(beat))),
		Since:   since(metav1.NewTime(beat)),
		Unblock: fmt.Sprintf("Look at the hub's pods and their log: kubectl -n %s get pods", f.Heartbeat.Namespace),
	}
}

func suspended(f *Facts) Cause {
	mr := f.ManagedResource
	if mr.DeletionTimestamp != nil || !resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]) {
		return Cause{}
	}
	return Cause{
		Reason: resourcesv1alpha1.ReasonManagedResourceIgnored, Wished: true,
		Message: "It is suspended by the annotation " + resourcesv1alpha1.IgnoreAnnotation + ": the hub leaves it alone.",
		Since:   annotatedAt(mr, resourcesv1alpha1.IgnoreAnnotation),
		Unblock: fmt.Sprintf("trellisctl -n %s resume mr %s", mr.Namespace, mr.Name),
	}
}

func waitForState(f *Facts) Cause {
	mr := f.ManagedResource
	if mr.Annotations[resourcesv1alpha1.OperationAnnotation] != resourcesv1alpha1.OperationWaitForState {
		return Cause{}
	}
	return Cause{
		Reason: ReasonWaitForState, Wished: true,
		Message: "It waits for its state to be restored, as the annotation " + resourcesv1alpha1.OperationAnnotation + "=" +
			resourcesv1alpha1.OperationWaitForState + " says.",
		Since:   annotatedAt(mr, resourcesv1alpha1.OperationAnnotation),
		Unblock: "Whoever restores it changes the annotation; nothing happens before.",
	}
}

// noTarget is the cause if there is no target. Once a hub has reported it, conditions has the hub's own message.
func noTarget(f *Facts) Cause {
	mr := f.ManagedResource
	if f.Cluster != nil || f.Source || !f.TargetKnown {
		return Cause{}
	}
	if ready := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady); ready != nil {
		return Cause{} // conditions reports it, with what to do
	}
	class := className(assignment.SpecClass(mr))
	cause := Cause{
		Reason: ReasonNotClaimed, Since: since(mr.CreationTimestamp),
		Message: fmt.Sprintf("No hub feels responsible: no registration in namespace %s serves class %s%s.", mr.Namespace,
			class, f.served()),
		Unblock: fmt.Sprintf("Register a cluster for it: trellisctl -n %s cluster add NAME --from-kubeconfig FILE%s. If the class has a target of its own, see classes in the configuration of the hub, and whether their namespaceSelector matches namespace %s.",
			mr.Namespace, classFlag(assignment.SpecClass(mr)), mr.Namespace),
	}
	if name := mr.Labels[hubv1alpha1.ClusterNameLabel]; name != "" {
		cause.Message = fmt.Sprintf("No hub feels responsible: its label %s asks for cluster %s, which no registration for class %s in namespace %s has as its name%s.",
			hubv1alpha1.ClusterNameLabel, name, class, mr.Namespace, f.served())
	}
	return cause
}

func className(class string) string {
	if class == resourcesv1alpha1.DefaultClass {
		return resourcesv1alpha1.DefaultClassName
	}
	return class
}

func classFlag(class string) string {
	if class == resourcesv1alpha1.DefaultClass {
		return ""
	}
	return " --class " + class
}

// served lists the classes of the registrations.
func (f *Facts) served() string {
	if len(f.Classes) == 0 {
		return ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(f.Classes)) {
		parts = append(parts, fmt.Sprintf("%s serves %s", name, className(assignment.Normalize(f.Classes[name]))))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// pausedTarget is the cause if a user has paused the target.
func pausedTarget(f *Facts) Cause {
	tc := f.Cluster
	switch {
	case tc == nil:
		return Cause{}
	case tc.Spec.Paused:
		return Cause{
			Reason: hubv1alpha1.ReasonPaused, Wished: true,
			Message: fmt.Sprintf("Cluster %s/%s is paused: nothing is written to it.", tc.Namespace, tc.Name),
			Since:   transition(tc, hubv1alpha1.ConditionReady, hubv1alpha1.ReasonPaused),
			Unblock: fmt.Sprintf(`kubectl -n %s patch targetcluster %s --type merge -p '{"spec":{"paused":false}}'`,
				tc.Namespace, tc.Name),
		}
	case resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation]):
		return Cause{
			Reason: ReasonHibernated, Wished: true,
			Message: fmt.Sprintf("Cluster %s/%s is hibernated: it is not probed, and conditions stay as they were.",
				tc.Namespace, tc.Name),
			Since: annotatedAt(tc, hubv1alpha1.HibernatedAnnotation),
			Unblock: fmt.Sprintf("When it is awake: kubectl -n %s annotate targetcluster %s %s-", tc.Namespace, tc.Name,
				hubv1alpha1.HibernatedAnnotation),
		}
	}
	return Cause{}
}

// transition is when a condition got its current status, if it has the reason.
func transition(tc *hubv1alpha1.TargetCluster, conditionType, reason string) *metav1.Time {
	for _, c := range tc.Status.Conditions {
		if c.Type == conditionType && c.Reason == reason {
			return since(c.LastTransitionTime)
		}
	}
	return nil
}

// handover is the cause if an instance of another class has to finish first.
func handover(f *Facts) Cause {
	mr := f.ManagedResource
	own := resourcesv1alpha1.Finalizer(assignment.SpecClass(mr))
	for _, finalizer := range mr.Finalizers {
		if strings.HasPrefix(finalizer, resourcesv1alpha1.FinalizerBase) && finalizer != own && mr.DeletionTimestamp == nil {
			return Cause{
				Reason: ReasonHandover,
				Message: fmt.Sprintf(
					"It changed its class to %s, and the manager of the former class has not removed its finalizer %s.",
					className(assignment.SpecClass(mr)), finalizer),
				Unblock: "The hub or resource manager of the former class removes its objects and then the finalizer. It has " +
					"to run, and its target has to answer.",
			}
		}
	}
	return Cause{}
}

// notSeen is the cause if there is a target, but no hub has reported anything.
func notSeen(f *Facts) Cause {
	mr := f.ManagedResource
	if len(mr.Status.Conditions) > 0 {
		return Cause{}
	}
	if cause := unusableTarget(f); cause.Reason != "" {
		return cause
	}
	return Cause{
		Reason: ReasonNotSeen, Since: since(mr.CreationTimestamp),
		Message: fmt.Sprintf(
			"No hub has looked at it yet. Class %s may not be configured in any that runs, or be one with dryRun.",
			className(assignment.SpecClass(mr))),
		Unblock: "Look at classes in the configuration of the hub, and whether it runs.",
	}
}

// Remedies that are long, or for several reasons.
const (
	remedyRefused = "Give it a kubeconfig that the hub takes: " +
		"trellisctl -n %[1]s cluster rotate %[2]s --from-kubeconfig FILE --service-account NAMESPACE/NAME"
	remedyCredential = "Renew the credential: " +
		"trellisctl -n %[1]s cluster rotate %[2]s --from-kubeconfig FILE --service-account NAMESPACE/NAME"
	remedyUnreachable = "Look at the target's API server and the network between it and the hub, " +
		"whose log has the details (\"The target cannot be reached\"). It tries again every few seconds."
)

// remedies say what to do about a target, by the reason of its condition Ready.
var remedies = map[string]string{
	hubv1alpha1.ReasonSecretInvalid: "Mend the registration: trellisctl -n %[1]s cluster rotate %[2]s " +
		"--from-kubeconfig FILE",
	hubv1alpha1.ReasonKubeconfigInvalid: "Give it a valid kubeconfig: trellisctl -n %[1]s cluster rotate %[2]s " +
		"--from-kubeconfig FILE",
	hubv1alpha1.ReasonKubeconfigRefused:  remedyRefused,
	hubv1alpha1.ReasonCredentialsExpired: remedyCredential,
	hubv1alpha1.ReasonUnauthorized:       remedyCredential,
	hubv1alpha1.ReasonForbidden:          "Give the credential the rights of the message, in the target.",
	hubv1alpha1.ReasonUnreachable:        remedyUnreachable,
	hubv1alpha1.ReasonProbeFailed:        remedyUnreachable,
	hubv1alpha1.ReasonIdentityChanged: "If it is meant to be another cluster: kubectl -n %[1]s annotate secret %[3]s " +
		hubv1alpha1.ConfirmIdentityAnnotation + "=UID, with the UID of the message.",
	hubv1alpha1.ReasonManagedElsewhere: "Stop the Gardener resource manager in the namespace, or give it another " +
		"class and another Lease.",
	hubv1alpha1.ReasonRegistrationGone: "Register it again: trellisctl -n %[1]s cluster add %[2]s " +
		"--from-kubeconfig FILE. Or delete the ManagedResources that still need it.",
	hubv1alpha1.ReasonConnecting:        "Wait: the first attempt to connect has not ended.",
	hubv1alpha1.ReasonTargetUnreachable: "Look at the target's API server and the network between it and the hub.",

	hubv1alpha1.ReasonRegistrationQuotaExceeded: "Delete registrations that are not needed, " +
		"or have clusterCache.maxRegistrationsPerNamespace of the hub raised.",
}

// unusableTarget is the cause if the hub cannot do its work in the target.
func unusableTarget(f *Facts) Cause {
	tc := f.Cluster
	if tc == nil {
		return Cause{}
	}
	for _, c := range tc.Status.Conditions {
		if c.Type == hubv1alpha1.ConditionReady && c.Status != metav1.ConditionTrue {
			return ofTarget(tc, c)
		}
	}
	return Cause{}
}

func ofTarget(tc *hubv1alpha1.TargetCluster, c metav1.Condition) Cause {
	cause := Cause{
		Reason: c.Reason, Since: since(c.LastTransitionTime),
		Message: fmt.Sprintf("The hub cannot work in cluster %s/%s: %s", tc.Namespace, tc.Name, c.Message),
	}
	if remedy := remedies[c.Reason]; remedy != "" {
		cause.Unblock = remedy
		if strings.Contains(remedy, "%[") {
			// Each remedy uses only some of these arguments; %.0s ignores the others.
			cause.Unblock = strings.NewReplacer("%[1]s", tc.Namespace, "%[2]s", tc.Name, "%[3]s", remote.SecretName(
				tc.Name)).Replace(remedy)
		}
	}
	return cause
}

// notObserved is the cause if the status is about an earlier generation.
func notObserved(f *Facts) Cause {
	mr := f.ManagedResource
	applied := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	if mr.DeletionTimestamp != nil || mr.Status.ObservedGeneration == mr.Generation || applied == nil ||
		applied.Status != resourcesv1alpha1.ConditionTrue {
		return Cause{}
	}
	return Cause{
		Reason: ReasonNotObserved,
		Message: fmt.Sprintf("Its generation %d is not applied yet; the last one that was is %d.", mr.Generation,
			mr.Status.ObservedGeneration),
		Unblock: "Wait. If it takes long, the queue of its class may be long: see the metrics trellis_queue_*.",
	}
}

// conditionRemedies say what to do about a ManagedResource, by the reason of a condition.
var conditionRemedies = map[string]string{
	resourcesv1alpha1.ReasonDecodingFailed: "Correct the document that the message names. \"unpack mr %[2]s\" " +
		"shows what can be read. Nothing is deleted meanwhile.",
	resourcesv1alpha1.ReasonCannotReadSecret: "Create the Secret of the message, or take it out of spec.secretRefs.",
	resourcesv1alpha1.ReasonOwnedByOther: "Take the object out of one of the two ManagedResources; the message " +
		"names the other one.",
	resourcesv1alpha1.ReasonInventoryTooLarge: "Split it into several ManagedResources.",
	resourcesv1alpha1.ReasonContentTooLarge:   "Split it into several ManagedResources.",
	resourcesv1alpha1.ReasonTargetNotFound: "Register the cluster again: trellisctl -n %[1]s cluster add NAME " +
		"--from-kubeconfig FILE. Its objects stay as they are meanwhile.",
	resourcesv1alpha1.ReasonTargetAmbiguous: "Choose one: kubectl -n %[1]s label managedresource %[2]s " +
		hubv1alpha1.ClusterNameLabel + "=NAME",
	resourcesv1alpha1.ReasonApplyProgressing: "Wait: it is being applied.",
	resourcesv1alpha1.ReasonChecksPending:    "Wait: the hub has not seen yet what it wrote.",
	resourcesv1alpha1.ReasonHealthCheckError: "Give the hub's credential in the target the right to list and " +
		"watch the kinds of the message.",
	resourcesv1alpha1.ReasonManagedElsewhere: "Stop the Gardener resource manager in the namespace, or give it " +
		"another class and another Lease.",
	resourcesv1alpha1.ReasonTargetUnreachable: "\"why cluster\" says more of the target.",
	resourcesv1alpha1.ReasonTargetRefused:     "\"why cluster\" says more of the target.",
	resourcesv1alpha1.ReasonIdentityChanged:   "\"why cluster\" says more of the target.",
	resourcesv1alpha1.ReasonDeletionPending: "The message says what each object waits for: finalizers, others " +
		"that need it, or the target. A target that never comes back: kubectl -n %[1]s annotate managedresource %[2]s " + resourcesv1alpha1.ForceDeletionAnnotation + "=true gives its objects up.",
	resourcesv1alpha1.ReasonObjectsContested: "Take the fields out of the manifests, or stop the other writer " +
		"of the message.",
	resourcesv1alpha1.ReasonConditionInitialized: "Wait: the hub has only just noticed it.",
}

// applyRemedies say what to do about a failed apply, by parts of the target's message. The first match counts.
var applyRemedies = []struct {
	answer *regexp.Regexp
	remedy string
}{
	{
		regexp.MustCompile(`being terminated|is being deleted`),
		"Nothing is wrong with the manifests: something is being deleted, and the message says what that waits for. " +
			"What is to be there is created when it is gone.",
	},
	{
		regexp.MustCompile(`no matches for kind`),
		"Install what defines the kind, or correct its name and version in the manifests. " +
			"The hub applies it as soon as the kind is there.",
	},
	{
		regexp.MustCompile(`namespaces "[^"]*" not found`),
		"Create the namespace, in this ManagedResource or another one. " +
			"The hub applies what is in it as soon as it is there.",
	},
	{
		regexp.MustCompile(`failed calling webhook`),
		"A webhook in the target does not answer: mend it, or remove its configuration. The manifests may be right.",
	},
	{
		regexp.MustCompile(`denied the request|ValidatingAdmissionPolicy`),
		"A policy of the target refuses it: change the policy, or the manifests so that they comply.",
	},
	{
		regexp.MustCompile(`forbidden: User`),
		"The identity of the hub in the target lacks the right that the message names: " +
			"give it to the account of the registration.",
	},
	{
		regexp.MustCompile(`the server is currently unable|connection refused|context deadline exceeded|etcdserver`),
		"The API server of the target, or one behind it, does not work as it should. The manifests may be right.",
	},
}

// applyRemedy says what to do about a failed apply.
func applyRemedy(message string) string {
	const tryDiff = ` "diff mr %[2]s" shows a dry run of the apply; the hub tries again by itself.`
	for _, r := range applyRemedies {
		if r.answer.MatchString(message) {
			return r.remedy + tryDiff
		}
	}
	return "Correct the manifests, or what the target answers." + tryDiff
}

// conditions is the cause that the hub itself reports: the first condition that is not good, in the order of causes.
func conditions(f *Facts) Cause {
	mr := f.ManagedResource
	for _, t := range []struct {
		conditionType resourcesv1alpha1.ConditionType
		good          resourcesv1alpha1.ConditionStatus
	}{
		{resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue},
		{resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue},
		{resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse},
		{resourcesv1alpha1.ConditionReady, resourcesv1alpha1.ConditionTrue},
		{resourcesv1alpha1.ConditionContested, resourcesv1alpha1.ConditionFalse},
	} {
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, t.conditionType)
		if c == nil || c.Status == t.good {
			continue
		}
		unblock, known := conditionRemedies[c.Reason]
		switch {
		case c.Reason == resourcesv1alpha1.ReasonApplyFailed:
			unblock = applyRemedy(c.Message)
		case !known:
			unblock = fmt.Sprintf("Look at the object in the target; \"tree mr %s\" shows its pods.", mr.Name)
		}
		return Cause{
			Reason: c.Reason, Message: c.Message, Since: since(c.LastTransitionTime),
			Unblock: strings.NewReplacer("%[1]s", mr.Namespace, "%[2]s", mr.Name).Replace(unblock),
		}
	}
	return Cause{}
}

// notRegistered is the cause if a TargetCluster has no registration.
func notRegistered(f *Facts) Cause {
	if !f.RegistrationKnown || f.Registration != nil || f.Cluster == nil {
		return Cause{}
	}
	return Cause{
		Reason: ReasonNotRegistered, Since: transition(f.Cluster, hubv1alpha1.ConditionReady,
			hubv1alpha1.ReasonRegistrationGone),
		Message: fmt.Sprintf("There is no Secret %s/%s: the cluster is not registered, or not any more.", f.Namespace,
			remote.SecretName(f.Name)),
		Unblock: fmt.Sprintf("trellisctl -n %s cluster add %s --from-kubeconfig FILE", f.Namespace, f.Name),
	}
}

// duplicated is the cause if controllers work for another registration of the cluster.
func duplicated(f *Facts) Cause {
	const conditionType = hubv1alpha1.ConditionDuplicateRegistration
	if f.Cluster == nil {
		return Cause{}
	}
	condition := meta.FindStatusCondition(f.Cluster.Status.Conditions, conditionType)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return Cause{}
	}
	return Cause{
		Reason: hubv1alpha1.ReasonDuplicateRegistration,
		Since:  transition(f.Cluster, conditionType, hubv1alpha1.ReasonDuplicateRegistration),
		Message: fmt.Sprintf("Cluster %s/%s is registered more than once: %s.", f.Cluster.Namespace, f.Cluster.Name,
			condition.Message),
		Unblock: "Delete the registration that had the cluster first, if it is not needed.",
	}
}

// unnoticed is the cause if there is a Secret and no hub recognized it as a registration.
func unnoticed(f *Facts) Cause {
	if f.Cluster != nil || f.Registration == nil {
		return Cause{}
	}
	s := f.Registration
	cause := Cause{Reason: ReasonNotSeen, Since: since(s.CreationTimestamp)}
	switch {
	case !kubeconfig.IsRegistration(s):
		cause.Message = fmt.Sprintf("The Secret %s is no registration: its label %s has to be %q, and is %q.", s.Name,
			hubv1alpha1.ClusterNameLabel, f.Name, s.Labels[hubv1alpha1.ClusterNameLabel])
		cause.Unblock = fmt.Sprintf("kubectl -n %s label secret %s %s=%s --overwrite", s.Namespace, s.Name,
			hubv1alpha1.ClusterNameLabel, f.Name)
	case f.Now.Sub(s.CreationTimestamp.Time) < 10*time.Second:
		cause.Message, cause.Unblock = "The registration is only seconds old, and no hub has noticed it yet.", "Wait."
	default:
		cause.Message = "The registration is there, and no hub has noticed it."
		cause.Unblock = "Look whether a hub runs on this source cluster, and at its log."
	}
	return cause
}

// clusterConditions is the cause that the hub itself reports.
func clusterConditions(f *Facts) Cause {
	if f.Cluster == nil {
		return Cause{}
	}
	if len(f.Cluster.Status.Conditions) == 0 {
		return Cause{Reason: ReasonNotSeen, Message: "No hub has looked at it yet.",
			Since:   since(f.Cluster.CreationTimestamp),
			Unblock: "Look whether a hub runs on this source cluster, and at its log."}
	}
	for _, wanted := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, c := range f.Cluster.Status.Conditions {
			if c.Status != wanted {
				continue
			}
			cause := ofTarget(f.Cluster, c)
			cause.Message = c.Type + " is " + string(c.Status) + ": " + c.Message
			if strings.HasPrefix(c.Reason, "ManagedResources") {
				cause.Unblock = fmt.Sprintf("trellisctl -n %s why mr NAME, with the names of the message", f.Namespace)
			}
			return cause
		}
	}
	if len(f.Cluster.Status.FailingChecks) > 0 {
		check := f.Cluster.Status.FailingChecks[0]
		return Cause{Reason: "CheckFailing", Message: fmt.Sprintf("%s fails, for less than its threshold.", check.Type),
			Since: since(check.Since), Unblock: "Wait, or look at the message of the condition."}
	}
	return Cause{}
}
