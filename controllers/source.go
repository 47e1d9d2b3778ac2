package controllers

import (
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/intern"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
)

// SourceTarget is the key under which the source cluster itself is a target.
var SourceTarget = assignment.SourceTarget

// SourceObjects are what controllers watch in the source, and what the informers keep of it.
func SourceObjects(config *configv1alpha1.HubConfiguration, c clock.PassiveClock) map[client.Object]cache.ByObject {
	const lease = assignment.ResourceManagerLease
	return map[client.Object]cache.ByObject{
		&resourcesv1alpha1.ManagedResource{}: {Transform: trimManagedResources(c)},
		&hubv1alpha1.TargetCluster{}:         {},
		&corev1.Secret{}:                     registrations(config),
		&coordinationv1.Lease{}:              {Field: fields.OneTermEqualSelector("metadata.name", lease)},
		&corev1.Namespace{}:                  {Transform: trimNamespace},
	}
}

// SourceKinds are the kinds of SourceObjects.
func SourceKinds() []client.Object {
	return []client.Object{
		&resourcesv1alpha1.ManagedResource{}, &hubv1alpha1.TargetCluster{}, &corev1.Secret{}, &coordinationv1.Lease{},
		&corev1.Namespace{},
	}
}

// registrations says which Secrets are kept: registrations that the configuration selects, and only in namespaces that
// some class needs. Elsewhere the hub may have no right to look for them.
func registrations(config *configv1alpha1.HubConfiguration) cache.ByObject {
	options := clustercache.SecretCacheOptions()
	requirements, _ := RegistrationSelector(config).Requirements()
	options.Label = options.Label.Add(requirements...)
	for _, namespace := range configv1alpha1.SecretNamespaces(config.Classes) {
		if options.Namespaces == nil {
			options.Namespaces = map[string]cache.Config{}
		}
		options.Namespaces[namespace] = cache.Config{}
	}
	return options
}

// RegistrationSelector returns which registrations a valid configuration selects, by the labels of their Secrets.
func RegistrationSelector(config *configv1alpha1.HubConfiguration) labels.Selector {
	if config.ClusterCache.RegistrationSelector == nil {
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(config.ClusterCache.RegistrationSelector)
	if err != nil {
		panic(err) // the configuration is a valid one
	}
	return selector
}

// internSize is how many different texts of ManagedResources are interned: about as many as there are in the
// inventories of 100 targets that have nothing in common.
const internSize = 100_000

// trimManagedResources interns the texts of ManagedResources: a thousand targets have nearly the same.
func trimManagedResources(c clock.PassiveClock) toolscache.TransformFunc {
	table := intern.New(internSize, c)
	return func(obj any) (any, error) {
		if mr, ok := obj.(*resourcesv1alpha1.ManagedResource); ok {
			trimManagedResource(mr)
			table.ManagedResource(mr)
		}
		return obj, nil
	}
}

// Bounds of the parts of a ManagedResource that are kept. Tenants may write anything into one, up to 1.5 MiB, and short
// entries take several times as much in memory as in the source. What the hub writes stays below the bounds.
const (
	keptAnnotation = 4 << 10 // bytes of a value
	keptConditions = 64
	keptEntries    = 20_000 // of the inventory, of which the hub writes at most 1 MiB
)

// trimManagedResource drops what the hub does not use: the hub writes changes only, so that nothing is lost by that.
func trimManagedResource(mr *resourcesv1alpha1.ManagedResource) {
	mr.ManagedFields = nil
	maps.DeleteFunc(mr.Annotations, func(name, value string) bool {
		return name == corev1.LastAppliedConfigAnnotation || len(value) > keptAnnotation
	})
	references.Trim(mr)
	if s := &mr.Status; len(s.Conditions) > keptConditions {
		s.Conditions = slices.Clone(s.Conditions[:keptConditions])
	}
	if s := &mr.Status; len(s.Resources) > keptEntries {
		s.Resources = slices.Clone(s.Resources[:keptEntries])
	}
}

// trimNamespace keeps what is looked at: labels. Namespaces are small enough to be watched whole, and the metadata
// watch of controller-runtime loses a goroutine whenever it ends while an event is under way.
func trimNamespace(obj any) (any, error) {
	if ns, ok := obj.(*corev1.Namespace); ok {
		ns.ManagedFields, ns.Annotations, ns.Spec, ns.Status = nil, nil, corev1.NamespaceSpec{}, corev1.NamespaceStatus{}
	}
	return obj, nil
}
