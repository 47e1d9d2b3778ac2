package members

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
)

// field is the name of the index.
const field = "hub.gardener.cloud/target"

// Keys of the index, one type for each kind. They hold claims of the ManagedResource, which prove nothing: Of finds
// those that count.
type (
	// byUID is the UID of the cluster that has the objects.
	byUID types.UID
	// byPick is the class, and the name of the target if one is picked: not applied yet.
	byPick struct{ class, name string }
	// byClass is a class that has a fixed registration.
	byClass string
	// onSource is the name of the target, if one is picked: applied to the source cluster.
	onSource string
)

// indexed is a key of the index as an informer needs it. Keys of different kinds are never equal, whatever is in them.
type indexed interface{ index() string }

func (k byUID) index() string    { return fmt.Sprintf("uid %q", string(k)) }
func (k byPick) index() string   { return fmt.Sprintf("pick %q %q", k.class, k.name) }
func (k byClass) index() string  { return fmt.Sprintf("class %q", string(k)) }
func (k onSource) index() string { return fmt.Sprintf("source %q", string(k)) }

// class is what matters of a configured class.
type class struct {
	configv1alpha1.Class
	selector labels.Selector // nil selects nothing
}

// Informers has the ManagedResources and Namespaces of the source cluster. A cache.Cache is one.
type Informers interface {
	client.Reader
	client.FieldIndexer
}

// Index finds ManagedResources. It lives as long as the process.
type Index struct {
	informers Informers
	clusters  clustercache.ClusterCache
	classes   map[string]class
	clock     clock.PassiveClock
}

// New returns an index of which the informers know nothing yet: until Register, nothing is found, and whatever may be
// in use counts as in use. The clock is that of the cluster cache's states.
func New(informers Informers, clusters clustercache.ClusterCache, classes []configv1alpha1.Class,
	clock clock.PassiveClock) (*Index, error) {
	i := &Index{informers: informers, clusters: clusters, classes: map[string]class{}, clock: clock}
	for _, c := range classes {
		known := class{Class: c}
		if c.NamespaceSelector != nil {
			selector, err := metav1.LabelSelectorAsSelector(c.NamespaceSelector)
			if err != nil {
				return nil, fmt.Errorf("class %q: namespaceSelector: %w", c.Name, err)
			}
			known.selector = selector
		}
		i.classes[normalize(c.Name)] = known
	}
	return i, nil
}

// Register has the informer of ManagedResources keep the index. That can be done once for each informer.
func (i *Index) Register(ctx context.Context) error {
	for name, keys := range map[string]client.IndexerFunc{field: i.keys, uidField: uidOf} {
		if err := i.informers.IndexField(ctx, &resourcesv1alpha1.ManagedResource{}, name, keys); err != nil {
			return fmt.Errorf("indexing ManagedResources by %s: %w", name, err)
		}
	}
	return nil
}

// keys are those of a ManagedResource, one or none.
func (i *Index) keys(obj client.Object) []string {
	mr, ok := obj.(*resourcesv1alpha1.ManagedResource)
	if !ok {
		return nil
	}
	name, uid := classOf(mr), mr.Annotations[hubv1alpha1.TargetUIDAnnotation]
	c, configured := i.classes[name]
	switch {
	case uid == "" && (!configured || c.DryRun):
		return nil
	case c.Target.Type == configv1alpha1.TargetSource:
		return []string{onSource(pick(mr)).index()}
	case c.Target.Type == configv1alpha1.TargetRegistration:
		return []string{byClass(name).index()}
	case uid != "":
		return []string{byUID(uid).index()}
	default:
		return []string{byPick{name, pick(mr)}.index()}
	}
}

// Of returns the ManagedResources of a target, which is known to be the cluster with a UID; empty if that is unknown.
// others are targets that are the same cluster. With appliedOnly, those are left out that the hub has never applied.
func (i *Index) Of(ctx context.Context, target clustercache.ClusterKey, uid types.UID, others []clustercache.ClusterKey,
	appliedOnly bool) ([]care.Member, error) {
	q := query{Index: i, target: target, appliedOnly: appliedOnly}
	beside := i.registrations(target.Namespace)
	if uid != "" {
		same := append(inNamespace(others, target.Namespace), target)
		q.add(ctx, target.Namespace, byUID(uid), false, func(mr *resourcesv1alpha1.ManagedResource) bool {
			return len(same) == 1 || slices.Contains(i.whose(mr, same), target)
		})
	}
	if name, serves := i.serves(target); serves && !appliedOnly {
		q.add(ctx, target.Namespace, byPick{name, target.Name}, false, nil)
		q.add(ctx, target.Namespace, byPick{class: name}, false, func(*resourcesv1alpha1.ManagedResource) bool {
			only, found := beside.only(name)
			return found && only == target
		})
	}
	for name, c := range i.classes {
		if c.isFixedTo(target) {
			q.add(ctx, "", byClass(name), false, func(mr *resourcesv1alpha1.ManagedResource) bool {
				has := mr.Annotations[hubv1alpha1.TargetUIDAnnotation]
				return has == "" && i.selects(ctx, c, mr.Namespace) || has != "" && has == string(uid) &&
					i.reaches(ctx, c, mr.Namespace)
			})
		}
	}
	selected := func(mr *resourcesv1alpha1.ManagedResource) bool {
		return mr.Annotations[hubv1alpha1.TargetUIDAnnotation] != "" || i.selects(ctx, i.classes[classOf(mr)], mr.Namespace)
	}
	q.add(ctx, target.Namespace, onSource(target.Name), true, selected)
	q.add(ctx, target.Namespace, onSource(""), true, func(mr *resourcesv1alpha1.ManagedResource) bool {
		owner, found := beside.only(resourcesv1alpha1.DefaultClass)
		return found && owner == target && selected(mr)
	})
	return q.found, q.err
}

