package assignment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// SourceTarget is the key under which the source cluster itself is a target of the cluster cache.
var SourceTarget = clustercache.ClusterKey{Name: "source"}

// ResourceManagerLease is the name of the Lease that a Gardener resource manager renews in the namespace it serves.
const ResourceManagerLease = "gardener-resource-manager"

// Class is a configured class, ready for use.
type Class struct {
	// Name is the class as it stands in spec.class; empty for the default class.
	Name string
	// Target says where its ManagedResources go.
	Target configv1alpha1.ClassTarget
	// Selector chooses namespaces; nil matches none.
	Selector labels.Selector
	// Finalizer is what a ManagedResource of this class carries while it has objects.
	Finalizer string
	// ClusterID begins the origins of this class; empty for none.
	ClusterID string
	// DryRun plans and reports, and writes nothing.
	DryRun bool
}

// NewClass prepares a configured class. clusterID is used if the class has none of its own.
func NewClass(c configv1alpha1.Class, clusterID string) (*Class, error) {
	class := &Class{
		Name: Normalize(c.Name), Target: c.Target, Finalizer: resourcesv1alpha1.Finalizer(c.Name), ClusterID: clusterID,
		DryRun: c.DryRun,
	}
	if c.ClusterID != nil {
		class.ClusterID = *c.ClusterID
	}
	if c.NamespaceSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(c.NamespaceSelector)
		if err != nil {
			return nil, fmt.Errorf("class %q: namespaceSelector: %w", c.Name, err)
		}
		class.Selector = selector
	}
	return class, nil
}

// Normalize maps the names of the default class to the empty one.
func Normalize(class string) string {
	if class == resourcesv1alpha1.DefaultClassName {
		return resourcesv1alpha1.DefaultClass
	}
	return class
}

// ClassName is the name of a class for users and in metrics: that of the default class is not empty.
func ClassName(class string) string {
	if class == resourcesv1alpha1.DefaultClass {
		return resourcesv1alpha1.DefaultClassName
	}
	return class
}

// FixedTarget is the target of a class that has one for all its ManagedResources, empty for the others.
func (c *Class) FixedTarget() clustercache.ClusterKey {
	switch c.Target.Type {
	case configv1alpha1.TargetSource:
		return SourceTarget
	case configv1alpha1.TargetRegistration:
		return clustercache.ClusterKey{Namespace: c.Target.Namespace, Name: c.Target.Name}
	default:
		return clustercache.ClusterKey{}
	}
}

// Origin is the origin annotation of a ManagedResource in this class.
func (c *Class) Origin(mr types.NamespacedName) string {
	if c.ClusterID == "" {
		return mr.String()
	}
	return c.ClusterID + ":" + mr.String()
}

// Decision is what is to be done about a ManagedResource.
type Decision struct {
	// Class is the class under which it is worked on; nil if it is not ours.
	Class *Class
	// Leaving is true if it belongs to another class now: it is cleaned up and handed over.
	Leaving bool
	// AwaitFinalizer names the finalizer of another instance that has to finish first; empty if none.
	AwaitFinalizer string
	// ElsewhereUntil is when the Lease of a Gardener resource manager in the namespace expires; zero if there is none.
	ElsewhereUntil time.Time

	// Target is where it goes now. It is only set if HasTarget.
	Target    clustercache.ClusterKey
	HasTarget bool
	// Reason and Message say why there is no target: TargetNotFound or TargetAmbiguous.
	Reason, Message string
}

// Assigner takes decisions.
type Assigner struct {
	// Classes of this hub, by name.
	Classes map[string]*Class
	// Clusters knows the registrations.
	Clusters clustercache.ClusterCache
	// Reader reads Namespaces, Leases and TargetClusters of the source from informers.
	Reader client.Reader
	Clock  clock.PassiveClock
	// Began returns when the term began, zero if it did not; nil if that was long ago.
	Began func() time.Time

	leases leases
}

// Decide takes the decision for a ManagedResource.
func (c *Assigner) Decide(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) (Decision, error) {
	var d Decision
	wanted := c.Classes[SpecClass(mr)]
	marked := mr.Annotations[hubv1alpha1.TargetUIDAnnotation] != ""

	if marked {
		left, err := c.left(ctx, mr, wanted)
		if err != nil {
			return Decision{}, err
		}
		d.Class, d.Leaving = left, left != nil
	}
	if d.Class == nil {
		d.Class = wanted
	}
	if d.Class == nil {
		return Decision{}, nil
	}
	selected, err := c.selects(ctx, d.Class, mr.Namespace)
	if err != nil {
		return Decision{}, err
	}
	candidates := c.candidates(d.Class, mr.Namespace, selected)
	if !marked && !selected && len(candidates) == 0 {
		return Decision{}, nil
	}
	if d.Class.sharesFinalizer() {
		if d.ElsewhereUntil, err = c.ManagedElsewhere(ctx, mr.Namespace); err != nil {
			return Decision{}, err
		}
	}
	if !d.Leaving {
		for _, f := range mr.Finalizers {
			if strings.HasPrefix(f, resourcesv1alpha1.FinalizerBase) && f != d.Class.Finalizer {
				d.AwaitFinalizer = f
				break
			}
		}
	}
	d.choose(mr, candidates)
	return d, nil
}

