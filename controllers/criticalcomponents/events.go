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
	// reporter is who writes events.
	reporter = "trellis"
)

// news are what an event says about a Node.
type news struct {
	warning      bool
	reason, note string
	at           time.Time
}

// tell writes an event on the Node, in its target, unless it has said so already. Without events everything else
// continues.
func (r *reconciler) tell(ctx context.Context, target *multicluster.Target, node *corev1.Node, n news) {
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

func (r *reconciler) isNew(cluster clustercache.ClusterKey, node string, n news) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.told[cluster][node]
	return !known || last.reason != n.reason || last.note != n.note || n.at.Sub(last.at) >= repeat
}

func (r *reconciler) remember(cluster clustercache.ClusterKey, node string, n news) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told[cluster] == nil {
		r.told[cluster] = map[string]news{}
	}
	r.told[cluster][node] = n
}

// forget forgets what was said about a Node that does not wait any longer.
func (r *reconciler) forget(cluster clustercache.ClusterKey, node string) {
	r.metrics.done(cluster, node)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.told[cluster], node)
}
