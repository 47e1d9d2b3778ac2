package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// HeartbeatLimit is the maximum age of the heartbeat of a working hub.
const HeartbeatLimit = 40 * time.Second

// HubFlags are the flags for the place of the hub in the source cluster.
type HubFlags struct {
	// Namespace is that of the hub, Lease the one that it renews as its heartbeat.
	Namespace string
	Lease     string
}

// AddFlags adds the flags.
func (f *HubFlags) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Namespace, "hub-namespace", "trellis", "Namespace of the hub, where its heartbeat is.")
	cmd.Flags().StringVar(&f.Lease, "hub-lease", "trellis-heartbeat",
		"Name of the Lease that the hub renews as its heartbeat.")
}

// Heartbeat is the content of the Lease of a hub.
type Heartbeat struct {
	// Known is false if the Lease does not exist or may not be read; Problem is the reason.
	Known   bool   `json:"known"`
	Problem string `json:"problem,omitempty"`
	// Working is true if it was renewed within HeartbeatLimit.
	Working bool `json:"working"`
	// Leader is the replica that leads, LeadsSince since when, and Renewed the time of its last heartbeat.
	Leader     string     `json:"leader,omitempty"`
	LeadsSince *time.Time `json:"leadsSince,omitempty"`
	Renewed    *time.Time `json:"renewed,omitempty"`
	// Version is that of the leader, empty for a hub that does not report it.
	Version string `json:"version,omitempty"`
	// RegistrationSelector selects the Secrets that register clusters, by their labels, as text. Empty: all of them, or
	// the Lease is not known.
	RegistrationSelector string `json:"registrationSelector,omitempty"`
	// Lease is the key of the Lease.
	Lease client.ObjectKey `json:"-"`
}

// Read reads the heartbeat. It fails only if the source does not answer.
func (f *HubFlags) Read(ctx context.Context, source *Source, now time.Time) (Heartbeat, error) {
	key := client.ObjectKey{Namespace: f.Namespace, Name: f.Lease}
	lease := &coordinationv1.Lease{}
	err := source.Get(ctx, key, lease)
	switch {
	case err == nil && lease.Spec.RenewTime == nil:
		return Heartbeat{Problem: "the Lease " + key.String() + " was never renewed"}, nil
	case err == nil:
	case IsUnreachable(err):
		return Heartbeat{}, err
	case ExitCode(err) == ExitNotFound:
		return Heartbeat{Problem: "there is no Lease " + key.String()}, nil
	default:
		return Heartbeat{Problem: err.Error()}, nil
	}
	h := Heartbeat{Known: true, Lease: key, Renewed: &lease.Spec.RenewTime.Time,
		Version:              lease.Annotations[hubv1alpha1.VersionAnnotation],
		RegistrationSelector: lease.Annotations[hubv1alpha1.RegistrationSelectorAnnotation]}
	h.Working = now.Sub(*h.Renewed) <= HeartbeatLimit
	if holder := lease.Spec.HolderIdentity; holder != nil {
		h.Leader = *holder
	}
	if acquired := lease.Spec.AcquireTime; acquired != nil {
		h.LeadsSince = &acquired.Time
	}
	return h, nil
}

// Registrations selects the Secrets that register clusters. It selects all if the hub has no selector, or if that is
// not known.
func (h *Heartbeat) Registrations() labels.Selector {
	selector, err := labels.Parse(h.RegistrationSelector)
	if err != nil {
		return labels.Everything() // not written by a hub
	}
	return selector
}

// Registers reports whether a Secret with some labels registers a cluster, as far as the selector of the hub decides.
func (h *Heartbeat) Registers(secret map[string]string) bool {
	return h.Registrations().Matches(labels.Set(secret))
}
