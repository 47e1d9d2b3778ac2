package control

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// Target is what there is to say of one.
type Target struct {
	Name        string          `json:"name"`
	Host        string          `json:"host"`
	UID         string          `json:"uid"`
	State       fleetsim.State  `json:"state"`
	Skew        metav1.Duration `json:"skew,omitzero"`
	Connections int             `json:"connections"`
	Objects     int             `json:"objects"`
	Faults      []fault.State   `json:"faults,omitempty"`
}

// Targets is the answer of calls that list targets.
type Targets struct {
	Targets []Target `json:"targets"`
}

// Done is the answer of calls that change targets.
type Done struct {
	// Targets are the names of those that were changed.
	Targets []string `json:"targets"`
}

// GetSecrets asks for registrations. One of Namespace and NamespacePrefix is required.
type GetSecrets struct {
	fleetsim.Selection
	// Namespace of all Secrets.
	Namespace string `json:"namespace,omitempty"`
	// NamespacePrefix gives each Secret a namespace of its own: the prefix and the target's name.
	NamespacePrefix string `json:"namespacePrefix,omitempty"`
}

// Secrets is the answer to GetSecrets.
type Secrets struct {
	Namespaces []corev1.Namespace `json:"namespaces"`
	Secrets    []corev1.Secret    `json:"secrets"`
}

// SetFault sets a fault.
type SetFault struct {
	fleetsim.Selection
	Fault fault.Fault `json:"fault"`
}

// ClearFaults clears faults.
type ClearFaults struct {
	fleetsim.Selection
	// Faults are IDs or kinds. Empty: all. What is no kind must be the ID of a fault of one of the targets.
	Faults []string `json:"faults,omitempty"`
}

// What can be rotated.
const (
	RotateToken              = "token"
	RotateClientCertificate  = "client-certificate"
	RotateServingCertificate = "serving-certificate"
	RotateCA                 = "ca"
)

// Rotate replaces credentials or certificates.
type Rotate struct {
	fleetsim.Selection
	// What is rotated: one of the constants.
	What string `json:"what"`
	// Revoke and Lifetime are those of fleetsim.Rotation.
	Revoke   bool            `json:"revoke,omitempty"`
	Lifetime metav1.Duration `json:"lifetime,omitzero"`
}

// Skew sets clocks wrong.
type Skew struct {
	fleetsim.Selection
	By metav1.Duration `json:"by"`
}

// What Do does.
const (
	Stop             = "stop"
	Start            = "start"
	Hibernate        = "hibernate"
	Replace          = "replace"           // another, empty cluster behind the same address
	Revoke           = "revoke"            // all credentials but the newest
	Compact          = "compact"           // older resourceVersions are expired: 410
	EndWatches       = "end-watches"       // as after their timeout
	ResetConnections = "reset-connections" // TCP resets
)

// Do does something to targets once.
type Do struct {
	fleetsim.Selection
	// What is done: one of the constants.
	What string `json:"what"`
}

// SetCRD lets a CustomResourceDefinition come or go.
type SetCRD struct {
	fleetsim.Selection
	// CRD is applied.
	CRD *unstructured.Unstructured `json:"crd,omitempty"`
	// Remove is the name of one that is deleted. One of both is required.
	Remove string `json:"remove,omitempty"`
}

// FailDiscovery lets the discovery of group versions fail until the next call.
type FailDiscovery struct {
	fleetsim.Selection
	// GroupVersions are like "apps/v1", and served by each of the targets. Empty: discovery is whole again.
	GroupVersions []string `json:"groupVersions,omitempty"`
}

// GetJournal asks for what was recorded, of one target or, if no names are given, of all.
type GetJournal struct {
	// Target is a name. Empty: all.
	Target string `json:"target,omitempty"`
	// Programs are those that checks judge, by the first word of their user agents. Empty: all writers.
	Programs []string `json:"programs,omitempty"`
	// Window is that of the checks for flapping and for two writers at a time. Zero: a minute.
	Window metav1.Duration `json:"window,omitzero"`
}

// Journal is the answer to GetJournal.
type Journal struct {
	Counts    journal.Counts    `json:"counts"`
	Latencies journal.Latencies `json:"latencies"`
	Verdicts  []journal.Verdict `json:"verdicts"`
	// Struck counts what faults have struck, by kind.
	Struck map[fault.Kind]uint64 `json:"struck,omitempty"`
}

// Stats is what the simulator itself takes.
type Stats struct {
	Targets     int   `json:"targets"`
	Objects     int   `json:"objects"`
	Connections int   `json:"connections"`
	Goroutines  int   `json:"goroutines"`
	Descriptors int   `json:"descriptors,omitempty"` // open files; 0: unknown
	HeapBytes   int64 `json:"heapBytes"`             // in use
	RSSBytes    int64 `json:"rssBytes,omitempty"`    // resident, of the whole process; 0: unknown
	MaxRSSBytes int64 `json:"maxRSSBytes"`           // the most it ever was
	// CPU is the time of all processors since the start.
	CPU metav1.Duration `json:"cpu"`
	// At is when this was so.
	At time.Time `json:"at"`
}

// failure is the answer to a request that is wrong.
type failure struct {
	Error string `json:"error"`
}
