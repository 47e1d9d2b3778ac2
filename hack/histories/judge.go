package histories

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// grace is how old a wish must be before the hub is blamed for not having known it. A wish that was there when the world
// was at rest the last time needs no age: the hub said then that it had fulfilled it.
const grace = 5 * time.Second

// span is for how long something has been so without a break.
type span struct {
	on    bool
	since time.Time
}

func (s *span) set(on bool, now time.Time) {
	if on && !s.on {
		s.since = now
	}
	s.on = on
}

// Violation is a rule that the hub broke.
type Violation struct {
	Rule string
	Text string
	Step int
	// Objects and resources that it is about, for finding them in the trace.
	About []string
}

// String describes it in one line.
func (v *Violation) String() string { return fmt.Sprintf("step %d: %s: %s", v.Step, v.Rule, v.Text) }

// seen is what the oracle saw last of a ManagedResource.
type seen struct {
	exists     bool
	uid        types.UID
	version    int64
	deleting   bool
	generation int64
	finalizers []string
	bound      int // cluster, -1 for none
	inventory  map[int]resourcesv1alpha1.ObjectReference
	unknown    []string // inventory entries that are no objects of this world
	status     resourcesv1alpha1.ManagedResourceStatus
}

// life is one object from its creation to its end, as the watch shows it.
type life struct {
	cluster, object int
	uid             types.UID
	version         int64
	live            *unstructured.Unstructured
	byHub           bool // the hub wrote to it at some time
	exempt          string
	released        bool                       // at some time, a manifest asked not to manage it
	going, gone     bool                       // it has a deletion timestamp; it is gone
	went            *unstructured.Unstructured // how it was when it began to go
	byDriver        bool                       // we deleted it
	deletes         []*deletion
	judged          bool
}

// deletion is a request of the hub to delete an object, with what was so in the moment before it was sent.
type deletion struct {
	call       *call
	at         time.Time
	answered   bool
	listed     []int // ManagedResources that have the object in their inventory for this cluster
	ignoredUID []types.UID
	wantedBy   []int
}

// judge watches the world and knows the rules.
type judge struct {
	universe
	uids  [clusters]types.UID
	trace *trace

	mu        sync.Mutex
	state     *state
	seen      [spaces * resourcesEach]seen
	goneUIDs  map[types.UID]bool
	protected [spaces * resourcesEach][objects][clusters]span // must not be deleted
	managed   [spaces * resourcesEach][objects][clusters]span // and must stay in the inventory
	asked     [spaces * resourcesEach][objects]time.Time      // when it was last part of what was asked for
	complete  [spaces * resourcesEach]map[int]wish            // of the last content that was complete
	lives     map[types.UID]*life
	current   [clusters][objects]*life
	targets   [spaces * registrations]targetSeen
	leads     [allRegistrations][clusters]span // it leads there, and is confirmed to
	reached   [allRegistrations]reached
	rest      time.Time // when the world was at rest the last time
	step      int
	epoch     [spaces * resourcesEach]epoch
	gone      [spaces][clusters]bool // there was a time in this epoch when no registration led there for certain
	stats     Stats

	first    *Violation
	violated chan struct{}
}

// epoch is what happened to a ManagedResource since the world was at rest the last time.
type epoch struct {
	left        bool // it was deleted, or changed its class or target
	keep, force bool // it was to keep its objects, or to give up on them
}

// mayLeaveBehind reports whether the rules let objects of a ManagedResource stay in a cluster without it.
func (j *judge) mayLeaveBehind(m, cluster int) bool {
	e := j.epoch[m]
	return e.left && (e.keep || e.force || j.gone[spaceOfResource(m)][cluster])
}

// anyMayLeaveBehind reports whether that is so of a ManagedResource that ever asked for an object.
func (j *judge) anyMayLeaveBehind(object, cluster int) bool {
	for m := range j.asked {
		if !j.asked[m][object].IsZero() && j.mayLeaveBehind(m, cluster) {
			return true
		}
	}
	return false
}

// note remembers what a change means for what may stay behind.
func (j *judge) note(next *state) {
	for m := range j.epoch {
		was, is, e := j.state.resources[m], next.resources[m], &j.epoch[m]
		e.left = e.left || was.wanted && (!is.wanted || was.class != is.class || j.state.target(m) != next.target(m))
		e.keep, e.force = e.keep || was.keep || is.keep, e.force || was.force || is.force
	}
	for space := range spaces {
		for c := range clusters {
			j.gone[space][c] = j.gone[space][c] || !next.registered(space, c)
		}
	}
}

