package members

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Concerned returns the targets whose conditions a change of a ManagedResource may affect, none if it is only about
// details. Either state may be nil. clusters returns the targets that are the cluster with a UID.
func (i *Index) Concerned(before, after *resourcesv1alpha1.ManagedResource, clusters func(
	types.UID) []clustercache.ClusterKey) []clustercache.ClusterKey {
	if before != nil && after != nil && gistOf(before) == gistOf(after) {
		return nil
	}
	var targets []clustercache.ClusterKey
	var beside registrations
	for _, mr := range []*resourcesv1alpha1.ManagedResource{before, after} {
		if mr != nil {
			if beside == nil {
				beside = i.registrations(mr.Namespace) // that of both
			}
			targets = append(targets, i.targets(mr, clusters, beside)...)
		}
	}
	return targets
}

// targets are those that a ManagedResource is a member of, or may be.
func (i *Index) targets(mr *resourcesv1alpha1.ManagedResource, clusters func(types.UID) []clustercache.ClusterKey,
	beside registrations) []clustercache.ClusterKey {
	name, uid := classOf(mr), mr.Annotations[hubv1alpha1.TargetUIDAnnotation]
	c := i.classes[name]
	switch picked := pick(mr); {
	case c.Target.Type == configv1alpha1.TargetRegistration:
		if !i.reaches(context.Background(), c, mr.Namespace) {
			return nil
		}
		return []clustercache.ClusterKey{{Namespace: c.Target.Namespace, Name: c.Target.Name}}
	case uid != "" && c.Target.Type != configv1alpha1.TargetSource:
		return inNamespace(clusters(types.UID(uid)), mr.Namespace)
	case picked != "":
		return []clustercache.ClusterKey{{Namespace: mr.Namespace, Name: picked}}
	default:
		if c.Target.Type == configv1alpha1.TargetSource {
			name = resourcesv1alpha1.DefaultClass
		}
		if only, found := beside.only(name); found {
			return []clustercache.ClusterKey{only}
		}
		return nil
	}
}

func inNamespace(keys []clustercache.ClusterKey, namespace string) []clustercache.ClusterKey {
	var out []clustercache.ClusterKey
	for _, key := range keys {
		if key.Namespace == namespace {
			out = append(out, key)
		}
	}
	return out
}

// gist is what a target's status depends on, but for the wording of messages.
type gist struct {
	uid                        string
	class, picked, careType    string
	deleting, ignored, current bool
	applied, healthy, progress resourcesv1alpha1.ConditionStatus
	ready                      resourcesv1alpha1.ConditionStatus
	readyReason, healthyReason string
	objects                    int
	progressSince              int64
}

func gistOf(mr *resourcesv1alpha1.ManagedResource) gist {
	g := gist{
		uid:   mr.Annotations[hubv1alpha1.TargetUIDAnnotation],
		class: classOf(mr), picked: pick(mr), careType: mr.Labels[hubv1alpha1.CareConditionTypeLabel],
		deleting: mr.DeletionTimestamp != nil, ignored: resourcesv1alpha1.IsTruthy(
			mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]),
		current: mr.Status.ObservedGeneration == mr.Generation, objects: len(mr.Status.Resources),
	}
	for _, c := range mr.Status.Conditions {
		switch c.Type {
		case resourcesv1alpha1.ConditionResourcesApplied:
			g.applied = c.Status
		case resourcesv1alpha1.ConditionResourcesHealthy:
			g.healthy, g.healthyReason = c.Status, c.Reason
		case resourcesv1alpha1.ConditionResourcesProgressing:
			g.progress, g.progressSince = c.Status, c.LastTransitionTime.Unix()
		case resourcesv1alpha1.ConditionReady:
			g.ready, g.readyReason = c.Status, c.Reason
		}
	}
	return g
}
