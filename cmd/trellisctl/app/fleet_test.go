package app_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
)

// fleetOf is a source with targets, each of a namespace with three ManagedResources. Every fiftieth target is down, and
// every twentieth has a Deployment whose image is missing; rarer are a webhook that denies, a ManagedResource that is
// suspended, one that is rolled out, and drift.
func fleetOf(targets int) []client.Object {
	objects := []client.Object{&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "trellis", Name: "trellis-heartbeat",
			Annotations: map[string]string{hubv1alpha1.VersionAnnotation: "v0.9.0"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("trellis-0"),
			AcquireTime: ptr.To(metav1.NewMicroTime(now.Add(-3 * time.Hour))),
			RenewTime:   ptr.To(metav1.NewMicroTime(now.Add(-5 * time.Second)))},
	}}
	for i := range targets {
		namespace := fmt.Sprintf("shoot--p--c%04d", i)
		uid := types.UID(fmt.Sprintf("uid-%04d", i))
		down := i%50 == 1
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shoot",
			CreationTimestamp: ago(720 * time.Hour),
			Labels: map[string]string{hubv1alpha1.StatusLabel: "healthy",
				"region": []string{"eu-west-1", "us-east-1"}[i%2]}}}
		tc.Status = hubv1alpha1.TargetClusterStatus{ClusterUID: uid,
			KubernetesVersion: []string{"v1.36.3", "v1.35.7"}[min(1, i%9/8)],
			NodeCounts:        &hubv1alpha1.NodeCounts{Total: int32(3 + i%5)}, Objects: int64(45 + i%7),
			RoundTripMilliseconds: int64(5 + i%3),
			ManagedResources:      &hubv1alpha1.ManagedResourceCounts{Total: 3, Ready: 3}}
		if i%40 == 0 {
			tc.Status.DriftLastHour = int64(1 + i/40)
		}
		ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready",
			Message:            "the hub does its work in the target",
			LastTransitionTime: ago(700 * time.Hour)}
		if down {
			ready.Status, ready.Reason, ready.LastTransitionTime = metav1.ConditionFalse, "Unreachable",
				ago(12*time.Minute)
			ready.Message = fmt.Sprintf("dial tcp 10.1.%d.7:443: i/o timeout", i/50)
			tc.Labels[hubv1alpha1.StatusLabel] = "unhealthy"
		}
		tc.Status.Conditions = []metav1.Condition{ready}
		objects = append(objects, tc)
		for n, name := range []string{"addons", "monitoring", "network"} {
			mr := wellMR(namespace, name, uid)
			switch {
			case down:
				set(mr, resourcesv1alpha1.ConditionReady, "Unknown", "TargetUnreachable",
					"the target does not answer", 12*time.Minute)
			case n == 0 && i%20 == 2:
				message := fmt.Sprintf("Deployment.apps shop/web is unhealthy: pod web-%x-x2x9p: "+
					"container web waits (ImagePullBackOff)", 0x7d4b+i)
				set(mr, resourcesv1alpha1.ConditionResourcesHealthy, "False", "DeploymentUnhealthy", message,
					10*time.Minute)
				set(mr, resourcesv1alpha1.ConditionReady, "False", "DeploymentUnhealthy", message, 10*time.Minute)
			case n == 1 && i%90 == 5:
				mr.Annotations[resourcesv1alpha1.IgnoreAnnotation] = "true"
			case n == 1 && i%90 == 6:
				set(mr, resourcesv1alpha1.ConditionResourcesProgressing, "True", "DaemonSetProgressing",
					"DaemonSet.apps kube-system/agent is progressing", time.Minute)
				set(mr, resourcesv1alpha1.ConditionReady, "False", "DaemonSetProgressing",
					"DaemonSet.apps kube-system/agent is progressing", time.Minute)
			case n == 2 && i%333 == 7:
				message := `ConfigMap net/rules: admission webhook "rules.example.com" denied the request: no`
				set(mr, resourcesv1alpha1.ConditionResourcesApplied, "False", "ApplyFailed", message, time.Hour)
				set(mr, resourcesv1alpha1.ConditionReady, "False", "ApplyFailed", message, time.Hour)
			}
			objects = append(objects, mr)
		}
	}
	return objects
}

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// wellMR is a ManagedResource with nothing wrong.
func wellMR(namespace, name string, uid types.UID) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
		Generation: 2, CreationTimestamp: ago(720 * time.Hour),
		Annotations: map[string]string{hubv1alpha1.TargetUIDAnnotation: string(uid)}}}
	mr.Status.ObservedGeneration = 2
	set(mr, resourcesv1alpha1.ConditionResourcesApplied, "True", "ApplySucceeded", "All resources are applied.",
		700*time.Hour)
	set(mr, resourcesv1alpha1.ConditionResourcesHealthy, "True", "ResourcesHealthy", "All resources are healthy.",
		700*time.Hour)
	set(mr, resourcesv1alpha1.ConditionResourcesProgressing, "False", "ResourcesRolledOut",
		"All resources are rolled out.", 700*time.Hour)
	set(mr, resourcesv1alpha1.ConditionReady, "True", "Ready", "All is well.", 700*time.Hour)
	return mr
}