// reached is a hub to which a cluster reported its identity through a registration.
type reached struct {
	instance *instance
	cluster  int
	at       time.Time
}

// hasSay reports whether what a ManagedResource lists in a cluster counts for a deletion there. Within a namespace it
// does. Between namespaces it does if the hub knows that the ManagedResource's namespace reaches the cluster, or has to
// wait until it does: by a registration that leads to the same server, or by a class of the operator.
func (j *judge) hasSay(m int, c *call, now time.Time) bool {
	space, deleting := spaceOfResource(m), seedSpace
	if r := j.registrationOf(c.via); r >= 0 {
		deleting = r / registrations
	}
	if space == deleting || space == seedSpace && c.cluster == west {
		return true
	}
	for r := space * registrations; r < (space+1)*registrations; r++ {
		leads, met := j.leads[r][c.cluster], j.reached[r]
		knows := met.instance == c.instance && met.cluster == c.cluster && now.Sub(met.at) >= grace
		if leads.on && (knows || leads.since.Before(c.instance.started)) {
			return true
		}
	}
	return false
}

// meets notes that a cluster reported its identity to a hub.
func (j *judge) meets(c *call) {
	r := j.registrationOf(c.via)
	if r < 0 || c.resource != "namespaces" || c.name != metav1.NamespaceSystem {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if met := &j.reached[r]; met.instance != c.instance || met.cluster != c.cluster {
		*met = reached{instance: c.instance, cluster: c.cluster, at: time.Now()}
	}
}

// follow notes where registrations lead for certain, if it is not about to change.
func (j *judge) follow(s *state, now time.Time, begins bool) {
	for r := range j.leads {
		for c := range clusters {
			reg := s.registrations[r]
			leads := reg.exists && reg.confirm && reg.cluster == c
			if !leads && j.leads[r][c].on {
				j.reached[r] = reached{}
			}
			if begins || !leads {
				j.leads[r][c].set(leads, now)
			}
		}
	}
}

// targetSeen is what the oracle saw last of a TargetCluster.
type targetSeen struct {
	exists    bool
	uid       types.UID
	paused    span
	mismatch  span                // it is known as another cluster than the one its kubeconfig leads to
	confirmed [clusters]time.Time // when its registration was last confirmed to lead there
}

func (j *judge) violate(rule string, about []string, format string, args ...any) {
	if j.first != nil {
		return
	}
	j.first = &Violation{Rule: rule, Text: fmt.Sprintf(format, args...), Step: j.step, About: about}
	j.trace.add("VIOLATION %v", j.first)
	close(j.violated)
}

// stable reports whether something has been so for long enough that a hub must know it: since the last rest, since
// before the hub started, or for a while. The hub may be nil.
func (j *judge) stable(s span, now time.Time, hub *instance) bool {
	return s.on && (!s.since.After(j.rest) || now.Sub(s.since) >= grace || hub != nil && s.since.Before(hub.started))
}

// wishes are what a ManagedResource asks for, objects of documents that cannot be read included: what was asked for when
// everything could be read last still counts.
func (j *judge) wishes(s *state, m int) map[int]wish {
	entries, _, complete := s.bundle(m)
	out := make(map[int]wish, len(entries))
	if !complete {
		for o, w := range j.complete[m] {
			out[o] = w
		}
	}
	for o, e := range entries {
		out[o] = wanted
		if e.modeIgnore {
			out[o] = released
		}
	}
	return out
}

// mustStay returns for each object whether a ManagedResource has it in a cluster and keeps everyone from
// deleting it there.
func (j *judge) mustStay(s *state, m, cluster int, wishes map[int]wish) (out [objects]bool) {
	v, r := &j.seen[m], s.resources[m]
	if !v.exists || v.bound != cluster {
		return out
	}
	for o := range v.inventory {
		switch {
		case v.deleting || !r.wanted:
			out[o] = r.keep && (v.deleting || wishes[o] != unwanted)
		case !slices.Equal(hubFinalizers(v.finalizers), []string{resourcesv1alpha1.Finalizer(classes[r.class])}):
			// Between two classes.
		case s.target(m) >= 0 && s.target(m) != cluster:
			// On its way to another cluster.
		default:
			out[o] = wishes[o] != unwanted
		}
	}
	return out
}

func hubFinalizers(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return !strings.HasPrefix(f, resourcesv1alpha1.FinalizerBase) })
}

