package convert

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	grmGroup      = "resourcemanager.config.gardener.cloud"
	grmAPIVersion = grmGroup + "/v1alpha1"
	grmKind       = "ResourceManagerConfiguration"
)

// configuration is that of a resource manager, of today's version and of older ones. A field is nil if the file does
// not say anything.
type configuration struct {
	metav1.TypeMeta `json:",inline"`

	SourceClientConnection clientConnection  `json:"sourceClientConnection"`
	TargetClientConnection *clientConnection `json:"targetClientConnection"`
	LeaderElection         leaderElection    `json:"leaderElection"`
	Server                 server            `json:"server"`
	Debugging              debugging         `json:"debugging"`
	LogLevel               *string           `json:"logLevel"`
	LogFormat              *string           `json:"logFormat"`
	Controllers            controllers       `json:"controllers"`
	Webhooks               webhooks          `json:"webhooks"`
}

type clientConnection struct {
	Kubeconfig          *string          `json:"kubeconfig"`
	AcceptContentTypes  *string          `json:"acceptContentTypes"`
	ContentType         *string          `json:"contentType"`
	QPS                 *float32         `json:"qps"`
	Burst               *int32           `json:"burst"`
	CacheResyncPeriod   *metav1.Duration `json:"cacheResyncPeriod"`
	Namespaces          []string         `json:"namespaces"`
	Namespace           *string          `json:"namespace"`           // older: one of them
	DisableCachedClient *bool            `json:"disableCachedClient"` // older
}

type leaderElection struct {
	LeaderElect       *bool            `json:"leaderElect"`
	LeaseDuration     *metav1.Duration `json:"leaseDuration"`
	RenewDeadline     *metav1.Duration `json:"renewDeadline"`
	RetryPeriod       *metav1.Duration `json:"retryPeriod"`
	ResourceLock      *string          `json:"resourceLock"`
	ResourceName      *string          `json:"resourceName"`
	ResourceNamespace *string          `json:"resourceNamespace"`
}

type server struct {
	Webhooks     *webhookServer `json:"webhooks"`
	HealthProbes *endpoint      `json:"healthProbes"`
	Metrics      *endpoint      `json:"metrics"`
}

type webhookServer struct {
	endpoint `json:",inline"`

	TLS struct {
		ServerCertDir *string `json:"serverCertDir"`
	} `json:"tls"`
}

type endpoint struct {
	BindAddress *string `json:"bindAddress"`
	Port        *int32  `json:"port"`
}

type debugging struct {
	EnableProfiling           *bool `json:"enableProfiling"`
	EnableContentionProfiling *bool `json:"enableContentionProfiling"`
}

type controllers struct {
	ClusterID        *string          `json:"clusterID"`
	ResourceClass    *string          `json:"resourceClass"`
	CacheSyncTimeout *metav1.Duration `json:"cacheSyncTimeout"`
	ManagedResource  managedResource  `json:"managedResource"`
	Health           *health          `json:"health"`

	GarbageCollector             *garbageCollector             `json:"garbageCollector"`
	CSRApprover                  *csrApprover                  `json:"csrApprover"`
	KubeletCSRApprover           *csrApprover                  `json:"kubeletCSRApprover"` // older: the same
	TokenRequestor               *workers                      `json:"tokenRequestor"`
	NetworkPolicy                *networkPolicy                `json:"networkPolicy"`
	NodeCriticalComponents       *nodeCriticalComponents       `json:"nodeCriticalComponents"`
	Node                         *nodeCriticalComponents       `json:"node"` // older: the same
	NodeAgentReconciliationDelay *nodeAgentReconciliationDelay `json:"nodeAgentReconciliationDelay"`
	IstioClusterConfiguration    *workers                      `json:"istioClusterConfiguration"`
	TokenInvalidator             *workers                      `json:"tokenInvalidator"`
	TokenValidator               *workers                      `json:"tokenValidator"`  // what documentation calls it
	RootCAPublisher              *rootCAPublisher              `json:"rootCAPublisher"` // older
	Secret                       *workers                      `json:"secret"`          // older
}

type managedResource struct {
	ConcurrentSyncs     *int             `json:"concurrentSyncs"`
	SyncPeriod          *metav1.Duration `json:"syncPeriod"`
	AlwaysUpdate        *bool            `json:"alwaysUpdate"`
	ManagedByLabelValue *string          `json:"managedByLabelValue"`
}

