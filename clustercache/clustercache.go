package clustercache

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// ClusterKey names a target: the namespace of its registration Secret and the value of the Secret's label
// cluster.x-k8s.io/cluster-name. It is also the name of the TargetCluster. A key without a namespace is a static
// target (Options.Static), such as the source cluster itself.
type ClusterKey = types.NamespacedName

var (
	// ErrClusterNotConnected is returned for a registered target without a usable connection. Callers do not requeue on
	// it: they subscribe with GetClusterSource and continue when the target is back.
	ErrClusterNotConnected = errors.New("connection to the target cluster is down")
	// ErrClusterUnknown is returned for a key without a registration. As with ErrClusterNotConnected, an event announces
	// the registration when it comes.
	ErrClusterUnknown = errors.New("no such target cluster is registered")
	// ErrConnectionReplaced is what calls get that still use a connection some time after another one took its place. It
	// is to be handled like any error of a call: by trying again, with what the ClusterCache hands out then.
	ErrConnectionReplaced = errors.New("connection to the target cluster was replaced")
	// ErrBusy is what calls get that are not made, because the target answers probes but has not answered several other
	// calls in time, has ended them without an answer, or has asked for later calls again and again. It is a
	// context.DeadlineExceeded and is to be handled like one.
	ErrBusy = transport.ErrBusy
	// ErrTooManyObjects is the error that handlers of watches get for kinds of which a target has more objects, or larger
	// ones, than Options.Watch.MaxObjects allows.
	ErrTooManyObjects = watching.ErrTooMany
	// ErrNotCached is returned by readers of GetReader for kinds that are not watched.
	ErrNotCached = watching.ErrNotCached
)

// HoldAnswers declares that objects that are read from targets with the returned context stay in use until done is
// called. Large answers of all targets share a budget, and those read with the context count until then.
// Call it for the work on one object, not on many.
func HoldAnswers(ctx context.Context) (scope context.Context, done func()) { return answers.Scope(ctx) }

// ClusterCache holds one live connection for each registered target.
type ClusterCache interface {
	// GetClient returns a client that reads watched kinds from memory and everything else live.
	GetClient(ctx context.Context, cluster ClusterKey) (client.Client, error)
	// GetReader returns a reader over the watched kinds; it never starts a watch and never calls the target.
	GetReader(ctx context.Context, cluster ClusterKey) (client.Reader, error)
	// GetUncachedClient returns a client that always calls the target.
	GetUncachedClient(ctx context.Context, cluster ClusterKey) (client.Client, error)
	// GetMetadataClient returns a client whose answers, those to writes included, carry metadata only.
	GetMetadataClient(ctx context.Context, cluster ClusterKey) (metadata.Interface, error)
	// GetRESTConfig returns a copy of the connection's configuration. Its transport, limiter and credentials are those
	// of the connection.
	GetRESTConfig(ctx context.Context, cluster ClusterKey) (*rest.Config, error)
	// GetRESTMapper returns the target's mapper. It re-reads discovery when a kind is not known, at a bounded rate.
	GetRESTMapper(ctx context.Context, cluster ClusterKey) (meta.RESTMapper, error)

	// Watch subscribes to the objects of a kind in a target. It returns at once. The stream behind it is shared by all
	// subscriptions to the same kind, selection and form; it is opened as soon as the target is connected and again in
	// each later connection, and ends with the last of its subscriptions, or with the target. Each call makes a
	// subscription of its own.
	Watch(ctx context.Context, cluster ClusterKey, watcher Watcher) (Subscription, error)

	// GetHealthCheckingState returns when the target was probed last and with what result.
	GetHealthCheckingState(ctx context.Context, cluster ClusterKey) HealthCheckingState
	// GetStatus returns the state of one target; false if it is not registered.
	GetStatus(cluster ClusterKey) (Status, bool)
	// List returns the states of all registered targets of a namespace, or of all namespaces if it is empty (static
	// targets left out).
	List(namespace string) []Status
	// GetClusterSource returns a stream of events, de-duplicated per target: a slow consumer delays no other, and what it
	// missed is merged. name identifies the consumer in logs.
	GetClusterSource(name string) EventSource
}

// State says where a target is in its life.
type State string