// refresh brings what is derived of a ManagedResource up to date.
func (j *judge) refresh(m int, now time.Time) {
	entries, possible, complete := j.state.bundle(m)
	if complete && j.state.resources[m].wanted {
		j.complete[m] = map[int]wish{}
		for o, e := range entries {
			j.complete[m][o] = wanted
			if e.modeIgnore {
				j.complete[m][o] = released
			}
		}
	}
	for o := range possible {
		j.asked[m][o] = now
	}
	for c := range clusters {
		for o, l := range j.current[c] {
			if l != nil {
				l.released = l.released || j.state.releases(o)
			}
		}
	}
	wishes := j.wishes(j.state, m)
	for c := range clusters {
		stay := j.mustStay(j.state, m, c, wishes)
		for o := range objects {
			j.protected[m][o][c].set(stay[o], now)
			j.managed[m][o][c].set(stay[o] && wishes[o] == wanted, now)
		}
	}
}

// narrow gives up what a change is about to give up, and allows what it is about to ask for. It is called before the
// change is sent.
func (j *judge) narrow(next *state) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.follow(next, now, false)
	for r := range j.targets {
		j.refreshTarget(r, now)
		if j.state.registrations[r].paused && !next.registrations[r].paused {
			j.targets[r].paused.set(false, now) // the hub may see it before the judge does
		}
	}
	for m := range j.seen {
		for _, s := range []*state{j.state, next} { // the hub may act before the change is answered
			_, possible, _ := s.bundle(m)
			for o := range possible {
				j.asked[m][o] = now
			}
		}
		wishes := j.wishes(next, m)
		for c := range clusters {
			stay := j.mustStay(next, m, c, wishes)
			for o := range objects {
				if !stay[o] {
					j.protected[m][o][c].set(false, now)
				}
				if !stay[o] || wishes[o] != wanted {
					j.managed[m][o][c].set(false, now)
				}
			}
		}
	}
}

// commit makes a change that was sent, or nil if it failed, the state by which is judged.
func (j *judge) commit(next *state) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if next != nil {
		j.note(next)
		for m := range j.seen {
			if asks := j.describeContent(next, m); asks != j.describeContent(j.state, m) {
				j.trace.add("     %s asks for %s", j.origin(m), asks)
			}
		}
		j.state = next
	}
	for m := range j.seen {
		j.refresh(m, now)
	}
	for r := range j.targets {
		j.refreshTarget(r, now)
	}
	j.follow(j.state, now, true)
}

// describeContent returns what a ManagedResource asks for, and where.
func (j *judge) describeContent(s *state, m int) string {
	if !s.resources[m].wanted {
		return "nothing"
	}
	entries, _, complete := s.bundle(m)
	var b strings.Builder
	for _, o := range slices.Sorted(maps.Keys(entries)) {
		fmt.Fprintf(&b, "%s=%d", j.name(o), entries[o].value)
		if entries[o].modeIgnore {
			b.WriteString(" (mode Ignore)")
		}
		b.WriteString(" ")
	}
	if !complete {
		b.WriteString("and what cannot be read ")
	}
	if t := s.target(m); t >= 0 {
		return b.String() + "in the " + clusterNames[t]
	}
	return b.String() + "nowhere"
}

func (j *judge) refreshTarget(r int, now time.Time) {
	t, reg := &j.targets[r], j.state.registrations[r]
	if reg.confirm {
		t.confirmed[reg.cluster] = now
	}
	t.mismatch.set(t.exists && reg.exists && !reg.confirm && t.uid != "" && t.uid != j.uids[reg.cluster], now)
}

// observeTarget takes in a state of a TargetCluster.
func (j *judge) observeTarget(tc *hubv1alpha1.TargetCluster, gone bool) {
	r := j.registrationOf(tc.Namespace + "/" + tc.Name)
	if r < 0 {
		return
	}
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	t := &j.targets[r]
	if c := slices.Index(j.uids[:], tc.Status.ClusterUID); t.exists && !gone && t.uid != "" && t.uid != tc.Status.ClusterUID && c >= 0 {
		if reg := j.state.registrations[r]; (!reg.confirm || reg.cluster != c) && now.Sub(t.confirmed[c]) >= grace {
			j.violate("a target changes its identity only with a confirmation", []string{tc.Namespace + "/" + tc.Name}, "%s/%s became %s", tc.Namespace, tc.Name, clusterNames[c])
		}
	}
	t.exists, t.uid = !gone, tc.Status.ClusterUID
	t.paused.set(!gone && tc.Spec.Paused, now)
	j.refreshTarget(r, now)
}

