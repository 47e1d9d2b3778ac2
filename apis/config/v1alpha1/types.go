package v1alpha1

import (
	"net"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

const (
	// APIVersion is that of the configuration file.
	APIVersion = "config.hub.gardener.cloud/v1alpha1"
	// Kind is that of the configuration file.
	Kind = "HubConfiguration"
)

// HubConfiguration is the content of the configuration file.
type HubConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// SourceClientConnection is about requests to the source cluster.
	SourceClientConnection SourceClientConnection `json:"sourceClientConnection,omitempty"`
	// TargetClientConnection is about requests to each target, unless its TargetCluster says otherwise.
	TargetClientConnection TargetClientConnection `json:"targetClientConnection,omitempty"`
	// LeaderElection is about which of several replicas works.
	LeaderElection LeaderElection `json:"leaderElection,omitempty"`
	// Server is about the ports that the hub listens on.
	Server Server `json:"server,omitempty"`
	// Metrics is about the content of /metrics.
	Metrics Metrics `json:"metrics,omitempty"`
	// Debugging switches profiling on.
	Debugging Debugging `json:"debugging,omitempty"`
	// LogLevel is debug, info or error. Default: info. A change of it takes effect within seconds, without a restart.
	LogLevel string `json:"logLevel,omitempty"`
	// LogFormat is json or text. Default: json.
	LogFormat string `json:"logFormat,omitempty"`

	// Classes are the classes of ManagedResources that this hub is responsible for. At least one is needed.
	Classes []Class `json:"classes,omitempty"`
	// Controllers is about the controllers.
	Controllers Controllers `json:"controllers,omitempty"`
	// ClusterCache is about the connections to the targets.
	ClusterCache ClusterCache `json:"clusterCache,omitempty"`
	// SourceIdentity is the identity with which the hub applies objects to the source cluster itself. Required if a
	// class has the target type Source, and unused otherwise.
	SourceIdentity *SourceIdentity `json:"sourceIdentity,omitempty"`
}

// SourceClientConnection is about requests to the source cluster.
type SourceClientConnection struct {
	// Kubeconfig is the path of a kubeconfig file. Default: the service account of the pod.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// QPS limits requests a second; a negative value means no limit. Default: -1, since the API server's priority and
	// fairness knows better than a client how much it can take.
	QPS float32 `json:"qps,omitempty"`
	// Burst is how many requests may exceed QPS for a short time. Default: twice QPS, at most 32767.
	Burst int32 `json:"burst,omitempty"`
}