const (
	// StateRefused means that the registration cannot be used: the Secret or its kubeconfig is faulty or forbidden, or
	// the cluster's identity changed, or its namespace has too many registrations. Nothing is dialled until the Secret
	// changes, or until the quota of its namespace allows it.
	StateRefused State = "Refused"
	// StateConnecting means that no connection attempt has ended yet.
	StateConnecting State = "Connecting"
	// StateConnected means that calls are possible.
	StateConnected State = "Connected"
	// StateDisconnected means that the target could not be reached; it is dialled again with backoff.
	StateDisconnected State = "Disconnected"
	// StateHibernated means that the target is meant to be away: it is neither dialled nor probed until Options.Asleep
	// says otherwise.
	StateHibernated State = "Hibernated"
	// StateDraining means that the registration is gone and the connection only serves those who are cleaning up.
	StateDraining State = "Draining"
)

// Reasons of Status.Reason, stable for conditions and metrics.
const (
	ReasonSecretInvalid     = "SecretInvalid"                  // no kubeconfig in the Secret, wrong name or type
	ReasonKubeconfigInvalid = connection.ReasonInvalid         // the kubeconfig cannot be parsed or is incomplete
	ReasonKubeconfigRefused = "KubeconfigRefused"              // it asks for what the hub does not do: exec, files, ...
	ReasonQuotaExceeded     = "RegistrationQuotaExceeded"      // more than Options.MaxRegistrations in its namespace
	ReasonIdentityChanged   = connection.ReasonIdentityChanged // it leads to a cluster with another kube-system UID
	ReasonUnauthorized      = connection.ReasonUnauthorized    // the target answers 401
	ReasonForbidden         = connection.ReasonForbidden       // the credential may not do what connecting needs
	ReasonUnreachable       = connection.ReasonUnreachable     // dial, TLS or timeout
	ReasonProbeFailed       = "ProbeFailed"                    // connected before, and probes fail now
	ReasonConnected         = "Connected"
	ReasonRegistrationGone  = "RegistrationGone"
	ReasonHibernated        = "Hibernated"
)

// Status is a snapshot of a target.
type Status struct {
	Cluster    ClusterKey
	State      State
	Reason     string
	Message    string // free of secrets; "" when there is nothing to explain
	Since      time.Time
	Connection int64 // its number, counted from 1; 0 = none yet
	// InGrace is true during the grace period of a target that is disconnected and may be back in a moment: it was lost
	// just now, or together with so many others that it may be the hub's own network. What its watches keep stays ready,
	// and no conclusions should be drawn from the outage yet. EventDisconnected comes again when it ends without a
	// connection.
	InGrace bool

	// Labels and Annotations of the registration Secret, nil for static targets. They are shared, and not to be changed.
	Labels, Annotations map[string]string
	// SecretName and SecretResourceVersion identify the content that is in use. SecretResourceVersion of content that was
	// refused while an older connection continues is in PendingSecretResourceVersion, with the fault in PendingMessage.
	SecretName                   string
	SecretResourceVersion        string
	PendingSecretResourceVersion string
	PendingReason                string
	PendingMessage               string

	// UID is that of the target's kube-system namespace; empty until it was connected once. A server can claim any UID, so
	// it distinguishes targets of one namespace and proves nothing to another namespace.
	UID types.UID
	// Server is the API server that reported it; before the first connection, the one that the registration leads to. Zero
	// if that cannot be determined.
	Server ServerID
	// KubernetesVersion is the gitVersion that the target reported.
	KubernetesVersion string
	// CredentialExpiry is the end of the client certificate or token; zero if it has none.
	CredentialExpiry time.Time
	// CredentialIssued is since when that credential is valid; zero if that is not known.
	CredentialIssued time.Time
	// CA holds the PEM certificates that the API server is verified with; empty if those are the system's, and for static
	// targets. It is shared, and not to be changed.
	CA []byte
	// ServiceAccount is that of the target whose token the credential is; zero if it is none.
	ServiceAccount types.NamespacedName
	// Rewinds is how often the target was found to have gone back in time since it was registered here, as when its
	// etcd is restored from a backup. What was known of its objects before says nothing any longer, not even which of
	// two versions is the newer one.
	Rewinds int64
	// RoundTrip is the time of the last successful probe.
	RoundTrip time.Duration
	// NextAttempt is when a disconnected target is dialled again.
	NextAttempt time.Time
	// Overfull says which watches do not show everything because the target has more objects, or larger ones, than
	// Options.Watch.MaxObjects allows; empty if none.
	Overfull string
}

// HealthCheckingState is the probe history of a target.
type HealthCheckingState struct {
	LastProbeTime        time.Time
	LastProbeSuccessTime time.Time
	ConsecutiveFailures  int
}

