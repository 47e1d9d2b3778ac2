package listing

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Entry is what a list keeps of a ManagedResource.
type Entry struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Class is empty for the default class.
	Class string `json:"class,omitempty"`
	// Cluster is the label that picks a target, TargetUID the UID of the cluster that has its objects. Both may be empty.
	Cluster   string `json:"-"`
	TargetUID string `json:"-"`
	// Ready, Applied, Healthy, Progressing and Contested are the status of the conditions, empty if there are none.
	Ready       string `json:"ready,omitempty"`
	Applied     string `json:"applied,omitempty"`
	Healthy     string `json:"healthy,omitempty"`
	Progressing string `json:"progressing,omitempty"`
	Contested   string `json:"contested,omitempty"`
	// Reason and Message are those of the condition Ready, Since is for how long it has had its status, as "10m".
	Reason  string `json:"reason,omitempty"`
	Since   string `json:"since,omitempty"`
	Message string `json:"message,omitempty"`
	// Suspended is true if the hub does not reconcile it, Deleting if it is being deleted.
	Suspended bool `json:"suspended,omitempty"`
	Deleting  bool `json:"deleting,omitempty"`
	// Created is when it was created.
	Created time.Time `json:"created"`
}

// Key is namespace/name.
func (e *Entry) Key() string { return e.Namespace + "/" + e.Name }

// Reasons that no condition has.
const (
	ReasonSuspended = resourcesv1alpha1.ReasonManagedResourceIgnored
	ReasonNotSeen   = "NotSeen"
)

// Cause is the reason of its problem, empty if it has none. The hub does not judge one that is suspended.
func (e *Entry) Cause() string {
	switch {
	case e.Suspended && !e.Deleting:
		return ReasonSuspended
	case e.Ready == "" && e.Applied == "":
		return ReasonNotSeen
	case e.Ready == "True" && e.Contested != "True":
		return ""
	case e.Ready == "True":
		return resourcesv1alpha1.ReasonObjectsContested
	}
	return e.Reason
}

// severity is the order of entries, the worst first.
func (e *Entry) severity() int {
	switch {
	case e.Suspended && !e.Deleting:
		return 4
	case e.Ready == "False":
		return 0
	case e.Ready != "True":
		return 1
	case e.Contested == "True":
		return 2
	}
	return 5
}

// Sort puts the worst first, and those that are as bad as each other in the order of their names.
func Sort(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.severity(), b.severity()), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
}

// Of returns the entry of a whole ManagedResource.
func Of(mr *resourcesv1alpha1.ManagedResource, now time.Time) Entry {
	e := Entry{
		Namespace: mr.Namespace, Name: mr.Name, Cluster: mr.Labels[hubv1alpha1.ClusterNameLabel],
		TargetUID: mr.Annotations[hubv1alpha1.TargetUIDAnnotation],
		Suspended: resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]),
		Deleting:  mr.DeletionTimestamp != nil, Created: mr.CreationTimestamp.Time,
	}
	if mr.Spec.Class != nil {
		e.Class = *mr.Spec.Class
	}
	for i := range mr.Status.Conditions {
		c := &mr.Status.Conditions[i]
		switch c.Type {
		case resourcesv1alpha1.ConditionReady:
			e.Ready, e.Reason, e.Message = string(c.Status), c.Reason, c.Message
			e.Since = age(c.LastTransitionTime, now)
		case resourcesv1alpha1.ConditionResourcesApplied:
			e.Applied = string(c.Status)
		case resourcesv1alpha1.ConditionResourcesHealthy:
			e.Healthy = string(c.Status)
		case resourcesv1alpha1.ConditionResourcesProgressing:
			e.Progressing = string(c.Status)
		case resourcesv1alpha1.ConditionContested:
			e.Contested = string(c.Status)
		}
	}
	return e
}

// age is the time since something, in the format of the API server's tables.
func age(since metav1.Time, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(since.Time))
}
