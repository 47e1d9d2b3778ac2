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

// isFor tells whether an access Secret of the namespace of a target is for this target: it picks it by its label, or
// there is no other one that it could be for. Other ones are those of the same class of the hub, as for
// ManagedResources, and those whose settings make them responsible, too: two targets must not contend for a Secret.
func (r *reconciler) isFor(target *multicluster.Target, secret *corev1.Secret) bool {
	picked := secret.Labels[hubv1alpha1.ClusterNameLabel]
	if picked == target.Key().Name {
		return true
	}
	var others int
	first, exists := true, false // whether target is the first one by name, which says what is wrong
	for _, status := range r.clusters.List(target.Namespace()) {
		key := status.Cluster
		if key == target.Key() || status.State == clustercache.StateDraining {
			continue
		}
		exists = exists || key.Name == picked
		settings, on := r.settings(status)
		if hubClass(status) != hubClass(target.Status) && (!on || !relevant(secret, settings.Class)) {
			continue
		}
		others++
		first = first && target.Key().Name < key.Name
	}
	switch {
	case picked == "" && others == 0:
		return true
	case picked == "" && first:
		target.Warn(secret, reasonAmbiguous, actionAssign, fmt.Sprintf("Namespace %s has several registered targets. The "+
			"label %s on the Secret picks one.", target.Namespace(), hubv1alpha1.ClusterNameLabel))
	case picked != "" && !exists && first:
		target.Warn(secret, reasonNotFound, actionAssign, fmt.Sprintf("Namespace %s has no registered target %q, which the "+
			"label %s picks.", target.Namespace(), untrusted.Text(picked, shownValue), hubv1alpha1.ClusterNameLabel))
	}
	return false
}
