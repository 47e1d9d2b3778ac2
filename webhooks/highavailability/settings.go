package highavailability

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	prefix = "high-availability-config.resources.gardener.cloud/"

	// considerLabel, "true" on a namespace, has its workloads looked at.
	considerLabel = prefix + "consider"
	// skipLabel of an object, of whatever value, leaves it as it is.
	skipLabel = prefix + "skip"
	// typeLabel of an object says what it is: typeController, or a server.
	typeLabel      = prefix + "type"
	typeController = "controller"

	// toleranceAnnotation of a namespace says what has to be tolerated: "zone", "node" or nothing.
	toleranceAnnotation = prefix + "failure-tolerance-type"
	toleranceZone       = "zone"
	// zonesAnnotation of a namespace are the zones that its pods can be in, with commas between.
	zonesAnnotation = prefix + "zones"
	// pinningAnnotation of a namespace, truthy, keeps pods in these zones whatever has to be tolerated.
	pinningAnnotation = prefix + "zone-pinning"
	// replicasAnnotation of an object is how many replicas it has, in place of what follows from its type.
	replicasAnnotation = prefix + "replicas"
	// hostSpreadAnnotation of an object, truthy, spreads it over nodes whatever has to be tolerated.
	hostSpreadAnnotation = prefix + "host-spread"
)

// demand is what a namespace asks for.
type demand struct {
	// tolerance is nil if nothing is said. It can be empty, which means that nothing has to be tolerated.
	tolerance *string
	zones     []string
	pinned    bool
}

func demandOf(namespace *metav1.PartialObjectMetadata) demand {
	d := demand{
		zones:  zonesOf(namespace.Annotations[zonesAnnotation]),
		pinned: resourcesv1alpha1.IsTruthy(namespace.Annotations[pinningAnnotation]),
	}
	if tolerance, is := namespace.Annotations[toleranceAnnotation]; is {
		d.tolerance = &tolerance
	}
	return d
}

// zonesOf are the zones of an annotation, each once and sorted. Blanks are part of their names.
func zonesOf(annotation string) []string {
	zones := slices.DeleteFunc(strings.Split(annotation, ","), func(zone string) bool { return zone == "" })
	slices.Sort(zones)
	return slices.Compact(zones)
}

// tolerates reports whether the failure of something has to be tolerated.
func (d demand) tolerates() bool { return d.tolerance != nil && *d.tolerance != "" }

// confined reports whether pods have to be in the zones of the namespace.
func (d demand) confined() bool { return len(d.zones) > 0 && (d.tolerance != nil || d.pinned) }

// spreadOverZones reports whether pods are spread over the zones of the namespace.
func (d demand) spreadOverZones() bool {
	return len(d.zones) > 1 && (d.tolerance == nil || *d.tolerance == toleranceZone)
}

func isTruthy(object *metav1.ObjectMeta, annotation string) bool {
	return resourcesv1alpha1.IsTruthy(object.Annotations[annotation])
}
