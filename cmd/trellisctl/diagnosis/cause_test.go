package diagnosis_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
)

var (
	now  = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	then = metav1.NewTime(now.Add(-time.Hour))
)

// heartbeat is that of a hub that works, or has not for an hour.
func heartbeat(works bool) cli.Heartbeat {
	return cli.Heartbeat{Known: true, Working: works, Renewed: &then.Time,
		Lease: client.ObjectKey{Namespace: "trellis", Name: "trellis-heartbeat"}}
}

// well are the facts of a ManagedResource and a cluster with which nothing is wrong.
func well() *diagnosis.Facts {
	good := func(t resourcesv1alpha1.ConditionType,
		status resourcesv1alpha1.ConditionStatus) resourcesv1alpha1.Condition {
		return resourcesv1alpha1.Condition{Type: t, Status: status, Reason: "Good", Message: "good",
			LastTransitionTime: then}
	}
	return &diagnosis.Facts{
		Now: now, Namespace: "ns", Name: "a", RegistrationKnown: true, TargetKnown: true, Heartbeat: heartbeat(true),
		ManagedResource: &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Generation: 1, Annotations: map[string]string{},
				Labels: map[string]string{}, Finalizers: []string{resourcesv1alpha1.FinalizerBase}},
			Status: resourcesv1alpha1.ManagedResourceStatus{ObservedGeneration: 1,
				Conditions: []resourcesv1alpha1.Condition{
					good(resourcesv1alpha1.ConditionResourcesApplied, "True"),
					good(resourcesv1alpha1.ConditionResourcesHealthy, "True"),
					good(resourcesv1alpha1.ConditionResourcesProgressing, "False"),
					good(resourcesv1alpha1.ConditionReady, "True"),
				}},
		},
		Cluster: &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a",
			Annotations: map[string]string{}}, Status: hubv1alpha1.TargetClusterStatus{
			Conditions: []metav1.Condition{{Type: hubv1alpha1.ConditionReady, Status: "True", Reason: "Ready",
				LastTransitionTime: then}},
		}},
		Registration: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a-kubeconfig",
			CreationTimestamp: then, Labels: map[string]string{hubv1alpha1.ClusterNameLabel: "a"}}},
	}
}

// set changes a condition of the ManagedResource.
func set(f *diagnosis.Facts, t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus,
	reason string) {
	f.ManagedResource.Status.Conditions = resourcesv1alpha1.SetCondition(then.Time,
		f.ManagedResource.Status.Conditions, t, status, reason, "said the hub")
}

// ready changes the condition Ready of the cluster.
func ready(f *diagnosis.Facts, status metav1.ConditionStatus, reason string) {
	f.Cluster.Status.Conditions[0].Status, f.Cluster.Status.Conditions[0].Reason,
		f.Cluster.Status.Conditions[0].Message = status, reason, "said the hub"
}

func TestNothingIsWrong(t *testing.T) {
	g := NewWithT(t)
	g.Expect(diagnosis.OfManagedResource(well())).To(Equal(diagnosis.Cause{}))
	g.Expect(diagnosis.OfCluster(well())).To(Equal(diagnosis.Cause{}))
	g.Expect(diagnosis.OfManagedResource(&diagnosis.Facts{Now: now, ManagedResource: well().ManagedResource,
		Source: true})).To(Equal(diagnosis.Cause{}),
		"what may not be read is no cause")
}

// cause is a case: how it comes about, and what is to be said.
type cause struct {
	change           func(*diagnosis.Facts)
	reason           string
	message, unblock string
	wished           bool
	noSince          bool
}

func (c cause) check(t *testing.T, of func(*diagnosis.Facts) diagnosis.Cause) {
	t.Helper()
	g := NewWithT(t)
	f := well()
	c.change(f)
	got := of(f)
	g.Expect(got.Reason).To(Equal(c.reason))
	g.Expect(got.Message).To(ContainSubstring(c.message))
	g.Expect(got.Unblock).To(ContainSubstring(c.unblock))
	g.Expect(got.Unblock).NotTo(ContainSubstring("%"))
	g.Expect(got.Wished).To(Equal(c.wished))
	g.Expect(got.Since == nil).To(Equal(c.noSince))
}

