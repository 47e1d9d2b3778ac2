package criticalcomponents

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// Reasons and action of events on Nodes.
const (
	reasonUnscheduled = "UnscheduledNodeCriticalDaemonSets"
	reasonUnready     = "UnreadyNodeCriticalPods"
	reasonDrivers     = "UnreadyRequiredCSIDrivers"
	reasonReady       = "NodeCriticalComponentsReady"

	action = "Reconcile"
)

const (
	// maxNote is the bound of an API server.
	maxNote = 1024
	// repeat is the time after which the same is said again. API servers keep events for an hour by default.
	repeat = 30 * time.Minute
	// reporter is the reporting controller of events.
	reporter = "trellis"
)

// nodeEvent is what an event says about a Node.
type nodeEvent struct {
	warning      bool
	reason, note string
	at           time.Time
}

// report writes an event on the Node, in its target, unless the last one said the same recently. If it fails,
// everything else continues.
func (r *reconciler) report(ctx context.Context, target *multicluster.Target, node *corev1.Node, n nodeEvent) {
	n.at = r.clock.Now()
	if !r.isNew(target.Key(), node.Name, n) {
		return
	}
	event := &eventsv1.Event{
		// Events about what has no namespace are in the default one.
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: Name + "-"},
		EventTime:  metav1.NewMicroTime(n.at), ReportingController: reporter, ReportingInstance: reporter,
		Type: corev1.EventTypeNormal, Reason: n.reason, Action: action, Note: n.note,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}
	if n.warning {
		event.Type = corev1.EventTypeWarning
	}
	if err := target.Client.Create(ctx, event); err != nil {
		target.Log.V(1).Info("Cannot write an event about a Node", "reason", n.reason, "error", err.Error())
		return
	}
	r.remember(target.Key(), node.Name, n)
}

func (r *reconciler) isNew(cluster clustercache.ClusterKey, node string, n nodeEvent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.reported[cluster][node]
	return !known || last.reason != n.reason || last.note != n.note || n.at.Sub(last.at) >= repeat
}

func (r *reconciler) remember(cluster clustercache.ClusterKey, node string, n nodeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reported[cluster] == nil {
		r.reported[cluster] = map[string]nodeEvent{}
	}
	r.reported[cluster][node] = n
}

// forget drops what was reported about a Node that does not wait any longer.
func (r *reconciler) forget(cluster clustercache.ClusterKey, node string) {
	r.metrics.done(cluster, node)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported[cluster], node)
}
