package diagnosis

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

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
			Unblock: fmt.Sprintf("When it is no longer hibernated: kubectl -n %s annotate targetcluster %s %s-",
				tc.Namespace, tc.Name,
				hubv1alpha1.HibernatedAnnotation),
		}
	}
	return Cause{}
}

// transition is when a condition got its current status, if it has the reason.
func transition(tc *hubv1alpha1.TargetCluster, conditionType, reason string) *metav1.Time {
	for _, c := range tc.Status.Conditions {
		if c.Type == conditionType && c.Reason == reason {
			return Since(c.LastTransitionTime)
		}
	}
	return nil
}

// Remedies that are long, or for several reasons.
const (
	remedyRefused = "Give it a kubeconfig that the hub takes: " +
		"trellisctl -n %[1]s cluster rotate %[2]s --from-kubeconfig FILE --service-account NAMESPACE/NAME"
	remedyCredential = "Renew the credential: " +
		"trellisctl -n %[1]s cluster rotate %[2]s --from-kubeconfig FILE --service-account NAMESPACE/NAME"
	remedyUnreachable = "Look at the target's API server and the network between it and the hub, " +
		"whose log has the details (\"The target cannot be reached\"). It tries again every few seconds."
	remedyWebhooks = "Have the API server of the target reach the address of server.webhooks.clientConfig in the " +
		"configuration of the hub: name, route, firewall, certificate. The hub tries again by itself. If the target " +
		"refuses requests until then, switch its webhooks off: " +
		"kubectl -n %[1]s edit targetcluster %[2]s (spec.webhooks, enabled: false for each that is on)"
)

// remedies are what to do about a target, by the reason of one of its conditions. See about for what is replaced.
var remedies = map[string]string{
	hubv1alpha1.ReasonSecretInvalid: "Correct the registration: trellisctl -n %[1]s cluster rotate %[2]s " +
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
	hubv1alpha1.ReasonWebhooksNotServed: "Look at the hub's log, and at server.webhooks of its configuration. The hub " +
		"registers the webhooks as soon as its own requests to them succeed.",
	hubv1alpha1.ReasonWebhooksUnreachable: remedyWebhooks,
	hubv1alpha1.ReasonWebhooksLeftBehind: "Delete its webhooks with a kubeconfig of the cluster: trellisctl " +
		"--kubeconfig FILE webhooks remove. Then: kubectl -n %[1]s delete targetcluster %[2]s. Or register it again: " +
		"trellisctl -n %[1]s cluster add %[2]s --from-kubeconfig FILE",
	hubv1alpha1.ReasonPoliciesNotServed: "Set mode: Auto or mode: Webhook for the webhooks of the message, in " +
		"spec.webhooks of the TargetCluster or in its class, or upgrade the target to a version with such policies.",
	hubv1alpha1.ReasonWebhooksFailed: "Give the credential of the hub in the target the rights of " +
		"rbac/target-webhooks.yaml in the chart, or correct what the API server's answer in the message names. " +
		"The hub tries again by itself.",
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
	return Cause{
		Reason: c.Reason, Since: Since(c.LastTransitionTime),
		Message: fmt.Sprintf("The hub cannot work in cluster %s/%s: %s", tc.Namespace, tc.Name, c.Message),
		Unblock: about(tc, remedies[c.Reason]),
	}
}

// notRegistered is the cause if a TargetCluster has no registration.
func notRegistered(f *Facts) Cause {
	if !f.RegistrationKnown || f.Registration != nil || f.Cluster == nil {
		return Cause{}
	}
	return Cause{
		Reason: ReasonNotRegistered, Since: transition(f.Cluster, hubv1alpha1.ConditionReady,
			hubv1alpha1.ReasonRegistrationGone),
		Message: fmt.Sprintf("There is no Secret %s/%s: the cluster is not registered, or no longer.", f.Namespace,
			remote.SecretName(f.Name)),
		Unblock: fmt.Sprintf("trellisctl -n %s cluster add %s --from-kubeconfig FILE", f.Namespace, f.Name),
	}
}

// notSelected is the cause if the hub leaves the registration out because of its labels.
func notSelected(f *Facts) Cause {
	s := f.Registration
	if s == nil || !kubeconfig.IsRegistration(s) || f.Heartbeat.Registers(s.Labels) {
		return Cause{}
	}
	cause := Cause{
		Reason: ReasonNotSelected, Since: Since(s.CreationTimestamp),
		Message: fmt.Sprintf("The hub does not use the Secret %s/%s: its labels do not match the hub's "+
			"clusterCache.registrationSelector %q.", s.Namespace, s.Name, f.Heartbeat.RegistrationSelector),
		Unblock: fmt.Sprintf("If the hub is meant to serve the cluster: kubectl -n %s label secret %s, with labels that "+
			"the selector matches", s.Namespace, s.Name),
	}
	if f.Cluster != nil {
		cause.Since = transition(f.Cluster, hubv1alpha1.ConditionReady, hubv1alpha1.ReasonRegistrationGone)
	}
	return cause
}

// webhooksLeft is the cause if the registration was deleted, and the API server of the target still calls the hub.
func webhooksLeft(f *Facts) Cause {
	if f.Cluster == nil {
		return Cause{}
	}
	c := meta.FindStatusCondition(f.Cluster.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
	if c == nil || c.Reason != hubv1alpha1.ReasonWebhooksLeftBehind {
		return Cause{}
	}
	cause := ofTarget(f.Cluster, *c)
	cause.Message = c.Message
	return cause
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
	cause := Cause{Reason: ReasonNotSeen, Since: Since(s.CreationTimestamp)}
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

// SumsUp reports whether a reason is that of a condition of a cluster that sums up ManagedResources.
func SumsUp(reason string) bool { return strings.HasPrefix(reason, "ManagedResources") }

// clusterConditions is the cause that the hub itself reports.
func clusterConditions(f *Facts) Cause {
	if f.Cluster == nil {
		return Cause{}
	}
	if len(f.Cluster.Status.Conditions) == 0 {
		return Cause{Reason: ReasonNotSeen, Message: "No hub has looked at it yet.",
			Since:   Since(f.Cluster.CreationTimestamp),
			Unblock: "Look whether a hub runs on this source cluster, and at its log."}
	}
	for _, wanted := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		for _, c := range f.Cluster.Status.Conditions {
			if c.Status != wanted {
				continue
			}
			cause := ofTarget(f.Cluster, c)
			cause.Message = c.Type + " is " + string(c.Status) + ": " + c.Message
			if SumsUp(c.Reason) {
				cause.Unblock = fmt.Sprintf("trellisctl -n %s why mr NAME, with the names of the message", f.Namespace)
			}
			return cause
		}
	}
	if len(f.Cluster.Status.FailingChecks) > 0 {
		check := f.Cluster.Status.FailingChecks[0]
		return Cause{Reason: "CheckFailing", Message: fmt.Sprintf("%s fails, for less than its threshold.", check.Type),
			Since: Since(check.Since), Unblock: "Wait, or look at the message of the condition."}
	}
	return Cause{}
}