func (j *judge) registrationOf(key string) int {
	for r := range spaces * registrations {
		if key == j.space(r/registrations)+"/"+registrationName(r) {
			return r
		}
	}
	return -1
}

// observeResource takes in a state of a ManagedResource, from the watch or from the answer to a write of the hub.
func (j *judge) observeResource(mr *resourcesv1alpha1.ManagedResource, gone bool) {
	m := j.resourceOfOrigin(mr.Namespace + "/" + mr.Name)
	if m < 0 {
		return
	}
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.seen[m]
	version, _ := strconv.ParseInt(mr.ResourceVersion, 10, 64)
	if version < old.version || j.goneUIDs[mr.UID] {
		return
	}
	if gone {
		j.goneUIDs[mr.UID] = true
		j.seen[m] = seen{version: version}
		j.complete[m] = nil
		j.refresh(m, now)
		return
	}
	next := seen{
		exists: true, uid: mr.UID, version: version, deleting: mr.DeletionTimestamp != nil, generation: mr.Generation,
		finalizers: mr.Finalizers, bound: slices.Index(j.uids[:], types.UID(mr.Annotations[hubv1alpha1.TargetUIDAnnotation])),
		inventory: map[int]resourcesv1alpha1.ObjectReference{}, status: mr.Status,
	}
	for _, ref := range mr.Status.Resources {
		if o := j.object(ref.Kind, ref.Namespace, ref.Name); o >= 0 {
			next.inventory[o] = ref
		} else {
			next.unknown = append(next.unknown, ref.Kind+" "+ref.Namespace+"/"+ref.Name)
		}
	}
	if old.uid == next.uid && old.bound >= 0 && old.bound == next.bound && !next.deleting {
		for o := range old.inventory {
			if _, still := next.inventory[o]; !still && j.stable(j.managed[m][o][old.bound], now, nil) {
				j.violate("the inventory keeps what is wanted", []string{j.origin(m), j.name(o)},
					"%s lost %s from its inventory although it wants it", j.origin(m), j.describe(o))
			}
		}
	}
	if old.uid == next.uid && old.bound != next.bound {
		j.epoch[m].left = j.epoch[m].left || old.bound >= 0
		if next.bound >= 0 && len(next.inventory) > 0 {
			j.violate("an inventory stays in its cluster", []string{j.origin(m)}, "%s was bound to %s with an inventory of objects that it has elsewhere, or nowhere",
				j.origin(m), clusterNames[next.bound])
		}
	}
	j.seen[m] = next
	j.refresh(m, now)
}

// observeObject takes in a state of an object from the watch.
func (j *judge) observeObject(cluster int, obj *unstructured.Unstructured, gone bool) {
	o := j.object(obj.GetKind(), obj.GetNamespace(), obj.GetName())
	if o < 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	version, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	l := j.lives[obj.GetUID()]
	if l == nil {
		l = &life{cluster: cluster, object: o, uid: obj.GetUID()}
		j.lives[l.uid] = l
	}
	if version < l.version || l.gone {
		return
	}
	l.version, l.live = version, obj
	for _, e := range obj.GetManagedFields() {
		l.byHub = l.byHub || e.Manager == hubv1alpha1.FieldManager
	}
	l.released = l.released || j.state.releases(o)
	was := l.going
	l.gone = gone
	l.going = gone || obj.GetDeletionTimestamp() != nil
	if l.going && !was {
		l.went = obj
	}
	if gone {
		if j.current[cluster][o] == l {
			j.current[cluster][o] = nil
		}
		j.trace.add("watch %s: %s gone, uid %s, %s", clusterNames[cluster], j.describe(o), short(l.uid), marks(obj))
	} else {
		j.current[cluster][o] = l
		j.trace.add("watch %s: %s uid %s %s", clusterNames[cluster], j.describe(o), short(l.uid), marks(obj))
	}
	j.judgeLife(l)
}

func short(uid types.UID) string { return string(uid)[:min(8, len(uid))] }

func marks(obj *unstructured.Unstructured) string {
	a := obj.GetAnnotations()
	text := "value " + a[valueAnnotation] + " origin " + strconv.Quote(a[resourcesv1alpha1.OriginAnnotation])
	if a[resourcesv1alpha1.KeepObjectAnnotation] != "" {
		text += " keep-object"
	}
	if f := obj.GetFinalizers(); len(f) > 0 {
		text += fmt.Sprint(" finalizers ", f)
	}
	if obj.GetDeletionTimestamp() != nil {
		text += " going"
	}
	return text
}