// set sets a condition.
func set(mr *resourcesv1alpha1.ManagedResource, conditionType resourcesv1alpha1.ConditionType, status, reason,
	message string, since time.Duration) {
	c := resourcesv1alpha1.Condition{Type: conditionType, Status: resourcesv1alpha1.ConditionStatus(status),
		Reason: reason, Message: message,
		LastTransitionTime: ago(since), LastUpdateTime: ago(since)}
	for i := range mr.Status.Conditions {
		if mr.Status.Conditions[i].Type == conditionType {
			mr.Status.Conditions[i] = c
			return
		}
	}
	mr.Status.Conditions = append(mr.Status.Conditions, c)
}

// TestFleet has the outputs of all commands about a fleet, at 3 and at 1,000 targets.
func TestFleet(t *testing.T) {
	for _, targets := range []int{3, 1000} {
		source := sourceOf(fleetOf(targets))
		for name, args := range map[string]string{
			"status":           "status",
			"status-name":      "status -o name",
			"status-labels":    "status -l region=us-east-1",
			"status-json":      "status -o json",
			"problems":         "problems -A",
			"problems-here":    "problems -n shoot--p--c0002",
			"problems-none":    "problems -n shoot--p--c0000",
			"problems-wide":    "problems -A -o wide",
			"problems-name":    "problems -A -o name",
			"problems-json":    "problems -A -o json",
			"problems-empty":   "problems -n nothing",
			"get-mr":           "get mr -A --not-ready",
			"get-mr-wide":      "get mr -A --not-ready -o wide",
			"get-mr-name":      "get mr -A --not-ready -o name",
			"get-mr-columns":   "get mr -A --not-ready -o custom-columns=NS:.metadata.namespace,NAME:.metadata.name",
			"get-cluster":      "get cluster -A --not-ready",
			"get-cluster-wide": "get cluster -A --not-ready -o wide",
			"get-cluster-path": "get cluster -A --not-ready -o jsonpath={range.items[*]}{.metadata.namespace}{\"\\n\"}{end}",
			"top":              "top -A",
			"top-drift":        "top -A --sort-by drift",
			"top-rtt":          "top -A --sort-by rtt --count 3 --no-headers",
			"rollout":          "rollout status mr addons -A",
			"rollout-wide":     "rollout status mr network -A -o wide",
			"rollout-name":     "rollout status mr addons -A -o name",
			"rollout-json":     "rollout status mr monitoring -A -o json",
			"why":              "why cluster -A -o name",
			"why-mr":           "why mr -A -o name",
			"wait":             "wait mr -A --timeout 0s -o name -l region=nowhere",
		} {
			t.Run(fmt.Sprintf("%s-%d", name, targets), func(t *testing.T) {
				file := filepath.Join("fleet", fmt.Sprintf("%d", targets), name+".txt")
				golden(t, file, "$ trellisctl "+args+"\n"+runAt(t, app.Name,
					func() client.WithWatch { return source }, strings.Fields(args)...))
			})
		}
	}
}
