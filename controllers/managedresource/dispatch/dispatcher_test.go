package dispatch

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	clustersfake "github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// added is a queue that notes what is added, and how urgent it is.
type added struct {
	priorityqueue.PriorityQueue[Request]
	names      []types.NamespacedName
	priorities []int
}

func (a *added) AddWithOpts(o priorityqueue.AddOpts, requests ...Request) {
	for _, r := range requests {
		a.names = append(a.names, r.NamespacedName)
		a.priorities = append(a.priorities, ptr.Deref(o.Priority, 0))
	}
}

// A ManagedResource that is gone without its registration has no class and no target. What is remembered of it has to
// be dropped all the same.
func TestEveryManagedResourceThatIsGoneIsForgotten(t *testing.T) {
	gone := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid"}}
	for name, event := range map[string]any{"seen": gone, "missed": cache.DeletedFinalStateUnknown{Key: "a/b", Obj: gone}} {
		t.Run(name, func(t *testing.T) {
			queue := &added{}
			d := New(Options{Shared: sharing.NewIndex()})
			d.SetQueue("", queue)
			d.managedResourceHandler(t.Context()).OnDelete(event)
			NewWithT(t).Expect(queue.names).To(Equal([]types.NamespacedName{{Namespace: "a", Name: "b"}}))
		})
	}
}

// When the last finalizer goes, so does the ManagedResource, and the informer may show that before the server's answer
// is read. One that still lists objects is never forgotten, whatever the informer shows: another ManagedResource would
// delete these objects.
func TestOnlyWhatEndedIsNotRememberedAsItWasWritten(t *testing.T) {
	listing := func(uid types.UID, version string, finalizers ...string) *resourcesv1alpha1.ManagedResource {
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", UID: uid, ResourceVersion: version, Finalizers: finalizers,
			Annotations: map[string]string{hubv1alpha1.TargetUIDAnnotation: "cluster"},
		}}
		mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Name: "s"}}}
		return mr
	}
	going := func(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ManagedResource {
		mr.DeletionTimestamp, mr.Spec.KeepObjects = new(metav1.Now()), new(true) // it has a say until it is gone
		return mr
	}
	type step = func(d *Dispatcher)
	shown := func(mr *resourcesv1alpha1.ManagedResource) step {
		return func(d *Dispatcher) { d.Observe(t.Context(), mr) }
	}
	written := func(mr *resourcesv1alpha1.ManagedResource) step {
		return func(d *Dispatcher) { d.ObserveWrite(t.Context(), mr) }
	}
	ended := func(mr *resourcesv1alpha1.ManagedResource) step {
		return func(d *Dispatcher) { d.managedResourceHandler(t.Context()).OnDelete(mr) }
	}
	object := inventory.Key{Kind: "Secret", Name: "s"}
	for text, tc := range map[string]struct {
		steps      []step
		remembered bool
	}{
		"written":                    {[]step{shown(listing("uid", "3")), written(listing("uid", "4"))}, true},
		"written before it is shown": {[]step{written(listing("uid", "4"))}, true},
		"its predecessor is shown":   {[]step{shown(listing("other", "2")), written(listing("uid", "4"))}, true},
		"its predecessor ends":       {[]step{written(listing("uid", "4")), ended(listing("other", "2"))}, true},
		"it goes, and has a finalizer left": {[]step{shown(listing("uid", "3", "x")),
			written(going(listing("uid", "4", "x")))}, true},
		"its successor came meanwhile":        {[]step{shown(listing("other", "9")), written(going(listing("uid", "4")))}, true},
		"it ended":                            {[]step{shown(listing("uid", "3", "x")), written(going(listing("uid", "4")))}, false},
		"it ended, which was shown before":    {[]step{shown(listing("uid", "3", "x")), ended(listing("uid", "3")), written(going(listing("uid", "4")))}, false},
		"it ended, and is shown late as such": {[]step{written(going(listing("uid", "4"))), shown(listing("uid", "3", "x")), ended(listing("uid", "3"))}, false},
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			d := New(Options{Shared: sharing.NewIndex()})
			d.SetQueue("", &added{})
			for _, s := range tc.steps {
				s(d)
			}
			g.Expect(d.Shared.Others(sharing.Cluster("cluster"), object, types.NamespacedName{},
				func(string) bool { return true })).To(HaveLen(map[bool]int{true: 1}[tc.remembered]))
		})
	}
}