// judgeLife judges the deletion of an object as soon as both are known: that it goes, and who asked for it.
func (j *judge) judgeLife(l *life) {
	if !l.going || l.judged || l.byDriver {
		return
	}
	for _, d := range l.deletes {
		if d.answered {
			l.judged = true
			j.judgeDeletion(l, d)
			return
		}
	}
}

func (j *judge) judgeDeletion(l *life, d *deletion) {
	j.stats.Deletes++
	annotations := l.went.GetAnnotations()
	origin := annotations[resourcesv1alpha1.OriginAnnotation]
	where := clusterNames[l.cluster] + ": " + j.describe(l.object)
	about := []string{j.name(l.object)}
	for _, m := range d.listed {
		about = append(about, j.origin(m))
	}
	switch {
	case resourcesv1alpha1.IsTruthy(annotations[resourcesv1alpha1.KeepObjectAnnotation]):
		j.violate("keep-object is kept", about, "%s was deleted although its annotation asks to keep it", where)
	case len(d.listed) == 0:
		j.violate("what is deleted is in an inventory", about, "%s was deleted, and is in no inventory for this cluster", where)
	case origin != "" && !slices.ContainsFunc(d.listed, func(m int) bool { return j.origin(m) == origin }):
		j.violate("a foreign origin is respected", about, "%s was deleted although its origin is %s", where, origin)
	case !l.byHub && !slices.Contains(d.ignoredUID, l.uid):
		j.violate("only what the hub made or took over is deleted", about, "%s was deleted although the hub never wrote to it (uid %s)", where, l.uid)
	case len(d.wantedBy) > 0:
		j.violate("what is wanted is not deleted", about, "%s was deleted although %s wants it", where, j.origin(d.wantedBy[0]))
	}
}

// before implements observer.
func (j *judge) before(c *call) {
	now := time.Now()
	if c.via != "" {
		j.checkVia(c, now)
	}
	j.checkNames(c)
	if !c.write() {
		return
	}
	o := j.object(c.resource, c.namespace, c.name)
	if c.method == http.MethodPost {
		var obj metav1.PartialObjectMetadata
		if json.Unmarshal(c.body, &obj) == nil {
			o = j.object(c.resource, c.namespace, obj.Name)
		}
	}
	if o < 0 || c.sub != "" {
		return
	}
	c.object = o + 1
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.method == http.MethodDelete {
		c.deletion = j.snapshot(c, o, now)
		return
	}
	j.checkWrite(c, o, now)
}

// snapshot is what is so in the moment before a deletion.
func (j *judge) snapshot(c *call, o int, now time.Time) *deletion {
	d := &deletion{call: c, at: now}
	for m := range j.seen {
		v := &j.seen[m]
		if ref, ok := v.inventory[o]; ok && v.bound == c.cluster {
			d.listed = append(d.listed, m)
			if resourcesv1alpha1.IsTruthy(ref.Annotations[resourcesv1alpha1.IgnoreAnnotation]) {
				d.ignoredUID = append(d.ignoredUID, ref.UID)
			}
		}
		if j.stable(j.protected[m][o][c.cluster], now, c.instance) && j.hasSay(m, c, now) {
			d.wantedBy = append(d.wantedBy, m)
		}
	}
	return d
}

// checkWrite judges an apply or a creation.
func (j *judge) checkWrite(c *call, o int, now time.Time) {
	var obj metav1.PartialObjectMetadata
	if json.Unmarshal(c.body, &obj) != nil || obj.Kind == "" {
		return // a patch of marks or of managedFields
	}
	origin := obj.Annotations[resourcesv1alpha1.OriginAnnotation]
	where := clusterNames[c.cluster] + ": " + j.describe(o)
	listed, asked := false, false
	for m := range j.seen {
		if origin != "" && origin != j.origin(m) {
			continue
		}
		v := &j.seen[m]
		_, has := v.inventory[o]
		listed = listed || has && v.bound == c.cluster
		asked = asked || j.asked[m][o].After(j.rest) || now.Sub(j.asked[m][o]) < grace || j.possible(m, o)
	}
	if !listed {
		j.violate("the inventory is written ahead", []string{j.name(o), origin}, "%s was written for %q, whose inventory for this cluster does not have it", where, origin)
	}
	if !asked {
		j.violate("only what is asked for is written", []string{j.name(o), origin}, "%s was written for %q, which does not ask for it", where, origin)
	}
}