func TestCausesOfManagedResources(t *testing.T) {
	ignored := func(f *diagnosis.Facts) {
		f.ManagedResource.Annotations[resourcesv1alpha1.IgnoreAnnotation] = "true"
		f.ManagedResource.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "trellisctl", Time: &then,
			FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:resources.gardener.cloud/ignore":{}}}}`)}}
	}
	for name, c := range map[string]cause{
		"no hub works, whatever else is": {func(f *diagnosis.Facts) {
			f.Heartbeat = heartbeat(false)
			ignored(f)
		}, "NoHubWorks", "was not renewed for 60m", "kubectl -n trellis get pods", false, false},
		"suspended": {ignored, "ManagedResourceIgnored", "suspended", "resume mr a", true, false},
		"suspended, and so on": {func(f *diagnosis.Facts) {
			ignored(f)
			set(f, "ResourcesApplied", "False",
				"ApplyFailed")
		}, "ManagedResourceIgnored", "", "", true, false},
		"a deletion is not stopped": {func(f *diagnosis.Facts) {
			ignored(f)
			f.ManagedResource.DeletionTimestamp = &then
			set(f, "ResourcesApplied", "Progressing", "DeletionPending")
		}, "DeletionPending", "said the hub", "force-deletion=true", false, false},
		"its state is awaited": {func(f *diagnosis.Facts) {
			f.ManagedResource.Annotations[resourcesv1alpha1.OperationAnnotation] = resourcesv1alpha1.OperationWaitForState
		}, "WaitForState", "wait-for-state", "changes the annotation", true, true},
		"no hub serves its class": {func(f *diagnosis.Facts) {
			f.Cluster, f.Classes = nil, map[string]string{"b": "", "c": "other"}
			f.ManagedResource.Status.Conditions, f.ManagedResource.CreationTimestamp,
				f.ManagedResource.Spec.Class = nil, then, ptr.To("mine")
		}, "NotClaimed", "serves class mine (b serves resources, c serves other)",
			"cluster add NAME --from-kubeconfig FILE --class mine", false, false},
		"who may not look says nothing of targets": {func(f *diagnosis.Facts) {
			f.Cluster, f.TargetKnown = nil, false
			f.ManagedResource.Status.Conditions, f.ManagedResource.CreationTimestamp = nil, then
		}, "NotSeen", "No hub has looked at it yet", "classes", false, false},
		"its label is wrong": {func(f *diagnosis.Facts) {
			f.Cluster, f.ManagedResource.Labels[hubv1alpha1.ClusterNameLabel] = nil, "x"
			f.ManagedResource.Status.Conditions, f.ManagedResource.CreationTimestamp = nil, then
		}, "NotClaimed", "requests cluster x", "cluster add", false, false},
		"the target was taken away": {func(f *diagnosis.Facts) {
			f.Cluster = nil
			set(f, "Ready", "False",
				"TargetNotFound")
		}, "TargetNotFound", "said the hub", "trellisctl -n ns cluster add", false, false},
		"the target is paused": {func(f *diagnosis.Facts) {
			f.Cluster.Spec.Paused = true
			ready(f, "False",
				"Paused")
		}, "Paused", "is paused", `{"spec":{"paused":false}}`, true, false},
		"the target is hibernated": {func(f *diagnosis.Facts) {
			f.Cluster.Annotations[hubv1alpha1.HibernatedAnnotation] = "true"
			ready(f, "False", "Unreachable")
		}, "Hibernated", "is hibernated", "hub.gardener.cloud/hibernated-", true, true},
		"another instance has to finish": {func(f *diagnosis.Facts) {
			f.ManagedResource.Finalizers = []string{resourcesv1alpha1.FinalizerBase + "-seed"}
		}, "WaitingForHandover", "changed its class to resources", "has to run", false, true},
		"no hub reconciled it": {func(f *diagnosis.Facts) {
			f.ManagedResource.Status.Conditions, f.ManagedResource.CreationTimestamp = nil, then
		},
			"NotSeen", "may not be configured", "classes", false, false},
		"no hub reconciled it, because of its target": {func(f *diagnosis.Facts) {
			f.ManagedResource.Status.Conditions = nil
			ready(f, "False", "ManagedElsewhere")
		}, "ManagedElsewhere", "cannot work in cluster ns/a", "Stop the Gardener resource manager", false, false},
		"the target does not answer": {func(f *diagnosis.Facts) {
			ready(f, "False", "Unreachable")
			set(f, "ResourcesHealthy", "Unknown", "TargetUnreachable")
		}, "Unreachable", "cannot work in cluster ns/a: said the hub", "network", false, false},
		"the credential has ended": {func(f *diagnosis.Facts) { ready(f, "False", "CredentialsExpired") },
			"CredentialsExpired", "said the hub", "trellisctl -n ns cluster rotate a", false, false},
		"another cluster": {func(f *diagnosis.Facts) { ready(f, "False", "IdentityChanged") },
			"IdentityChanged", "", "annotate secret a-kubeconfig hub.gardener.cloud/confirm-identity=UID", false,
			false},
		"not applied yet": {func(f *diagnosis.Facts) { f.ManagedResource.Generation = 2 }, "NotObserved",
			"generation 2 is not applied", "Wait", false, true},
		"the apply failed": {func(f *diagnosis.Facts) {
			set(f, "ResourcesApplied", "False", "ApplyFailed")
			f.ManagedResource.Generation = 2
		}, "ApplyFailed", "said the hub", "diff mr a", false, false},
		"unhealthy, before rolling": {func(f *diagnosis.Facts) {
			set(f, "ResourcesProgressing", "True", "DeploymentProgressing")
			set(f, "ResourcesHealthy", "False", "DeploymentUnhealthy")
		}, "DeploymentUnhealthy", "said the hub", "tree mr a", false, false},
		"rolling out": {func(f *diagnosis.Facts) {
			set(f, "ResourcesProgressing", "True",
				"DeploymentProgressing")
		}, "DeploymentProgressing", "", "tree mr a", false, false},
		"contested": {func(f *diagnosis.Facts) { set(f, "Contested", "True", "ObjectsContested") },
			"ObjectsContested", "", "the other writer", false, false},
		"other registers": {func(f *diagnosis.Facts) { set(f, "Ready", "False", "TargetAmbiguous") },
			"TargetAmbiguous", "", "label managedresource a cluster.x-k8s.io/cluster-name=NAME", false, false},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, diagnosis.OfManagedResource) })
	}
}

