package histories

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// court is a judge with a state that the test sets. ManagedResource 0 has object 0, a ConfigMap, in the west, and so
// has Secret 0.
type court struct {
	*WithT
	*judge
	version int
}

func newCourt(t *testing.T) *court {
	c := &court{WithT: NewWithT(t), version: 100}
	c.judge = &judge{
		universe: universe{prefix: "w"}, trace: newTrace(), state: firstState(), uids: [clusters]types.UID{"uid-west", "uid-east"},
		goneUIDs: map[types.UID]bool{}, lives: map[types.UID]*life{}, violated: make(chan struct{}),
	}
	c.change(func(s *state) {
		s.resources[0].wanted = true
		s.secrets[0].entries[0] = entry{value: 1}
	})
	c.resource(0)
	c.object("uid-1", nil, nil)
	c.rest = time.Now()
	return c
}

func (c *court) change(f func(*state)) {
	next := c.state.clone()
	f(next)
	c.narrow(next)
	c.commit(next)
}

// resource shows ManagedResource 0 with objects in its inventory.
func (c *court) resource(listed ...int) {
	c.version++
	mr := testbed.ManagedResource(c.space(0), resourceName(0))
	mr.UID, mr.ResourceVersion = "uid-mr", fmt.Sprint(c.version)
	mr.Finalizers = []string{resourcesv1alpha1.FinalizerBase}
	mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: "uid-west"}
	for _, o := range listed {
		ref := resourcesv1alpha1.ObjectReference{}
		ref.APIVersion, ref.Kind = kindOf(o).gvk().ToAPIVersionAndKind()
		ref.Namespace, ref.Name = c.namespace(o), c.name(o)
		mr.Status.Resources = append(mr.Status.Resources, ref)
	}
	c.observeResource(mr, false)
}

func (c *court) live(uid types.UID, annotations map[string]string, manager string) *unstructured.Unstructured {
	c.version++
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetGroupVersionKind(kindOf(0).gvk())
	obj.SetNamespace(c.namespace(0))
	obj.SetName(c.name(0))
	obj.SetUID(uid)
	obj.SetResourceVersion(fmt.Sprint(c.version))
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager}})
	obj.SetAnnotations(map[string]string{resourcesv1alpha1.OriginAnnotation: c.origin(0)})
	if annotations != nil {
		obj.SetAnnotations(annotations)
	}
	return obj
}

// via is a registration.
func (c *court) via(r int) string { return c.space(r/registrations) + "/" + registrationName(r) }

// object shows object 0, which the hub wrote unless there is another manager.
func (c *court) object(uid types.UID, annotations map[string]string, managers []string) {
	managers = append(managers, hubv1alpha1.FieldManager)
	c.observeObject(west, c.live(uid, annotations, managers[0]), false)
}

// deleted has the hub delete object 0, which then was as it is shown.
func (c *court) deleted(uid types.UID, annotations map[string]string, manager string) {
	request := &call{instance: &instance{}, via: c.via(0), cluster: west, method: http.MethodDelete,
		resource: "configmaps", namespace: c.namespace(0), name: c.name(0)}
	c.before(request)
	c.after(request, http.StatusOK, fmt.Appendf(nil, `{"kind":"Status","details":{"uid":%q}}`, uid), nil)
	c.observeObject(west, c.live(uid, annotations, manager), true)
}

func (c *court) expect(rule string) {
	if rule == "" {
		c.Expect(c.violation()).To(BeNil())
		return
	}
	c.Expect(c.violation()).NotTo(BeNil())
	c.Expect(c.violation().Rule).To(Equal(rule))
}