// After a conflict or a lost answer a run reads from the server itself. If a watch was cut meanwhile, the informer
// lists again and never shows what was read: to it nothing happened between the state before and the one after.
func TestWhatTheInformerNeverShowedIsUndone(t *testing.T) {
	at := func(version string, annotations map[string]string) *resourcesv1alpha1.ManagedResource {
		return &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "uid", ResourceVersion: version, Annotations: annotations},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: ptr.To("seed")},
		}
	}
	ignored := map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	for text, test := range map[string]struct {
		acted *resourcesv1alpha1.ManagedResource
		queue []types.NamespacedName
	}{
		"nothing but the informer was read":         {nil, nil},
		"it was ignored, and is not any more":       {at("5", ignored), []types.NamespacedName{name}},
		"it was the same":                           {at("5", nil), nil},
		"what was read is newer than what is shown": {at("7", ignored), nil},
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			class, err := assignment.NewClass(configv1alpha1.Class{
				Name: "seed", Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetSource}, NamespaceSelector: &metav1.LabelSelector{},
			}, "")
			g.Expect(err).NotTo(HaveOccurred())
			namespaces := fake.NewClientBuilder().WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Build()
			queue := &added{}
			d := New(Options{
				Shared: sharing.NewIndex(), Tracker: tracker.New(tracker.Options{}),
				Assigner: &assignment.Assigner{Classes: map[string]*assignment.Class{class.Name: class}, Reader: namespaces},
				Ahead:    func(types.NamespacedName) *resourcesv1alpha1.ManagedResource { return test.acted },
			})
			d.SetQueue(class.Name, queue)
			d.managedResourceHandler(t.Context()).OnUpdate(at("4", nil), at("6", nil))
			g.Expect(queue.names).To(Equal(test.queue))
		})
	}
}

// An outage that may be over in a moment puts nothing into the queue.
func TestOutageCausesNoRunsUntilItIsSettled(t *testing.T) {
	g := NewWithT(t)
	key := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	clusters := clustersfake.New(nil)
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	class, err := assignment.NewClass(configv1alpha1.Class{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}}, "")
	g.Expect(err).NotTo(HaveOccurred())
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).Build()
	queue := &added{}
	d := New(Options{
		Cache: informers{Reader: reader}, Clusters: clusters, Tracker: tracker.New(tracker.Options{}), Clock: clock.RealClock{},
		Assigner: &assignment.Assigner{Classes: map[string]*assignment.Class{class.Name: class}, Reader: reader,
			Clusters: clusters, Clock: clock.RealClock{}},
	})
	d.SetQueue(class.Name, queue)
	before := map[clustercache.ClusterKey]reported{}
	for _, step := range []struct {
		what   string
		status clustercache.Status
		event  clustercache.EventType
		queued int
	}{
		{"connected", clustercache.Status{State: clustercache.StateConnected}, clustercache.EventConnected, 1},
		{"lost", clustercache.Status{State: clustercache.StateDisconnected, InGrace: true}, clustercache.EventDisconnected, 0},
		{"not back", clustercache.Status{State: clustercache.StateDisconnected, InGrace: true, Reason: clustercache.ReasonUnreachable}, clustercache.EventProbed, 0},
		{"given up", clustercache.Status{State: clustercache.StateDisconnected}, clustercache.EventDisconnected, 1},
		{"connected again", clustercache.Status{State: clustercache.StateConnected}, clustercache.EventConnected, 1},
		{"lost again", clustercache.Status{State: clustercache.StateDisconnected, InGrace: true}, clustercache.EventDisconnected, 0},
		{
			"registered again", clustercache.Status{State: clustercache.StateDisconnected, InGrace: true},
			clustercache.EventRegistered, 1,
		},
	} {
		step.status.Cluster, queue.names = key, nil
		clusters.SetStatus(step.status)
		d.clusterChanged(t.Context(), clustercache.Event{Cluster: key, Types: []clustercache.EventType{step.event}}, before)
		g.Expect(queue.names).To(HaveLen(step.queued), step.what)
	}
}

