package networkpolicy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
)

// Reasons of events on Services, in their own cluster, and of the one on the TargetCluster.
const (
	reasonInvalid   = "InvalidNetworkPolicySettings"
	reasonConflict  = "NetworkPolicyConflict"
	reasonGateway   = "GatewayNotFound"
	reasonShortened = "PodLabelSelectorKeyTooLong"
	reasonRefused   = "NetworkPolicyWatchRefused"
	action          = "Reconcile"
	reporter        = "trellis"
)

// maxNamed is how many things an event names.
const maxNamed = 5

// warn writes an event about a Service into its cluster, once until something else is to be said, or nothing.
func (w *run) warn(ctx context.Context, name types.NamespacedName, uid types.UID, reason, message string) {
	message = untrusted.Message(message)
	if w.collect != nil {
		w.collect(reason, message)
		return
	}
	if !w.memory.say(subject{name, reason}, message) {
		return
	}
	w.Log.V(1).Info("Something is wrong with a Service", "reason", reason, "message", message)
	// The name follows from the content: a hub that says it again after a restart writes no second event.
	hash := sha256.Sum256([]byte(string(uid) + " " + reason + " " + message))
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name + "." + hex.EncodeToString(hash[:8]),
		},
		EventTime:           metav1.NewMicroTime(w.clock.Now()),
		ReportingController: reporter, ReportingInstance: reporter, Action: action, Reason: reason,
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Service", Namespace: name.Namespace, Name: name.Name, UID: uid,
		},
		Note: message, Type: corev1.EventTypeWarning,
	}
	if err := w.Client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Log.V(1).Info("Cannot write an event", "error", err.Error()) // the log has what it would say
	}
}

// report writes an event for the owner of the target: a watch cannot become complete, so nothing is done in the target.
func (w *run) report(lasting error) {
	message := ""
	if lasting != nil {
		message = untrusted.Message("no policies are written or deleted: " + lasting.Error())
	}
	if !w.memory.say(subject{reason: reasonRefused}, message) {
		return
	}
	w.Log.Info("A watch cannot become complete, so no policies are written", "error", message)
	if w.Namespace() == "" {
		return // it has no TargetCluster
	}
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(hubv1alpha1.GroupVersion.WithKind("TargetCluster"))
	about.Namespace, about.Name = w.Key().Namespace, w.Key().Name
	w.Warn(about, reasonRefused, action, message)
}

func shortenedMessage(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("The keys of labels of client pods are longer than %d characters and were shortened. Pods need: %s",
		maxLabelName, named(keys))
}

func missingMessage(gateways []string) string {
	if len(gateways) == 0 {
		return ""
	}
	return "VirtualServices name Gateways that do not exist; they are left out: " + named(gateways)
}

func conflictMessage(conflicts []string) string {
	if len(conflicts) == 0 {
		return ""
	}
	return "There are other policies with the names of those that are needed: " + named(conflicts)
}

// named names the first ones.
func named(all []string) string {
	if len(all) <= maxNamed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed)
}