func TestDeletionsAreJudged(t *testing.T) {
	unwant := func(c *court) { c.change(func(s *state) { delete(s.secrets[0].entries, 0) }) }
	const hub = hubv1alpha1.FieldManager
	for name, test := range map[string]struct {
		happened func(c *court)
		uid      types.UID
		with     map[string]string
		by       string
		rule     string
	}{
		"no longer wanted": {unwant, "uid-1", nil, hub, ""},
		"still wanted":     {func(*court) {}, "uid-1", nil, hub, "what is wanted is not deleted"},
		"wanted again, a moment ago": {func(c *court) {
			unwant(c)
			c.change(func(s *state) { s.secrets[0].entries[0] = entry{value: 2} })
		}, "uid-1", nil, hub, ""},
		"its document is broken":             {func(c *court) { c.change(func(s *state) { s.secrets[0].fault = faultDocument }) }, "uid-1", nil, hub, "what is wanted is not deleted"},
		"its bundle is cut off":              {func(c *court) { c.change(func(s *state) { s.secrets[0].fault = faultBrotli }) }, "uid-1", nil, hub, "what is wanted is not deleted"},
		"its Secret is missing":              {func(c *court) { c.change(func(s *state) { s.secrets[0].exists = false }) }, "uid-1", nil, hub, "what is wanted is not deleted"},
		"its document is of an unknown kind": {func(c *court) { c.change(func(s *state) { s.secrets[0].fault = faultKind }) }, "uid-1", nil, hub, "what is wanted is not deleted"},
		"its document is of an unknown kind, with mode Ignore": {func(c *court) {
			c.change(func(s *state) { s.secrets[0].fault, s.secrets[0].entries[0] = faultKind, entry{modeIgnore: true} })
		}, "uid-1", nil, hub, ""},
		"its document is of an unknown kind, with mode Ignore, and another one is cut off": {func(c *court) {
			c.change(func(s *state) {
				s.secrets[0].fault, s.secrets[0].entries[0], s.secrets[1].fault = faultKind, entry{modeIgnore: true}, faultBrotli
			})
		}, "uid-1", nil, hub, "what is wanted is not deleted"},
		"another one is missing": {func(c *court) { unwant(c); c.change(func(s *state) { s.secrets[1].exists = false }) }, "uid-1", nil, hub, ""},
		"no longer a target": {func(c *court) { c.change(func(s *state) { s.registrations[0].exists = false }) },
			"uid-1", nil, hub, "what is wanted is not deleted"},
		"on its way elsewhere": {func(c *court) { c.change(func(s *state) { s.registrations[0].cluster = east }) }, "uid-1",
			nil, hub, ""},
		"mode Ignore": {func(c *court) { c.change(func(s *state) { s.secrets[0].entries[0] = entry{modeIgnore: true} }) },
			"uid-1", nil, hub, "what is wanted is not deleted"},
		"the class changed": {func(c *court) { c.change(func(s *state) { s.resources[0].class = 1 }) }, "uid-1", nil,
			hub, ""},
		"its resource goes": {func(c *court) { c.change(func(s *state) { s.resources[0].wanted = false }) }, "uid-1",
			nil, hub, ""},
		"its resource goes without it": {func(c *court) {
			c.change(func(s *state) { s.resources[0].keep = true })
			c.change(func(s *state) { s.resources[0].wanted = false })
		}, "uid-1", nil, hub, "what is wanted is not deleted"},
		"in no inventory": {func(c *court) { unwant(c); c.resource() }, "uid-1", nil, hub,
			"what is deleted is in an inventory"},
		"keep-object": {unwant, "uid-1", map[string]string{resourcesv1alpha1.KeepObjectAnnotation: "true"},
			hub, "keep-object is kept"},
		"of another client": {unwant, "uid-1", map[string]string{resourcesv1alpha1.OriginAnnotation: "a/b"}, hub,
			"a foreign origin is respected"},
		"without marks": {unwant, "uid-1", map[string]string{}, hub, ""},
		"created by another client": {unwant, "uid-2", map[string]string{}, "another-client",
			"only what the hub made or took over is deleted"},
		"taken over by the hub": {func(c *court) { unwant(c); c.object("uid-2", nil, nil) }, "uid-2", nil, hub, ""},
		"inventory lost it first": {func(c *court) { c.resource() }, "uid-1", nil, hub,
			"the inventory keeps what is wanted"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			test.happened(c)
			c.deleted(test.uid, test.with, test.by)
			c.expect(test.rule)
		})
	}
}