func (j *judge) possible(m, o int) bool {
	_, possible, _ := j.state.bundle(m)
	return possible[o] || j.complete[m][o] == wanted
}

// checkVia judges whether a call may go through a registration at all.
func (j *judge) checkVia(c *call, now time.Time) {
	r := j.registrationOf(c.via)
	if r < 0 || c.resource == "" || c.resource == "selfsubjectreviews" || c.resource == "namespaces" && c.name == metav1.NamespaceSystem {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.targets[r]
	if c.write() && j.stable(t.paused, now, c.instance) {
		j.violate("a paused target is not written to", []string{c.via, c.name}, "%s, although %s is paused", c, c.via)
	}
	if j.stable(t.mismatch, now, c.instance) && c.cluster == j.state.registrations[r].cluster {
		j.violate("a target whose identity changed gets no call", []string{c.via}, "%s, although %s is known as another cluster", c, c.via)
	}
}

// after implements observer.
func (j *judge) after(c *call, status int, body []byte, err error) {
	if c.write() || err != nil {
		j.trace.add("%s -> %d %v", c, status, err)
	}
	if !c.write() {
		if err == nil && status == http.StatusOK {
			j.meets(c)
		}
		return
	}
	ok := err == nil && status < 300
	if c.resource == "managedresources" && ok {
		mr := &resourcesv1alpha1.ManagedResource{}
		if json.Unmarshal(body, mr) == nil && mr.UID != "" {
			// A patch that takes off the last finalizer is answered with an object that is gone.
			gone := mr.DeletionTimestamp != nil && len(mr.Finalizers) == 0
			j.observeResource(mr, gone)
			j.trace.add("     %s", describeResource(mr))
		}
	}
	if c.deletion == nil || err == nil && !ok {
		return
	}
	uid := uidIn(body)
	if uid == "" {
		uid = preconditionUID(c.body) // it may have been executed
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lives[uid]
	if l == nil {
		l = &life{cluster: c.cluster, object: c.object - 1, uid: uid}
		j.lives[uid] = l
	}
	c.deletion.answered = ok
	l.deletes = append(l.deletes, c.deletion)
	if l.live != nil {
		j.judgeLife(l)
	}
}

func describeResource(mr *resourcesv1alpha1.ManagedResource) string {
	var names []string
	for _, r := range mr.Status.Resources {
		names = append(names, r.Name)
	}
	return fmt.Sprintf("%s/%s rv %s finalizers %v bound %s inventory %v", mr.Namespace, mr.Name, mr.ResourceVersion, mr.Finalizers,
		short(types.UID(mr.Annotations[hubv1alpha1.TargetUIDAnnotation])), names)
}

// attribute judges what went without an answer being seen, and complains about what went by itself. It is called when no
// call is under way.
func (j *judge) attribute() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for uid, l := range j.lives {
		if l.live == nil {
			continue // a delete that was lost, or whose event is on its way
		}
		if l.going && !l.judged && !l.byDriver {
			l.judged = true
			if len(l.deletes) > 0 {
				j.judgeDeletion(l, l.deletes[len(l.deletes)-1])
			} else {
				j.violate("every deletion is accounted for", []string{j.name(l.object)},
					"%s: %s (uid %s) was deleted, and no client is known to have done it",
					clusterNames[l.cluster], j.describe(l.object), uid)
			}
		}
		if l.gone {
			delete(j.lives, uid)
		}
	}
}

// uidIn is the UID in the answer to a delete: a Status, or the object.
func uidIn(raw []byte) types.UID {
	if len(raw) > 4 && string(raw[:4]) == "k8s\x00" {
		unknown := &runtime.Unknown{}
		if unknown.Unmarshal(raw[4:]) != nil {
			return ""
		}
		if unknown.Kind == "Status" {
			status := &metav1.Status{}
			if status.Unmarshal(unknown.Raw) != nil || status.Details == nil {
				return ""
			}
			return status.Details.UID
		}
		obj := &metav1.PartialObjectMetadata{}
		if obj.Unmarshal(unknown.Raw) != nil {
			return ""
		}
		return obj.UID
	}
	var answer struct {
		Metadata struct{ UID types.UID }
		Details  struct{ UID types.UID }
	}
	_ = json.Unmarshal(raw, &answer)
	if answer.Details.UID != "" {
		return answer.Details.UID
	}
	return answer.Metadata.UID
}

func preconditionUID(raw []byte) types.UID {
	var options struct{ Preconditions struct{ UID types.UID } }
	_ = json.Unmarshal(raw, &options)
	return options.Preconditions.UID
}
