package diagnosis

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// Facts are the objects from which a cause is found. Those that the user may not read are missing.
type Facts struct {
	Now time.Time
	// Namespace and Name say what it is about.
	Namespace, Name string
	// Heartbeat is that of the hub.
	Heartbeat cli.Heartbeat

	// ManagedResource is what it is about, if it is about one; nil if there is none.
	ManagedResource *resourcesv1alpha1.ManagedResource
	// Cluster is the TargetCluster: what it is about, or where the ManagedResource goes.
	Cluster *hubv1alpha1.TargetCluster
	// Classes are those of the registrations of the namespace of a ManagedResource without a target, by name.
	Classes map[string]string
	// TargetKnown is false if it could not be found out where the ManagedResource goes.
	TargetKnown bool
	// Source is true if the ManagedResource goes to the source cluster.
	Source bool
	// Registration is the Secret of the cluster; nil if there is none, and RegistrationKnown is false if it could not be
	// read.
	Registration      *corev1.Secret
	RegistrationKnown bool
}

// UID is that of what it is about, "" if there is none.
func (f *Facts) UID() types.UID {
	switch {
	case f.ManagedResource != nil:
		return f.ManagedResource.UID
	case f.Cluster != nil:
		return f.Cluster.UID
	}
	return ""
}