func TestCausesOfClusters(t *testing.T) {
	for name, c := range map[string]cause{
		"no hub works": {
			func(f *diagnosis.Facts) { f.Heartbeat = heartbeat(false) },
			"NoHubWorks", "trellis/trellis-heartbeat", "", false, false,
		},
		"not registered": {func(f *diagnosis.Facts) { f.Registration = nil; ready(f, "False", "RegistrationGone") },
			"NotRegistered", "no Secret ns/a-kubeconfig", "cluster add a", false, false},
		"not selected": {func(f *diagnosis.Facts) {
			f.Cluster = nil
			f.Heartbeat.RegistrationSelector = "hub=yes"
		}, "RegistrationNotSelected", `registrationSelector "hub=yes"`, "label secret a-kubeconfig", false, false},
		"no longer selected": {func(f *diagnosis.Facts) {
			ready(f, "False", "RegistrationGone")
			f.Heartbeat.RegistrationSelector = "hub=yes"
		}, "RegistrationNotSelected", "its labels do not match", "label secret a-kubeconfig", false, false},
		"selected": {func(f *diagnosis.Facts) {
			f.Heartbeat.RegistrationSelector = "hub!=no"
		}, "", "", "", false, true},
		"paused": {func(f *diagnosis.Facts) { f.Cluster.Spec.Paused = true; ready(f, "False", "Paused") },
			"Paused", "", "patch targetcluster a", true, false},
		"no label": {func(f *diagnosis.Facts) { f.Cluster = nil; f.Registration.Labels = nil }, "NotSeen",
			"is no registration", "label secret a-kubeconfig cluster.x-k8s.io/cluster-name=a", false, false},
		"only seconds old": {func(f *diagnosis.Facts) {
			f.Cluster = nil
			f.Registration.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
		}, "NotSeen", "only seconds old", "Wait", false, false},
		"unnoticed": {
			func(f *diagnosis.Facts) { f.Cluster = nil },
			"NotSeen", "no hub has noticed it", "whether a hub runs", false, false,
		},
		"refused": {
			func(f *diagnosis.Facts) { ready(f, "False", "KubeconfigRefused") },
			"KubeconfigRefused", "said the hub", "--service-account", false, false,
		},
		"no hub wrote a condition": {func(f *diagnosis.Facts) {
			f.Cluster.Status.Conditions, f.Cluster.CreationTimestamp = nil,
				then
		}, "NotSeen", "No hub has looked", "", false, false},
		"webhooks that the hub does not serve": {
			func(f *diagnosis.Facts) { condition(f, "WebhooksRegistered", "False", "WebhooksNotServed") },
			"WebhooksNotServed", "WebhooksRegistered is False: said the hub", "server.webhooks", false, false,
		},
		"webhooks that cannot be called": {
			func(f *diagnosis.Facts) { condition(f, "WebhooksRegistered", "False", "WebhooksUnreachable") },
			"WebhooksUnreachable", "WebhooksRegistered is False: said the hub",
			"switch its webhooks off: kubectl -n ns edit targetcluster a", false, false,
		},
		"webhooks that cannot be written": {
			func(f *diagnosis.Facts) { condition(f, "WebhooksRegistered", "False", "WebhooksFailed") },
			"WebhooksFailed", "WebhooksRegistered is False: said the hub", "rbac/target-webhooks.yaml", false, false,
		},
		"policies that the target does not serve": {
			func(f *diagnosis.Facts) { condition(f, "WebhooksRegistered", "False", "PoliciesNotServed") },
			"PoliciesNotServed", "WebhooksRegistered is False: said the hub", "mode: Auto", false, false,
		},
		"webhooks that are left behind": {
			func(f *diagnosis.Facts) {
				f.Registration = nil
				ready(f, "False", "RegistrationGone")
				condition(f, "WebhooksRegistered", "False", "WebhooksLeftBehind")
			},
			"WebhooksLeftBehind", "said the hub", "webhooks remove. Then: kubectl -n ns delete targetcluster a",
			false, false,
		},
		"webhooks that are registered": {
			func(f *diagnosis.Facts) { condition(f, "WebhooksRegistered", "True", "WebhooksRegistered") },
			"", "", "", false, true,
		},
		"the target does not respond, whatever its webhooks do": {
			func(f *diagnosis.Facts) {
				condition(f, "WebhooksRegistered", "False", "WebhooksUnreachable")
				ready(f, "False", "Unreachable")
			},
			"Unreachable", "cannot work in cluster ns/a", "network", false, false,
		},
		"nodes": {func(f *diagnosis.Facts) { condition(f, "EveryNodeReady", "False", "NodesUnhealthy") },
			"NodesUnhealthy", "EveryNodeReady is False: said the hub", "", false, false},
		"False before Unknown": {func(f *diagnosis.Facts) {
			condition(f, "HubReady", "Unknown", "TargetStatusUnknown")
			condition(f, "SystemComponentsHealthy", "False", "ManagedResourcesUnhealthy")
		}, "ManagedResourcesUnhealthy", "SystemComponentsHealthy is False", "why mr NAME", false, false},
		"a check that only begins to fail": {func(f *diagnosis.Facts) {
			f.Cluster.Status.FailingChecks = []hubv1alpha1.FailingCheck{{Type: "EveryNodeReady", Since: then}}
		}, "CheckFailing", "less than its threshold", "", false, false},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, diagnosis.OfCluster) })
	}
}

