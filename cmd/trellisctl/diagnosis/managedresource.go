package diagnosis

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

func suspended(f *Facts) Cause {
	mr := f.ManagedResource
	if mr.DeletionTimestamp != nil || !resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]) {
		return Cause{}
	}
	return Cause{
		Reason: resourcesv1alpha1.ReasonManagedResourceIgnored, Wished: true,
		Message: "It is suspended by the annotation " + resourcesv1alpha1.IgnoreAnnotation +
			": the hub does not reconcile it.",
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
		Message: "It waits for its state to be restored, as the annotation " + resourcesv1alpha1.OperationAnnotation +
			"=" + resourcesv1alpha1.OperationWaitForState + " says.",
		Since:   annotatedAt(mr, resourcesv1alpha1.OperationAnnotation),
		Unblock: "The program that restores it changes the annotation; nothing happens before.",
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
	class := assignment.ClassName(assignment.SpecClass(mr))
	cause := Cause{
		Reason: ReasonNotClaimed, Since: Since(mr.CreationTimestamp),
		Message: fmt.Sprintf("No hub reconciles it: no registration in namespace %s serves class %s%s.",
			mr.Namespace, class, f.served()),
		Unblock: fmt.Sprintf("Register a cluster for it: trellisctl -n %s cluster add NAME --from-kubeconfig FILE%s. "+
			"If the class has a target of its own, see classes in the configuration of the hub, and whether their "+
			"namespaceSelector matches namespace %s.",
			mr.Namespace, classFlag(assignment.SpecClass(mr)), mr.Namespace),
	}
	if name := mr.Labels[hubv1alpha1.ClusterNameLabel]; name != "" {
		cause.Message = fmt.Sprintf("No hub reconciles it: its label %s requests cluster %s, but no registration for "+
			"class %s in namespace %s has that name%s.", hubv1alpha1.ClusterNameLabel, name, class, mr.Namespace,
			f.served())
	}
	return cause
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
		parts = append(parts, fmt.Sprintf("%s serves %s", name, assignment.ClassName(f.Classes[name])))
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// handover is the cause if an instance of another class has to finish first.
func handover(f *Facts) Cause {
	mr := f.ManagedResource
	own := resourcesv1alpha1.Finalizer(assignment.SpecClass(mr))
	for _, finalizer := range mr.Finalizers {
		if strings.HasPrefix(finalizer, resourcesv1alpha1.FinalizerBase) && finalizer != own &&
			mr.DeletionTimestamp == nil {
			return Cause{
				Reason: ReasonHandover,
				Message: fmt.Sprintf(
					"It changed its class to %s, and the manager of the former class has not removed its finalizer %s.",
					assignment.ClassName(assignment.SpecClass(mr)), finalizer),
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
		Reason: ReasonNotSeen, Since: Since(mr.CreationTimestamp),
		Message: fmt.Sprintf(
			"No hub has looked at it yet. Class %s may not be configured in any that runs, or be one with dryRun.",
			assignment.ClassName(assignment.SpecClass(mr))),
		Unblock: "Look at classes in the configuration of the hub, and whether it runs.",
	}
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

// conditionRemedies say what to do about a ManagedResource, by the reason of a condition. See about for what is
// replaced.
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
	resourcesv1alpha1.ReasonTargetUnreachable: "\"why cluster NAME\" shows the problem of the target.",
	resourcesv1alpha1.ReasonTargetRefused:     "\"why cluster NAME\" shows the problem of the target.",
	resourcesv1alpha1.ReasonIdentityChanged:   "\"why cluster NAME\" shows the problem of the target.",
	resourcesv1alpha1.ReasonDeletionPending: "The message says what each object waits for: finalizers, others " +
		"that need it, or the target. If the target never comes back, give its objects up: " +
		"kubectl -n %[1]s annotate managedresource %[2]s " + resourcesv1alpha1.ForceDeletionAnnotation + "=true",
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
		"A webhook in the target does not answer: repair it, or remove its configuration. The manifests may be right.",
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
		"The API server of the target, or one behind it, fails or is overloaded. The manifests may be right.",
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
			Reason: c.Reason, Message: c.Message, Since: Since(c.LastTransitionTime),
			Unblock: about(mr, unblock),
		}
	}
	return Cause{}
}