// query collects what belongs to a target.
type query struct {
	*Index
	target      clustercache.ClusterKey
	appliedOnly bool
	found       []care.Member
	err         error
}

// add adds what has a key in a namespace, or in all if it is empty, and fits.
func (q *query) add(ctx context.Context, namespace string, key indexed, source bool,
	fits func(*resourcesv1alpha1.ManagedResource) bool) {
	if q.err != nil {
		return
	}
	list := &resourcesv1alpha1.ManagedResourceList{}
	// The content is only read.
	if err := q.informers.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{field: key.index()},
		client.UnsafeDisableDeepCopy); err != nil {
		q.err = fmt.Errorf("cannot find the ManagedResources of target %s: %w", q.target, err)
		return
	}
	q.found = slices.Grow(q.found, len(list.Items))
	for n := range list.Items {
		mr := &list.Items[n]
		if q.appliedOnly && mr.Annotations[hubv1alpha1.TargetUIDAnnotation] == "" {
			continue
		}
		if fits == nil || fits(mr) {
			q.found = append(q.found, care.Member{ManagedResource: mr, OnSource: source})
		}
	}
}

// serves returns the class that a registration serves, and false if there is no such class, or no registration.
func (i *Index) serves(target clustercache.ClusterKey) (string, bool) {
	status, registered := i.clusters.GetStatus(target)
	name := normalize(status.Labels[hubv1alpha1.ClassLabel])
	return name, registered && status.State != clustercache.StateDraining &&
		i.classes[name].Target.Type == configv1alpha1.TargetNamespace
}

// whose returns those of several registrations of one cluster that a ManagedResource is for: the one that it picks, or
// those that serve its class. What is for none of them counts for all, since it is there.
func (i *Index) whose(mr *resourcesv1alpha1.ManagedResource, same []clustercache.ClusterKey) []clustercache.ClusterKey {
	for _, key := range same {
		if key.Name == pick(mr) {
			return []clustercache.ClusterKey{key}
		}
	}
	var serving []clustercache.ClusterKey
	for _, key := range same {
		if name, serves := i.serves(key); serves && name == classOf(mr) {
			serving = append(serving, key)
		}
	}
	if len(serving) == 0 {
		return same
	}
	return serving
}

// registrations returns those of one namespace. They are listed once, when they are first asked for: there may be many,
// and few questions need them.
type registrations func() []clustercache.Status

func (i *Index) registrations(namespace string) registrations {
	return sync.OnceValue(func() []clustercache.Status { return i.clusters.List(namespace) })
}

// only returns the registration that serves a class, if there is exactly one.
func (r registrations) only(class string) (clustercache.ClusterKey, bool) {
	var found []clustercache.ClusterKey
	for _, status := range r() {
		if status.State != clustercache.StateDraining && normalize(status.Labels[hubv1alpha1.ClassLabel]) == class {
			found = append(found, status.Cluster)
		}
	}
	if len(found) != 1 {
		return clustercache.ClusterKey{}, false
	}
	return found[0], true
}

// reaches reports whether ManagedResources of a namespace can have objects in the fixed target of a class. The claim of
// a ManagedResource alone does not make it a member.
func (i *Index) reaches(ctx context.Context, c class, namespace string) bool {
	return namespace == c.Target.Namespace || i.selects(ctx, c, namespace)
}

func (i *Index) selects(ctx context.Context, c class, namespace string) bool {
	selected, err := i.isSelected(ctx, c, namespace)
	return selected && err == nil
}

// isSelected reports whether the selector of a class matches the labels of a namespace; of one that does not exist,
// none does.
func (i *Index) isSelected(ctx context.Context, c class, namespace string) (bool, error) {
	if c.selector == nil {
		return false, nil
	}
	ns := &corev1.Namespace{}
	if err := i.informers.Get(ctx, types.NamespacedName{Name: namespace}, ns, client.UnsafeDisableDeepCopy); err != nil {
		return false, client.IgnoreNotFound(err) //nolint:wrapcheck // the caller needs to know only that it is uncertain
	}
	return c.selector.Matches(labels.Set(ns.Labels)), nil
}

func classOf(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.Spec.Class == nil {
		return resourcesv1alpha1.DefaultClass
	}
	return normalize(*mr.Spec.Class)
}

// normalize maps the names of the default class to the empty one.
func normalize(class string) string {
	if class == resourcesv1alpha1.DefaultClassName {
		return resourcesv1alpha1.DefaultClass
	}
	return class
}

func pick(mr *resourcesv1alpha1.ManagedResource) string {
	return mr.Labels[hubv1alpha1.ClusterNameLabel]
}