// When hundreds of targets are back, those go first of whose objects something is wrong, or not known.
func TestWhatIsSettledIsInTheBackgroundWhenItsTargetIsBack(t *testing.T) {
	key := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	object := inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "one"}
	connected := clustercache.Status{Cluster: key, State: clustercache.StateConnected, Connection: 1}
	held := clustercache.Status{Cluster: key, State: clustercache.StateDisconnected, InGrace: true, Connection: 1}
	for name, test := range map[string]struct {
		change     func(mr *resourcesv1alpha1.ManagedResource)
		pending    bool
		track      func(*tracker.Tracker, types.NamespacedName)
		back       func(*clustercache.Status)
		event      clustercache.EventType
		background bool
	}{
		"all is well":       {background: true},
		"it has changed":    {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.Generation++ }},
		"it goes":           {change: func(mr *resourcesv1alpha1.ManagedResource) { mr.DeletionTimestamp = new(metav1.Now()) }},
		"a run was cut off": {pending: true},
		"it is unknown whether it is healthy": {change: func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions[1].Status = resourcesv1alpha1.ConditionUnknown
		}},
		"it was not applied": {change: func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Status.Conditions[0].Status = resourcesv1alpha1.ConditionFalse
		}},
		"the state of its objects is unknown": {track: func(t *tracker.Tracker, mr types.NamespacedName) { t.Forget(mr) }},
		"an object is not right": {track: func(t *tracker.Tracker, mr types.NamespacedName) {
			t.Accept(mr, object, tracker.Accepted{UID: "another"})
		}},
		"it is worked on":           {track: func(t *tracker.Tracker, mr types.NamespacedName) { t.Begin(mr) }},
		"the connection is another": {back: func(s *clustercache.Status) { s.Connection++ }},
		"it is registered again":    {event: clustercache.EventRegistered},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d, queue, _, mr := prioritized(t)
			clusters := clustersfake.New(nil)
			clusters.Add(key, clustersfake.Target{})
			d.Clusters, d.Assigner.Clusters = clusters, clusters
			d.TakePending = func(types.NamespacedName) bool { return test.pending }
			mr.Finalizers = []string{"test/stays"} // for one that goes
			mr.Generation, mr.Status.ObservedGeneration = 2, 2
			mr.Status.Conditions = []resourcesv1alpha1.Condition{
				{Type: resourcesv1alpha1.ConditionResourcesApplied, Status: resourcesv1alpha1.ConditionTrue},
				{Type: resourcesv1alpha1.ConditionResourcesHealthy, Status: resourcesv1alpha1.ConditionTrue},
			}
			if test.change != nil {
				test.change(mr)
			}
			scheme := runtime.NewScheme()
			g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
			g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
			d.Cache = informers{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(mr).Build()}
			mrName := client.ObjectKeyFromObject(mr)
			d.Tracker = tracker.New(tracker.Options{Clusters: clusters, Selector: labels.Everything(), Clock: clock.RealClock{}, Notify: func(types.NamespacedName, tracker.Cause) {}})
			g.Expect(d.Tracker.Track(t.Context(), mrName, key, []resourcesv1alpha1.ObjectReference{{ObjectReference: corev1.ObjectReference{
				APIVersion: "v1", Kind: object.Kind, Namespace: object.Namespace, Name: object.Name,
			}}}, tracker.Exact{})).To(Succeed())
			live := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: "u", ResourceVersion: "1"}}
			d.Tracker.Accept(mrName, object, tracker.Accepted{UID: "u", ResourceVersion: "1", State: ownership.Observe(live, "")})
			clusters.Put(key, d.Tracker.WatchOf(mrName, object), live)
			if test.track != nil {
				test.track(d.Tracker, mrName)
			}
			back, event := connected, clustercache.EventConnected
			if test.back != nil {
				test.back(&back)
			}
			if test.event != "" {
				event = test.event
			}
			before := map[clustercache.ClusterKey]reported{}
			for _, step := range []struct {
				status clustercache.Status
				event  clustercache.EventType
			}{{connected, clustercache.EventConnected}, {held, clustercache.EventDisconnected}, {back, event}} {
				queue.names, queue.priorities = nil, nil
				clusters.SetStatus(step.status)
				d.clusterChanged(t.Context(), clustercache.Event{Cluster: key, Types: []clustercache.EventType{step.event}}, before)
			}
			priority := PriorityRetry
			if test.background {
				priority = PriorityResync
			}
			g.Expect(queue.priorities).To(Equal([]int{priority}))
		})
	}
}

// What is older is often needed by what is younger: definitions, Namespaces.
func TestTargetGetsTheOldestFirst(t *testing.T) {
	g := NewWithT(t)
	key := clustercache.ClusterKey{Namespace: "a", Name: "target"}
	scheme := runtime.NewScheme()
	g.Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	objects := fake.NewClientBuilder().WithScheme(scheme)
	for name, age := range map[string]time.Duration{"z-definitions": 0, "b": 2 * time.Second, "a": 2 * time.Second, "y-system": time.Second} {
		objects = objects.WithObjects(&resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(began.Add(age)),
		}})
	}
	class, err := assignment.NewClass(configv1alpha1.Class{Target: configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}}, "")
	g.Expect(err).NotTo(HaveOccurred())
	clusters := clustersfake.New(nil)
	clusters.SetStatus(clustercache.Status{Cluster: key, State: clustercache.StateConnected})
	reader, queue := objects.Build(), &added{}
	d := New(Options{
		Cache: informers{Reader: reader}, Clusters: clusters, Tracker: tracker.New(tracker.Options{}), Clock: clock.RealClock{},
		Assigner: &assignment.Assigner{Classes: map[string]*assignment.Class{class.Name: class}, Reader: reader,
			Clusters: clusters, Clock: clock.RealClock{}},
	})
	d.SetQueue(class.Name, queue)
	d.clusterChanged(t.Context(), clustercache.Event{Cluster: key,
		Types: []clustercache.EventType{clustercache.EventConnected}}, map[clustercache.ClusterKey]reported{})
	names := make([]string, 0, len(queue.names))
	for _, n := range queue.names {
		names = append(names, n.Name)
	}
	g.Expect(names).To(Equal([]string{"z-definitions", "y-system", "a", "b"}))
}

// informers reads like a cache.
type informers struct {
	client.Reader
	ctrlcache.Informers
}