// left returns the class of ours that a marked ManagedResource has to leave next, nil if there is none. If it carries
// the finalizers of several, that whose target got the objects comes first: under another one they would count as lost.
// Nothing is left while the objects are in a target of the class that it belongs to now.
func (c *Assigner) left(ctx context.Context, mr *resourcesv1alpha1.ManagedResource, wanted *Class) (*Class, error) {
	classes := c.Holders(mr)
	others := slices.DeleteFunc(slices.Clone(classes), func(class *Class) bool { return class == wanted })
	if len(others) == 0 || len(classes) == 1 {
		return first(others), nil
	}
	uid := types.UID(mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
	for _, class := range classes {
		_, found, err := c.FindUID(ctx, class, mr.Namespace, uid)
		switch {
		case err != nil:
			return nil, err
		case found && class == wanted:
			return nil, nil
		case found:
			return class, nil
		}
	}
	return first(others), nil
}

func first(classes []*Class) *Class {
	if len(classes) == 0 {
		return nil
	}
	return classes[0]
}

// Holders are the classes of this hub whose finalizers a ManagedResource carries, in the order of the finalizers.
func (c *Assigner) Holders(mr *resourcesv1alpha1.ManagedResource) []*Class {
	var out []*Class
	for _, f := range mr.Finalizers {
		for _, class := range c.Classes {
			if class.Finalizer == f {
				out = append(out, class)
			}
		}
	}
	return out
}

// SpecClass is the normalised class of a ManagedResource.
func SpecClass(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.Spec.Class == nil {
		return resourcesv1alpha1.DefaultClass
	}
	return Normalize(*mr.Spec.Class)
}

// choose picks the target among candidates.
func (d *Decision) choose(mr *resourcesv1alpha1.ManagedResource, candidates []clustercache.ClusterKey) {
	picked := ""
	if d.Class.Target.Type == configv1alpha1.TargetNamespace {
		picked = mr.Labels[hubv1alpha1.ClusterNameLabel]
	}
	if picked != "" {
		candidates = slices.DeleteFunc(candidates, func(k clustercache.ClusterKey) bool { return k.Name != picked })
	}
	switch {
	case len(candidates) == 1:
		d.Target, d.HasTarget = candidates[0], true
	case len(candidates) > 1:
		names := make([]string, 0, len(candidates))
		for _, k := range candidates {
			names = append(names, k.Name)
		}
		slices.Sort(names)
		d.Reason = resourcesv1alpha1.ReasonTargetAmbiguous
		d.Message = fmt.Sprintf(
			"Namespace %s has several registered targets for class %q: %s. The label %s on the ManagedResource picks one.",
			mr.Namespace, d.Class.Name, strings.Join(names, ", "), hubv1alpha1.ClusterNameLabel)
	default:
		d.Reason = resourcesv1alpha1.ReasonTargetNotFound
		d.Message = d.notFound(mr.Namespace, picked)
	}
}

func (d *Decision) notFound(namespace, picked string) string {
	switch t := d.Class.Target; {
	case t.Type == configv1alpha1.TargetRegistration:
		return fmt.Sprintf("The target of class %q, registration %s/%s, is not registered, or namespace %s is not selected for the class.", d.Class.Name, t.Namespace, t.Name, namespace)
	case t.Type == configv1alpha1.TargetSource:
		return fmt.Sprintf("Namespace %s is not selected for class %q.", namespace, d.Class.Name)
	case picked != "":
		return fmt.Sprintf("Namespace %s has no registered target %q for class %q: a Secret %s-kubeconfig with label %s=%s would be one.",
			namespace, picked, d.Class.Name, picked, hubv1alpha1.ClusterNameLabel, picked)
	default:
		return fmt.Sprintf("Namespace %s has no registered target for class %q.", namespace, d.Class.Name)
	}
}

// candidates are the targets that a ManagedResource of the class may reach from a namespace.
func (c *Assigner) candidates(class *Class, namespace string, selected bool) []clustercache.ClusterKey {
	switch class.Target.Type {
	case configv1alpha1.TargetSource:
		if selected {
			return []clustercache.ClusterKey{SourceTarget}
		}
	case configv1alpha1.TargetRegistration:
		key := clustercache.ClusterKey{Namespace: class.Target.Namespace, Name: class.Target.Name}
		if st, ok := c.Clusters.GetStatus(key); ok && selected && st.State != clustercache.StateDraining {
			return []clustercache.ClusterKey{key}
		}
	case configv1alpha1.TargetNamespace:
		var out []clustercache.ClusterKey
		for _, st := range c.Clusters.List(namespace) {
			if st.State != clustercache.StateDraining && Normalize(st.Labels[hubv1alpha1.ClassLabel]) == class.Name {
				out = append(out, st.Cluster)
			}
		}
		return out
	}
	return nil
}

// FindUID returns the target with a kube-system UID among those that a ManagedResource of the namespace may have
// reached under the class, draining ones included. A target that was not connected since the start is known by its
// TargetCluster, or by what was confirmed of its registration meanwhile.
func (c *Assigner) FindUID(ctx context.Context, class *Class, namespace string, uid types.UID) (
	clustercache.ClusterKey, bool, error) {
	if class.Target.Type == configv1alpha1.TargetNamespace {
		for _, st := range c.Clusters.List(namespace) {
			if is, err := c.isCluster(ctx, st, uid); err != nil || is {
				return st.Cluster, is, err
			}
		}
		return c.confirmed(namespace, uid)
	}
	selected, err := c.selects(ctx, class, namespace)
	if err != nil || !selected {
		return clustercache.ClusterKey{}, false, err
	}
	key := SourceTarget
	if class.Target.Type == configv1alpha1.TargetRegistration {
		key = clustercache.ClusterKey{Namespace: class.Target.Namespace, Name: class.Target.Name}
	}
	st, ok := c.Clusters.GetStatus(key)
	if !ok {
		return key, false, nil
	}
	is, err := c.isCluster(ctx, st, uid)
	return key, is, err
}

// confirmed finds a registration that was confirmed to lead to the cluster with a UID from now on, and was not followed
// yet: what is known of it is of the time before.
func (c *Assigner) confirmed(namespace string, uid types.UID) (clustercache.ClusterKey, bool, error) {
	for _, st := range c.Clusters.List(namespace) {
		if st.Annotations[hubv1alpha1.ConfirmIdentityAnnotation] == string(uid) &&
			(st.UID == "" || st.PendingSecretResourceVersion != "") {
			return st.Cluster, true, nil
		}
	}
	return clustercache.ClusterKey{}, false, nil
}

// FixedMayBe reports whether the fixed target of a class may be the cluster with a UID, whatever namespaces the class
// selects. Which cluster a target is that was never connected is unknown.
func (c *Assigner) FixedMayBe(ctx context.Context, class *Class, uid types.UID) (bool, error) {
	fixed := class.FixedTarget()
	st, ok := c.Clusters.GetStatus(fixed)
	if !ok || fixed == (clustercache.ClusterKey{}) {
		return false, nil
	}
	known, err := c.clusterUID(ctx, st)
	return err == nil && (known == "" || known == uid), err
}

// isCluster reports whether a registered target is the cluster with a UID.
func (c *Assigner) isCluster(ctx context.Context, st clustercache.Status, uid types.UID) (bool, error) {
	known, err := c.clusterUID(ctx, st)
	return err == nil && known == uid, err
}

// clusterUID is the UID of a registered target, empty if it is not known. Its TargetCluster knows it from before a
// restart.
func (c *Assigner) clusterUID(ctx context.Context, st clustercache.Status) (types.UID, error) {
	if st.UID != "" || st.Cluster.Namespace == "" {
		return st.UID, nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	if err := c.Reader.Get(ctx, st.Cluster, tc, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return "", fmt.Errorf("reading TargetCluster %s: %w", st.Cluster, err)
	}
	return tc.Status.ClusterUID, nil
}

// Selects reports whether a class is open for a namespace. If that cannot be determined, it is, so that nothing is
// dropped because of it.
func (c *Assigner) Selects(ctx context.Context, class *Class, namespace string) bool {
	selected, err := c.selects(ctx, class, namespace)
	return selected || err != nil
}

func (c *Assigner) selects(ctx context.Context, class *Class, namespace string) (bool, error) {
	if class.Selector == nil {
		return false, nil
	}
	ns := &corev1.Namespace{}
	if err := c.Reader.Get(ctx, types.NamespacedName{Name: namespace}, ns, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
	}
	return class.Selector.Matches(labels.Set(ns.Labels)), nil
}