func TestDeletionsByAnUnknownClientAreReported(t *testing.T) {
	c := newCourt(t)
	c.observeObject(west, c.live("uid-1", nil, hubv1alpha1.FieldManager), true)
	c.attribute()
	c.expect("every deletion is accounted for")
}

func TestLostDeletionsAreJudged(t *testing.T) {
	c := newCourt(t)
	request := &call{instance: &instance{}, via: c.via(0), cluster: west, method: http.MethodDelete,
		resource: "configmaps", namespace: c.namespace(0), name: c.name(0),
		body: []byte(`{"preconditions":{"uid":"uid-1"}}`)}
	c.before(request)
	c.after(request, 0, nil, errDead)
	c.observeObject(west, c.live("uid-1", nil, hubv1alpha1.FieldManager), true)
	c.attribute()
	c.expect("what is wanted is not deleted")
}

func TestDeletionsAreJudgedByHowTheObjectWasThen(t *testing.T) {
	foreign := map[string]string{resourcesv1alpha1.OriginAnnotation: "a/b"}
	for name, test := range map[string]struct {
		then, later map[string]string
		rule        string
	}{
		"stolen while it went": {nil, foreign, ""},
		"stolen before":        {foreign, map[string]string{}, "a foreign origin is respected"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			c.change(func(s *state) { delete(s.secrets[0].entries, 0) })
			request := &call{instance: &instance{}, via: c.via(0), cluster: west, method: http.MethodDelete,
				resource: "configmaps", namespace: c.namespace(0), name: c.name(0),
				body: []byte(`{"preconditions":{"uid":"uid-1"}}`)}
			c.before(request)
			c.after(request, 0, nil, errDead)
			for _, annotations := range []map[string]string{test.then, test.later} {
				obj := c.live("uid-1", annotations, hubv1alpha1.FieldManager)
				obj.SetFinalizers([]string{blocker})
				obj.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
				c.observeObject(west, obj, false)
			}
			c.attribute()
			c.expect(test.rule)
		})
	}
}

func TestWritesAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		object, cluster int
		happened        func(c *court)
		rule            string
	}{
		"listed and wanted":  {0, west, func(*court) {}, ""},
		"in another cluster": {0, east, func(*court) {}, "the inventory is written ahead"},
		"not listed":         {5, west, func(c *court) { c.change(func(s *state) { s.secrets[0].entries[5] = entry{} }) }, "the inventory is written ahead"},
		"never asked for":    {5, west, func(c *court) { c.resource(0, 5) }, "only what is asked for is written"},
		"asked for by a change that is not answered yet": {5, west, func(c *court) {
			c.resource(0, 5)
			next := c.state.clone()
			next.secrets[0].entries[5] = entry{}
			c.narrow(next)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			test.happened(c)
			raw, err := json.Marshal(c.body(test.object, 1, map[string]any{resourcesv1alpha1.OriginAnnotation: c.origin(0)}))
			c.Expect(err).NotTo(HaveOccurred())
			c.before(&call{instance: &instance{}, cluster: test.cluster, method: http.MethodPatch, resource: "configmaps",
				namespace: c.namespace(test.object), name: c.name(test.object), body: raw})
			c.expect(test.rule)
		})
	}
}

func TestTargetsKeepTheirIdentity(t *testing.T) {
	for name, test := range map[string]struct {
		confirm bool
		rule    string
	}{
		"confirmed":     {true, ""},
		"not confirmed": {false, "a target changes its identity only with a confirmation"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.space(0), Name: registrationName(0)}}
			tc.Status.ClusterUID = "uid-west"
			c.observeTarget(tc, false)
			c.change(func(s *state) { s.registrations[0].cluster, s.registrations[0].confirm = east, test.confirm })
			tc.Status.ClusterUID = "uid-east"
			c.observeTarget(tc, false)
			c.expect(test.rule)
		})
	}
}

func TestCallsThroughRegistrationsAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		paused bool
		uid    types.UID
		since  time.Duration
		rule   string
	}{
		"as ever":             {false, "uid-west", time.Hour, ""},
		"paused":              {true, "uid-west", time.Hour, "a paused target is not written to"},
		"paused a moment ago": {true, "uid-west", 0, ""},
		"no longer paused":    {true, "uid-west", time.Hour, ""},
		"another cluster":     {false, "uid-east", time.Hour, "a target whose identity changed gets no call"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			c.change(func(s *state) { s.registrations[0].confirm = false })
			tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.space(0), Name: registrationName(0)}}
			tc.Spec.Paused, tc.Status.ClusterUID = test.paused, test.uid
			c.observeTarget(tc, false)
			c.targets[0].paused.since = time.Now().Add(-test.since)
			c.targets[0].mismatch.since = time.Now().Add(-test.since)
			if name == "no longer paused" {
				c.change(func(s *state) { s.registrations[0].paused = true })
				c.change(func(s *state) { s.registrations[0].paused = false })
			}
			c.before(&call{instance: &instance{}, via: c.via(0), cluster: west, method: http.MethodPatch,
				resource: "configmaps", name: "x"})
			c.expect(test.rule)
		})
	}
}

func TestWhoHasASayInADeletion(t *testing.T) {
	hub, now := &instance{started: time.Now().Add(-time.Minute)}, time.Now()
	const ours, other = 0, registrations
	for name, test := range map[string]struct {
		m, via  int // the ManagedResource, and the registration of the deletion
		cluster int
		happens func(c *court)
		says    bool
	}{
		"in its namespace": {0, ours, west, func(*court) {}, true},
		"in another one, that the hub knows": {0, other, west,
			func(c *court) { c.reached[ours] = reached{hub, west, now.Add(-time.Hour)} }, true},
		"in another one, that the hub did not meet": {0, other, west, func(*court) {}, false},
		"in another one, met a moment ago": {0, other, west,
			func(c *court) { c.reached[ours] = reached{hub, west, now} }, false},
		"in another one, as before a start": {0, other, west,
			func(c *court) { c.leads[ours][west].since = now.Add(-time.Hour) }, true},
		"in another one, that left": {0, other, west, func(c *court) {
			c.reached[ours] = reached{hub, west, now.Add(-time.Hour)}
			c.change(func(s *state) { s.registrations[ours].exists = false })
		}, false},
		"of the operator's class":                   {seedSpace * resourcesEach, ours, west, func(*court) {}, true},
		"of the operator's class, in another place": {seedSpace * resourcesEach, ours, east, func(*court) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			test.happens(c)
			c.Expect(c.hasSay(test.m, &call{instance: hub, via: c.via(test.via), cluster: test.cluster},
				now)).To(Equal(test.says))
		})
	}
}

func TestNamesAreJudged(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, resource, body string
		rule                      string
	}{
		"of its own namespace": {"w-space0", "managedresources",
			`{"status":{"conditions":[{"message":"w-space0/mr1 lists it"}]}}`, ""},
		"of the hostile one": {"w-space0", "managedresources",
			`{"status":{"conditions":[{"message":"w-hostile/mr1 lists it"}]}}`, "names stay in their namespace"},
		"of honest ones": {"w-hostile", "targetclusters",
			`{"status":{"conditions":[{"message":"also registered as w-space1/r0"}]}}`,
			"names stay in their namespace"},
		"of honest ones in an event": {"w-hostile", "events", `{"note":"w-space1/mr0"}`,
			"names stay in their namespace"},
		"that it wrote itself": {"w-hostile", "managedresources",
			`{"status":{"conditions":[{"message":"forged for w-space1/mr0"}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourt(t)
			c.before(&call{instance: &instance{}, cluster: west, method: http.MethodPatch, resource: test.resource,
				namespace: test.namespace,
				name:      "x", body: []byte(test.body)})
			c.expect(test.rule)
		})
	}
}
