package istioclusterconfig

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

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
)

// Reasons of events in targets, and on the TargetCluster.
const (
	reasonInvalid  = "InvalidClusterConfiguration" // on a rule, which is left out
	reasonTooLarge = "ClusterConfigurationTooLarge"
	reasonConflict = "EnvoyFilterConflict"
	reasonRefused  = "IstioWatchRefused"
	reasonIngress  = "TooManyIngressNamespaces"
	action         = "Reconcile"
	reporter       = "trellis"
)

// maxNamed is how many things an event or an error names.
const maxNamed = 5

// warn writes an event about an object into its cluster, once until something else is to be said, or nothing.
func (w *run) warn(ctx context.Context, about corev1.ObjectReference, reason, message string) {
	said := subject{about.UID, reason}
	if !w.memory.say(said, message) {
		return
	}
	message = untrusted.Message(message)
	w.Log.V(1).Info("Something is wrong in the target", "kind", about.Kind, "object", about.Namespace+"/"+about.Name,
		"reason", reason, "message", message)
	// The name follows from the content: a hub that says it again after a restart writes no second event.
	hash := sha256.Sum256([]byte(string(about.UID) + " " + reason + " " + message))
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			// Events about what has no namespace are in the default one.
			Namespace: about.Namespace, Name: Name + "." + hex.EncodeToString(hash[:8]),
		},
		EventTime:           metav1.NewMicroTime(w.clock.Now()),
		ReportingController: reporter, ReportingInstance: reporter, Action: action, Reason: reason,
		Regarding: about, Note: message, Type: corev1.EventTypeWarning,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault
	}
	if err := w.Client.Create(ctx, event); err != nil && !apierrors.IsAlreadyExists(err) {
		w.memory.say(said, "") // the next run tries again
		w.Log.V(1).Info("Cannot write an event", "error", err.Error())
	}
}

// report writes a message to the log, and as an event for the owner of the target. It does not repeat a message until
// there was another one, or none.
func (w *run) report(reason, message string) {
	message = untrusted.Message(message)
	if !w.memory.say(subject{reason: reason}, message) {
		return
	}
	w.Log.Info("Something keeps EnvoyFilters from being written", "reason", reason, "message", message)
	if w.Namespace() == "" {
		return // it has no TargetCluster
	}
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(hubv1alpha1.GroupVersion.WithKind("TargetCluster"))
	about.Namespace, about.Name = w.Key().Namespace, w.Key().Name
	w.Warn(about, reason, action, message)
}

// named names the first ones.
func named(all []string) string {
	if len(all) <= maxNamed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed)
}