type health struct {
	ConcurrentSyncs *int             `json:"concurrentSyncs"`
	SyncPeriod      *metav1.Duration `json:"syncPeriod"`
}

// workers are the only settings of several controllers.
type workers struct {
	Enabled         *bool  `json:"enabled"`
	ConcurrentSyncs *int32 `json:"concurrentSyncs"`
}

type garbageCollector struct {
	Enabled    *bool            `json:"enabled"`
	SyncPeriod *metav1.Duration `json:"syncPeriod"`
}

type csrApprover struct {
	workers `json:",inline"`

	MachineNamespace *string `json:"machineNamespace"`
}

type networkPolicy struct {
	workers `json:",inline"`

	NamespaceSelectors        []metav1.LabelSelector     `json:"namespaceSelectors"`
	IngressControllerSelector *ingressControllerSelector `json:"ingressControllerSelector"`
}

type ingressControllerSelector struct {
	Namespace   string               `json:"namespace"`
	PodSelector metav1.LabelSelector `json:"podSelector"`
}

type nodeCriticalComponents struct {
	workers `json:",inline"`

	Backoff *metav1.Duration `json:"backoff"`
}

type nodeAgentReconciliationDelay struct {
	Enabled  *bool            `json:"enabled"`
	MinDelay *metav1.Duration `json:"minDelay"`
	MaxDelay *metav1.Duration `json:"maxDelay"`
}

type rootCAPublisher struct {
	workers `json:",inline"`

	RootCAFile *string `json:"rootCAFile"`
}

type webhooks struct {
	CRDDeletionProtection         *switched               `json:"crdDeletionProtection"`
	EndpointSliceHints            *switched               `json:"endpointSliceHints"`
	ExtensionValidation           *switched               `json:"extensionValidation"`
	HighAvailabilityConfig        *highAvailabilityConfig `json:"highAvailabilityConfig"`
	KubernetesServiceHost         *kubernetesServiceHost  `json:"kubernetesServiceHost"`
	NodeAgentAuthorizer           *nodeAgentAuthorizer    `json:"nodeAgentAuthorizer"`
	PodKubeAPIServerLoadBalancing *switched               `json:"podKubeAPIServerLoadBalancing"`
	PodSchedulerName              *podSchedulerName       `json:"podSchedulerName"`
	PodTopologySpreadConstraints  *switched               `json:"podTopologySpreadConstraints"`
	ProjectedTokenMount           *projectedTokenMount    `json:"projectedTokenMount"`
	SeccompProfile                *switched               `json:"seccompProfile"`
	SystemComponentsConfig        *systemComponentsConfig `json:"systemComponentsConfig"`
	TokenInvalidator              *switched               `json:"tokenInvalidator"`
	TokenValidator                *switched               `json:"tokenValidator"`
	VPAInPlaceUpdates             *switched               `json:"vpaInPlaceUpdates"`
}

type switched struct {
	Enabled *bool `json:"enabled"`
}

type highAvailabilityConfig struct {
	switched `json:",inline"`

	DefaultNotReadyTolerationSeconds    *int64 `json:"defaultNotReadyTolerationSeconds"`
	DefaultUnreachableTolerationSeconds *int64 `json:"defaultUnreachableTolerationSeconds"`
}

type kubernetesServiceHost struct {
	switched `json:",inline"`

	Host *string `json:"host"`
}

type nodeAgentAuthorizer struct {
	switched `json:",inline"`

	MachineNamespace       *string `json:"machineNamespace"`
	AuthorizeWithSelectors *bool   `json:"authorizeWithSelectors"`
}

type podSchedulerName struct {
	switched `json:",inline"`

	SchedulerName *string `json:"schedulerName"`
}

type projectedTokenMount struct {
	switched `json:",inline"`

	ExpirationSeconds *int64 `json:"expirationSeconds"`
}

type systemComponentsConfig struct {
	switched `json:",inline"`

	NodeSelector    map[string]string   `json:"nodeSelector"`
	PodNodeSelector map[string]string   `json:"podNodeSelector"`
	PodTolerations  []corev1.Toleration `json:"podTolerations"`
}