// TargetClientConnection is about requests to a target.
type TargetClientConnection struct {
	// QPS limits requests a second. Default: 500.
	QPS float32 `json:"qps,omitempty"`
	// Burst is how many requests may exceed QPS for a short time. Default: 1000.
	Burst int32 `json:"burst,omitempty"`
	// MaxInFlight is how many requests may be in flight at a time. Default: 40.
	MaxInFlight int32 `json:"maxInFlight,omitempty"`
	// Timeout is the timeout of a single request, except for watches. Default: 10s.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// LeaderElection is about which of several replicas works.
type LeaderElection struct {
	// LeaderElect switches leader election. Default: true.
	LeaderElect *bool `json:"leaderElect,omitempty"`
	// LeaseDuration is how long other replicas wait after the last renewal by a leader. Default: 15s.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	// RenewDeadline is how long a leader tries to renew before it gives up. Default: 10s.
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	// RetryPeriod is the time between two attempts. Default: 2s.
	RetryPeriod metav1.Duration `json:"retryPeriod,omitempty"`
	// ResourceLock can only be leases, which is the default.
	ResourceLock string `json:"resourceLock,omitempty"`
	// ResourceName is the name of the Lease. Default: trellis.
	ResourceName string `json:"resourceName,omitempty"`
	// ResourceNamespace is the namespace of the Lease. Required unless LeaderElect is false.
	ResourceNamespace string `json:"resourceNamespace,omitempty"`
}

// Enabled reports whether leader election is on.
func (l LeaderElection) Enabled() bool {
	return l.LeaderElect == nil || *l.LeaderElect
}

// Server is about the ports that the hub listens on.
type Server struct {
	// HealthProbes serves /healthz and /readyz. Default port: 8081.
	HealthProbes Endpoint `json:"healthProbes,omitempty"`
	// Metrics serves /metrics and, if switched on, profiles and /debug/targets. Default port: 8080.
	Metrics Endpoint `json:"metrics,omitempty"`
	// MetricsAuthentication says who may read the metrics port. Default: everyone who reaches it, over plain HTTP.
	MetricsAuthentication MetricsAuthentication `json:"metricsAuthentication,omitempty"`
	// EnableDebugHandlers serves /debug/targets on the metrics port: the state of every connection and every queue,
	// without secrets. Everyone with access to the port can read it. Default: false.
	EnableDebugHandlers bool `json:"enableDebugHandlers,omitempty"`
	// Webhooks serves webhooks to the API servers of targets. Default: it does not.
	Webhooks WebhookServer `json:"webhooks,omitempty"`
}

// MetricsAuthentication is about who may read the metrics port.
type MetricsAuthentication struct {
	// Enabled serves the metrics port over HTTPS, and only to callers with a bearer token of the source cluster whose
	// rights include the verb get on the path, such as /metrics. The source cluster is asked by a TokenReview and a
	// SubjectAccessReview; its answers count for a minute. Default: false.
	Enabled bool `json:"enabled,omitempty"`
	// CertificateDirectory is a directory with tls.crt and tls.key, which are read again when they change. Default:
	// none; each start then makes a self-signed certificate, which clients cannot verify.
	CertificateDirectory string `json:"certificateDirectory,omitempty"`
}

// Metrics is about what /metrics shows.
type Metrics struct {
	// TargetHistograms adds histograms of each target: how long its probes take, and how long its work waits in the queue.
	// They cost some twenty series for each target. Default: false.
	TargetHistograms bool `json:"targetHistograms,omitempty"`
}

// Endpoint is an address to listen on.
type Endpoint struct {
	// BindAddress is an IP address. Default: all addresses.
	BindAddress string `json:"bindAddress,omitempty"`
	// Port is a TCP port.
	Port int32 `json:"port,omitempty"`
}

// Address returns the endpoint as net.Listen wants it.
func (e Endpoint) Address() string {
	return net.JoinHostPort(e.BindAddress, strconv.Itoa(int(e.Port)))
}

// Debugging switches profiling on.
type Debugging struct {
	// EnableProfiling serves pprof handlers on the metrics port. Default: false.
	EnableProfiling bool `json:"enableProfiling,omitempty"`
	// EnableContentionProfiling adds profiles of mutexes and blocking. Default: false.
	EnableContentionProfiling bool `json:"enableContentionProfiling,omitempty"`
}

// Class is a class of ManagedResources and where they go. Each has its own queue and its own workers.
type Class struct {
	// Name is the value of spec.class. Empty means the default class: ManagedResources without a class.
	Name string `json:"name"`
	// Target is the cluster that the ManagedResources of this class are for.
	Target ClassTarget `json:"target"`
	// NamespaceSelector selects namespaces by their labels. ManagedResources of this class in other namespaces are
	// ignored, except in those with a registration that serves the class, if the target type is Namespace. Required for
	// the target types Source and Registration, because there it decides which tenants may write to a cluster that is
	// not their own.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ConcurrentSyncs is how many ManagedResources are worked on at the same time. Those that wait for their targets do
	// not count, unless the class has one fixed target. Default: 20 for the default class, 5 for others.
	ConcurrentSyncs int `json:"concurrentSyncs,omitempty"`
	// DryRun only plans and reports; nothing is written to targets or ManagedResources. Default: false.
	DryRun bool `json:"dryRun,omitempty"`
	// ClusterID is the cluster ID in the origin annotation of objects of this class. Default: that of the controllers.
	ClusterID *string `json:"clusterID,omitempty"`
	// Controllers say which controllers work in the targets of this class, beside that of ManagedResources. The
	// TargetCluster of a target can say otherwise for it, field by field; not so for the target type Source. Default:
	// none.
	Controllers hubv1alpha1.TargetControllers `json:"controllers,omitempty"`
	// Webhooks say which webhooks the hub serves for the targets of this class. The TargetCluster of a target can say
	// otherwise for it, field by field; not so for the target type Source. Default: none.
	Webhooks hubv1alpha1.TargetWebhooks `json:"webhooks,omitempty"`
}

// Works reports whether controllers or webhooks of the class are switched on, which one class at most can have for a
// target.
func (c *Class) Works() bool {
	return len(c.Controllers.Enabled()) > 0 || len(c.Webhooks.Enabled()) > 0
}

// WebhookScope is that of webhooks in the targets of the class that do not say one.
func (c *Class) WebhookScope() hubv1alpha1.WebhookScope {
	if c.Target.Type == TargetSource {
		return hubv1alpha1.WebhookScopeRuntime
	}
	return hubv1alpha1.WebhookScopeTarget
}

// TargetType says how the target of a class is found.
type TargetType string

// The ways to find the target of a class.
const (
	// TargetNamespace is the registration in the ManagedResource's own namespace.
	TargetNamespace TargetType = "Namespace"
	// TargetSource is the source cluster itself.
	TargetSource TargetType = "Source"
	// TargetRegistration is one registration for all, named in the configuration.
	TargetRegistration TargetType = "Registration"
)

// ClassTarget is the cluster that the ManagedResources of a class are for.
type ClassTarget struct {
	// Type is Namespace, Source or Registration. Required.
	Type TargetType `json:"type"`
	// Namespace is that of the registration. Required for the type Registration, and only allowed there.
	Namespace string `json:"namespace,omitempty"`
	// Name is that of the target: the value of the registration's label cluster.x-k8s.io/cluster-name. Required for the
	// type Registration, and only allowed there.
	Name string `json:"name,omitempty"`
}

// Controllers is about the controllers.
type Controllers struct {
	// ClusterID is a prefix of the origin annotation of objects, which distinguishes the objects of several source
	// clusters in one target. "<cluster>" and "<default>" take it from the ConfigMap kube-system/cluster-identity of
	// the source cluster: the first requires it, the second means none if it is missing. Default: none.
	ClusterID *string `json:"clusterID,omitempty"`
	// ManagedResource is about the controller of ManagedResources. The key managedResources is accepted as well, because
	// the documentation of Gardener's resource manager calls it so.
	ManagedResource ManagedResourceController `json:"managedResource,omitempty"`
	// TargetCluster is about the controller of TargetClusters.
	TargetCluster TargetClusterController `json:"targetCluster,omitempty"`
	// Care is about the conditions of TargetClusters.
	Care Care `json:"care,omitempty"`
	// Heartbeat is about the heartbeat of the hub itself.
	Heartbeat Heartbeat `json:"heartbeat,omitempty"`
}

// Values of ClusterID that are not literal.
const (
	// ClusterIDFromCluster takes the ID from the source cluster and fails if there is none.
	ClusterIDFromCluster = "<cluster>"
	// ClusterIDDefault takes the ID from the source cluster and is empty if there is none.
	ClusterIDDefault = "<default>"
)

// ManagedResourceController is about the controller of ManagedResources.
type ManagedResourceController struct {
	// SyncPeriod is how often a ManagedResource is compared with the caches of the watches without an event, with
	// jitter. Default: 10m. Drift is corrected by watches, so this is only a safety net and costs the targets nothing.
	SyncPeriod metav1.Duration `json:"syncPeriod,omitempty"`
	// AlwaysUpdate sends every object to its target in each sync period, whether or not it differs. Default: false.
	// Watches detect all drift without it, and it costs each target one request an object; it is for targets whose
	// admission has to see all objects regularly.
	AlwaysUpdate bool `json:"alwaysUpdate,omitempty"`
	// ManagedByLabelValue is the value of the label resources.gardener.cloud/managed-by on all objects. Default: gardener.
	ManagedByLabelValue string `json:"managedByLabelValue,omitempty"`
	// MaxConcurrentObjects is how many objects of one stage of a ManagedResource are applied at a time. Default: 16.
	MaxConcurrentObjects int `json:"maxConcurrentObjects,omitempty"`
	// KeepGarbageCollectable leaves ConfigMaps and Secrets with the label
	// resources.gardener.cloud/garbage-collectable-reference in the target when they are no longer wanted: a garbage
	// collector in the target deletes them once nothing refers to them. Without one they stay forever. It is so anyway in
	// targets for which the hub's own garbage collector is enabled. Default: false.
	KeepGarbageCollectable bool `json:"keepGarbageCollectable,omitempty"`
}

// TargetClusterController is about the controller of TargetClusters.
type TargetClusterController struct {
	// ConcurrentSyncs is the number of workers. Default: 20.
	ConcurrentSyncs int `json:"concurrentSyncs,omitempty"`
	// SyncPeriod is how often the nodes of a target are checked, with jitter. Default: 30s.
	SyncPeriod metav1.Duration `json:"syncPeriod,omitempty"`
}

// Care is about the conditions of TargetClusters.
type Care struct {
	// ConditionThresholds say how long the check behind a condition has to fail until the condition is False. Until
	// then it keeps its status, and its reason reports the failure. Default: 1m for APIServerAvailable,
	// ControlPlaneHealthy, SystemComponentsHealthy and ObservabilityComponentsHealthy, 5m for EveryNodeReady, each
	// unless it is listed, and 1m for custom types that are not.
	ConditionThresholds []ConditionThreshold `json:"conditionThresholds,omitempty"`
	// ManagedResourceProgressingThreshold is how long a ManagedResource may be progressing until it counts as not
	// healthy. Default: 0s, which means forever.
	ManagedResourceProgressingThreshold metav1.Duration `json:"managedResourceProgressingThreshold,omitempty"`
}

// ConditionThreshold is the threshold of one type of condition.
type ConditionThreshold struct {
	// Type is that of a condition whose check can fail for a while: EveryNodeReady, APIServerAvailable, or one that sums
	// up ManagedResources.
	Type string `json:"type"`
	// Duration is how long the check has to fail. Zero means that the condition becomes False immediately.
	Duration metav1.Duration `json:"duration"`
}

// Heartbeat is about the heartbeat of the hub itself: a Lease in addition to that of the leader election, with its name
// followed by "-heartbeat", and the condition HubReady of each TargetCluster.
type Heartbeat struct {
	// RenewInterval is how often the leader renews the Lease while it makes progress. Default: 10s.
	RenewInterval metav1.Duration `json:"renewInterval,omitempty"`
	// MonitorPeriod is the time without a completed probe after which the state of a target counts as unknown. It must
	// be at least 2 * clusterCache.probeInterval + clusterCache.probeTimeout. Default: 40s.
	MonitorPeriod metav1.Duration `json:"monitorPeriod,omitempty"`
	// TargetMonitorPeriod is after how much more time all other conditions of the target become Unknown. Default: 200s.
	TargetMonitorPeriod metav1.Duration `json:"targetMonitorPeriod,omitempty"`
	// LivenessStuckAfter is how long a loop of the hub may be stuck until /healthz fails. Default: 2m.
	LivenessStuckAfter metav1.Duration `json:"livenessStuckAfter,omitempty"`
}

// ClusterCache is about the connections to the targets.
type ClusterCache struct {
	// ProbeInterval is the time between two probes of a target; controllers.heartbeat.monitorPeriod has to be long enough
	// for it. Default: 5s.
	ProbeInterval metav1.Duration `json:"probeInterval,omitempty"`
	// ProbeTimeout is how long a probe waits for its response. Default: 4s.
	ProbeTimeout metav1.Duration `json:"probeTimeout,omitempty"`
	// FailureThreshold is the number of consecutive failed probes after which a target counts as down. Default: 2.
	FailureThreshold int `json:"failureThreshold,omitempty"`
	// ConnectConcurrency is how many connections are made at a time. Default: 64.
	ConnectConcurrency int `json:"connectConcurrency,omitempty"`
	// DisconnectGrace is how long the caches of a lost connection are kept to resume its watches, and how long
	// ManagedResources do not report the outage. Connected becomes False immediately. Default: 10s.
	DisconnectGrace metav1.Duration `json:"disconnectGrace,omitempty"`
	// MassDisconnectPercent is the share of the connected targets, but at least three, that have to be lost within a
	// minute for the hub to suspect its own network. DisconnectGrace lasts until most are back then. Default: 20.
	MassDisconnectPercent int `json:"massDisconnectPercent,omitempty"`
	// MassDisconnectLimit bounds how long the hub suspects its own network. Default: 5m.
	MassDisconnectLimit metav1.Duration `json:"massDisconnectLimit,omitempty"`
	// MaxObjectsPerTarget bounds the objects of one target that the hub keeps in memory, over all its watches. They may
	// take 512 bytes each on average, but at least 24 MiB; the objects of all targets of a namespace may take 640 KiB a
	// target plus 64 MiB, and more in proportion if this is raised. If there are more objects, the TargetCluster and
	// the affected ManagedResources report it, and objects that are not in memory count as unknown. The source cluster
	// as a target may have ten times as many. Default: 50000.
	MaxObjectsPerTarget int `json:"maxObjectsPerTarget,omitempty"`
	// MaxRegistrationsPerNamespace is how many registrations of one namespace are used. The oldest ones are used; the
	// TargetClusters of the others report RegistrationQuotaExceeded, and the hub does not connect to them. When one
	// that is used is deleted, the oldest of the others replaces it. Zero means the default. Default: 1000.
	MaxRegistrationsPerNamespace int `json:"maxRegistrationsPerNamespace,omitempty"`
	// RegistrationSelector selects registrations by the labels of their Secrets, in addition to the label
	// cluster.x-k8s.io/cluster-name: other Secrets register nothing, and the hub does not read their content. It makes
	// registrations opt-in where Cluster API has kubeconfig Secrets of its own. A Secret that loses its labels counts as
	// deleted. Default: all registrations.
	RegistrationSelector *metav1.LabelSelector `json:"registrationSelector,omitempty"`
	// DrainTimeout is how long a connection is kept for clean-up after its registration was deleted. Default: 5m.
	DrainTimeout metav1.Duration `json:"drainTimeout,omitempty"`
	// AllowedProxyURLs are the proxies that a registration's kubeconfig may name. Default: none.
	AllowedProxyURLs []string `json:"allowedProxyURLs,omitempty"`
	// AllowedNetworks are the networks that registered clusters may be in although their addresses are loopback,
	// link-local, unspecified or multicast ones, such as 127.0.0.0/8 for tests and single-node set-ups. All other
	// addresses are allowed anyway. Names are checked by their resolved addresses, at each dial. Default: none.
	AllowedNetworks []string `json:"allowedNetworks,omitempty"`
}

// SourceIdentity is who the hub is when it applies objects to the source cluster itself.
type SourceIdentity struct {
	// ServiceAccount is the service account for which the hub requests tokens. Its rights limit what classes with the
	// target type Source can apply.
	ServiceAccount ServiceAccount `json:"serviceAccount"`
}

// ServiceAccount names a service account of the source cluster. Both fields are required.
type ServiceAccount struct {
	// Namespace is that of the service account.
	Namespace string `json:"namespace"`
	// Name is that of the service account.
	Name string `json:"name"`
}