// condition adds a condition to the cluster.
func condition(f *diagnosis.Facts, conditionType string, status metav1.ConditionStatus, reason string) {
	f.Cluster.Status.Conditions = append(f.Cluster.Status.Conditions,
		metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: "said the hub",
			LastTransitionTime: then})
}

// What the manifests cannot help with is not asked of them.
func TestRemediesOfFailedApplies(t *testing.T) {
	const remedyOfDeletion = "Nothing is wrong with the manifests"
	const forbidden = `configmaps "a" is forbidden: `
	for message, want := range map[string]string{
		forbidden + `unable to create new content in namespace b because it is being terminated`: remedyOfDeletion,

		`the object is being deleted; it is created again when it is gone`: remedyOfDeletion,

		`no matches for kind "Bar" in version "foo/v1"`: "Install what defines the kind",

		`namespaces "b" not found`: "Create the namespace",

		`Internal error occurred: failed calling webhook "a": connection refused`: "A webhook in the target does not",

		forbidden + `ValidatingAdmissionPolicy 'no' with binding 'no' denied request`: "A policy of the target refuses it",

		forbidden + `User "trellis" cannot patch resource "configmaps"`: "lacks the right",

		`the server is currently unable to handle the request`: "fails or is overloaded",

		`Service "a" is invalid: spec.ports: Required value`: "Correct the manifests",
	} {
		t.Run(message, func(t *testing.T) {
			g := NewWithT(t)
			f := &diagnosis.Facts{ManagedResource: &resourcesv1alpha1.ManagedResource{}}
			f.ManagedResource.Name = "a"
			f.ManagedResource.Status.Conditions = []resourcesv1alpha1.Condition{{
				Type: resourcesv1alpha1.ConditionResourcesApplied, Status: resourcesv1alpha1.ConditionFalse,
				Reason: resourcesv1alpha1.ReasonApplyFailed, Message: message,
			}}
			cause := diagnosis.OfManagedResource(f)
			g.Expect(cause.Unblock).To(And(ContainSubstring(want), ContainSubstring(`"diff mr a"`)))
		})
	}
}