// Watcher describes what a consumer watches.
type Watcher struct {
	// Name is the name of the subscription in calls of Handler, and that of the stream in logs and messages if the
	// subscription opens it.
	Name string
	// Kind is what is watched, in the version that is asked for.
	Kind schema.GroupVersionKind
	// MetadataOnly asks the target for PartialObjectMetadata; else objects arrive as unstructured content.
	MetadataOnly bool
	// Namespace, LabelSelector and FieldSelector restrict the watch on the server. Zero values select all.
	Namespace     string
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	// Fields are the paths of all that Transform looks at in objects that do not arrive as metadata only, beside
	// apiVersion, kind and metadata: what is not beneath one of them is not even decoded, where that saves work. Objects
	// need not be of type Unstructured then, and their managedFields need not be a part of their content, but
	// UnstructuredContent and GetManagedFields have both. Nil: everything.
	Fields [][]string
	// Transform turns an object into what is kept and handed to Handler. Nil keeps the object without managedFields.
	// It is called before the object is stored, once per event, and must not retain the object if it returns another
	// value.
	Transform func(obj client.Object) any
	// Form names what Transform makes of objects: subscriptions with the same Form have the same Transform, and share a
	// stream if all above but Name is the same, too. Without it a watcher with a Transform shares no stream.
	Form string
	// Optional says that the target may never serve the kind. Then it is looked for less and less often, at least every
	// one and a half minutes; else at least every three seconds.
	Optional bool
	// Handler receives changes, and first all that a shared stream keeps already. Calls of one stream are sequential;
	// they must return quickly, and may subscribe, look things up and close subscriptions. Nil: there is none.
	Handler WatchHandler
}

// Subscription is a consumer's part in a stream of objects.
type Subscription interface {
	// Lookup returns what is kept of an object. synced is false until the stream has brought its initial list in the
	// present connection, and the handler knows of it; absence means something only if it is true.
	Lookup(key types.NamespacedName) (value any, found, synced bool)
	// Range calls f for everything that is kept, until f returns false. f must not call the cache.
	Range(f func(key types.NamespacedName, value any) bool) (synced bool)
	// Live is false once the subscription was closed or its target is gone. To continue, subscribe again.
	Live() bool
	// Close ends this subscription, and no other. No call of the handler begins after it, and nothing is found.
	Close()
}

// WatchHandler receives the events of a subscription, whose name they bear.
type WatchHandler interface {
	// OnUpdate is called for objects that are new (old == nil) or changed.
	OnUpdate(cluster ClusterKey, watch string, key types.NamespacedName, old, value any)
	// OnDelete is called for objects that left the selection: deleted, or no longer matching. Also called when the initial
	// list of a later connection lacks an object that an earlier one had.
	OnDelete(cluster ClusterKey, watch string, key types.NamespacedName, old any)
	// OnSynced is called each time the initial list of a connection is complete, and when a watch continues where it
	// was and has delivered all that it missed: absence can be relied upon.
	OnSynced(cluster ClusterKey, watch string)
	// OnError is called when the watch cannot be established or breaks repeatedly, with the target's answer.
	OnError(cluster ClusterKey, watch string, err error)
}

// ServerID stands for what authenticates an API server to the hub: its address, the name that its certificate must have
// and the certificate authorities. Two targets with the same ServerID are the same server, whatever it answers.
// Different ones may be the same server under two addresses. The zero value is no server.
type ServerID string

// EventType says what happened to a target.
type EventType string

// Types of events. Registered and Gone frame a registration's life.
const (
	EventRegistered   EventType = "Registered"   // a registration appeared, or its labels or annotations changed
	EventConnected    EventType = "Connected"    // calls are possible (again)
	EventDisconnected EventType = "Disconnected" // calls are no longer possible
	EventRotated      EventType = "Rotated"      // a new connection or token serves, without an interruption
	EventRewound      EventType = "Rewound"      // the target went back in time, and its watches list again
	EventProbed       EventType = "Probed"       // status changed otherwise: probe results, refusals, expiry
	EventDraining     EventType = "Draining"     // the registration is gone, the connection serves until released
	EventGone         EventType = "Gone"         // nothing is left of the target
)

// Event is what happened to one target since the consumer looked last, oldest first, each type once.
type Event struct {
	Cluster ClusterKey
	Types   []EventType
}

// Has reports whether the event contains a type.
func (e Event) Has(t EventType) bool {
	for i := range e.Types {
		if e.Types[i] == t {
			return true
		}
	}
	return false
}

// EventSource is one consumer's stream of events.
type EventSource interface {
	// Next blocks until there is an event or ctx ends. On the first call it reports the targets that exist already, as
	// Registered and, where that is so, Connected.
	Next(ctx context.Context) (Event, error)
	// Close ends the stream. No event is kept for it from then on.
	Close()
}
