package tokenrequestor

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// hubClass is the class of ManagedResources that a registration serves.
func hubClass(status clustercache.Status) string {
	class := status.Labels[hubv1alpha1.ClassLabel]
	if class == resourcesv1alpha1.DefaultClassName {
		return resourcesv1alpha1.DefaultClass
	}
	return class
}

// isFor reports whether an access Secret of the namespace of a target is for this target: it picks it by its label, or
// there is no other one that it could be for. Other ones are those of the same class of the hub, as for
// ManagedResources, and those whose settings make them responsible, too: two targets must not contend for a Secret.
func (r *reconciler) isFor(target *multicluster.Target, secret *corev1.Secret) bool {
	a := assign(target.Status, secret, r.clusters.List(target.Namespace()), r.settings)
	if a.fault != nil && a.first {
		target.Warn(secret, a.fault.reason, actionAssign, a.fault.message)
	}
	return a.mine
}

// assignment says whether an access Secret is for a target.
type assignment struct {
	mine bool
	// fault says that it is for none, nil if it is for another one. first is true for the first target by name of those
	// that it could be for, which says what is wrong.
	fault *inputError
	first bool
}

// assign decides whether an access Secret is for a target. all are the registered targets of its namespace.
func assign(target clustercache.Status, secret *corev1.Secret, all []clustercache.Status,
	settingsOf func(clustercache.Status) (Settings, bool)) assignment {
	namespace := target.Cluster.Namespace
	picked := secret.Labels[hubv1alpha1.ClusterNameLabel]
	if picked == target.Cluster.Name {
		return assignment{mine: true}
	}
	var others int
	first, exists := true, false
	for _, status := range all {
		key := status.Cluster
		if key == target.Cluster || status.State == clustercache.StateDraining {
			continue
		}
		exists = exists || key.Name == picked
		settings, on := settingsOf(status)
		if hubClass(status) != hubClass(target) && (!on || !relevant(secret, settings.Class)) {
			continue
		}
		others++
		first = first && target.Cluster.Name < key.Name
	}
	switch {
	case picked == "" && others == 0:
		return assignment{mine: true}
	case picked == "":
		return assignment{first: first, fault: &inputError{reasonAmbiguous, fmt.Sprintf("Namespace %s has several "+
			"registered targets. The label %s on the Secret picks one.", namespace, hubv1alpha1.ClusterNameLabel)}}
	case !exists:
		return assignment{first: first, fault: &inputError{reasonNotFound, fmt.Sprintf("Namespace %s has no registered "+
			"target %q, which the label %s picks.", namespace, untrusted.Text(picked, shownValue),
			hubv1alpha1.ClusterNameLabel)}}
	}
	return assignment{}
}
