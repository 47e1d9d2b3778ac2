package apiserver

import (
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// controllers do what follows from a write a moment later. They have a goroutine only while there is something to do.
type controllers struct {
	mu             sync.Mutex
	running, again bool
	defined        bool    // a CustomResourceDefinition was written
	owners         []owner // wait for what the garbage collector does
	group          sync.WaitGroup
}

// owner is an object that is being deleted.
type owner struct {
	resource *kinds.Resource
	key      string
}

func (c *controllers) wait() {
	// No goroutine is started after this: kick looks at the end of the server under the same lock.
	c.mu.Lock()
	c.mu.Unlock() //nolint:staticcheck // see above
	c.group.Wait()
}

// afterWrite does what follows from a write: kinds are served from now on or not any longer, and the controllers have a
// look.
func (c *call) afterWrite(o *storage.Object) {
	defined := c.group() == customResources
	if defined {
		c.refresh()
	}
	if !defined && !o.Terminating() {
		return
	}
	s := c.Server
	s.control.mu.Lock()
	defer s.control.mu.Unlock()
	s.control.again = true
	s.control.defined = s.control.defined || defined
	if o.HasFinalizer(metav1.FinalizerOrphanDependents) || o.HasFinalizer(metav1.FinalizerDeleteDependents) {
		s.control.owners = append(s.control.owners, owner{c.resource, o.Key()})
	}
	if s.control.running || s.stopped.Err() != nil || s.o.prepares {
		return
	}
	s.control.running = true
	s.control.group.Go(func() {
		for s.step() {
		}
	})
}

// step does what is to be done now, and reports whether there was anything.
func (s *Server) step() bool {
	s.control.mu.Lock()
	s.control.running = s.control.again && s.stopped.Err() == nil
	again, defined, owners := s.control.running, s.control.defined, s.control.owners
	s.control.again, s.control.defined, s.control.owners = false, false, nil
	s.control.mu.Unlock()
	if !again {
		return false
	}
	s.establish(defined)
	if !s.o.NoControllers {
		s.finish(owners)
		s.emptyNamespaces()
	}
	return true
}

// agent is the call of a controller.
func (s *Server) agent(r schema.GroupVersionResource) (*call, bool) {
	resource, ok := s.registry.Load().Resource(r)
	return s.agentFor(resource), ok
}

func (s *Server) agentFor(r *kinds.Resource) *call {
	return &call{Server: s, resource: r, agentName: "kube-controller-manager", user: User{Name: "system:kube-controller-manager"}}
}

// modify changes an object without the checks for clients. It is removed if nothing keeps it any longer.
func (c *call) modify(key string, fn func(u *unstructured.Unstructured)) {
	for range attempts {
		live := c.store.Get(c.group(), key)
		if live == nil {
			return
		}
		u := c.decode(live)
		fn(u)
		next, err := storage.New(u)
		if err != nil || next.SameContent(live) {
			return // it cannot be spoilt by taking something away
		}
		remove := live.Terminating() && len(u.GetFinalizers()) == 0 && graceIsOver(u) && c.finalized(u)
		w := kinds.Write{Verb: kinds.Update, Manager: c.agentName}
		err = c.store.Write(func(tx storage.Tx) error {
			if tx.Get(c.group(), key) != live {
				return errChanged
			}
			if remove {
				c.wrote(w, live, nil, c.erase(tx, key))
				return nil
			}
			next = tx.Put(c.group(), next)
			c.wrote(w, live, next, next.Version())
			return nil
		})
		if !errors.Is(err, errChanged) {
			return
		}
	}
}

// updateStatus writes the status of an object as kube-apiserver itself does, with managed fields for it. If the object
// has changed meanwhile, nothing happens: it is looked at again then.
func (c *call) updateStatus(o *unstructured.Unstructured) {
	body, err := json.Marshal(o)
	if err != nil {
		return // it came from the store
	}
	writer := *c
	writer.name, writer.subresource, writer.agentName = o.GetName(), "status", "kube-apiserver"
	_, _ = writer.commit(kinds.Write{
		Verb: kinds.Update, Subresource: "status", Manager: writer.agentName, Body: body, Name: o.GetName(), Now: c.o.Clock(),
	}, false)
}

// background is how the controllers delete.
func background() *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
}

// empty deletes all objects of a resource, or those in a namespace, and reports whether none is left.
func (c *call) empty(namespace string) bool {
	objects, _, _ := c.store.List(c.group(), namespace, 0) // the newest state is always known
	left := false
	for _, o := range objects {
		if o.Terminating() {
			left = true // until a client removes its finalizers
			continue
		}
		_, gone, err := c.remove(o.Key(), background())
		left = left || !gone && !apierrors.IsNotFound(err)
	}
	return !left
}

// emptyNamespaces deletes what is in namespaces that are being deleted, and lets them go once nothing is.
func (s *Server) emptyNamespaces() {
	c, ok := s.agent(namespaces.WithVersion("v1"))
	if !ok {
		return
	}
	all, _, _ := s.store.List(namespaces, "", 0)
	for _, namespace := range all {
		if !namespace.Terminating() {
			continue
		}
		empty := true
		for _, r := range s.registry.Load().Resources() {
			if r.Namespaced && slices.Contains(r.Verbs, "delete") {
				if content, ok := s.agent(r.GVR); ok {
					empty = content.empty(namespace.Name()) && empty
				}
			}
		}
		if empty {
			c.modify(namespace.Key(), func(u *unstructured.Unstructured) {
				unstructured.RemoveNestedField(u.Object, "spec", "finalizers")
			})
		}
	}
}

// finish takes away the finalizers that the garbage collector of a real cluster would, after it has seen to the dependents.
func (s *Server) finish(owners []owner) {
	for _, o := range owners {
		c := s.agentFor(o.resource)
		c.modify(o.key, func(u *unstructured.Unstructured) {
			u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool {
				return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
			}))
		})
	}
}

// crdFinalizer keeps a CustomResourceDefinition until its instances are gone.
const crdFinalizer = "customresourcecleanup.apiextensions.k8s.io"

// refresh makes the registry again from the CustomResourceDefinitions there are.
func (s *Server) refresh() {
	s.crds.Lock()
	defer s.crds.Unlock()
	var served []*unstructured.Unstructured
	for _, crd := range s.Objects(customResources.WithVersion("v1")) {
		if conditionIs(crd, "Established", "True") {
			served = append(served, crd)
		}
	}
	registry, err := kinds.BuiltIn().With(served)
	if err != nil {
		return // what is stored was checked; the kinds of before are served on
	}
	s.serve(registry)
}

// serve begins to serve what is in the registry.
func (s *Server) serve(registry *kinds.Registry) {
	for _, r := range registry.Resources() {
		if r.Custom() {
			s.store.Serve(r.GVR.GroupResource())
		}
	}
	s.registry.Store(registry)
}

// erase removes an object; with a CustomResourceDefinition go its instances, so that they do not return with the next one of its name.
func (c *call) erase(tx storage.Tx, key string) (version uint64) {
	version = tx.Delete(c.group(), key)
	if c.group() == customResources {
		tx.Drop(schema.ParseGroupResource(key)) // it is named after what it defines
	}
	return version
}

// establish accepts CustomResourceDefinitions if any was written, and deletes the instances of those that are being deleted.
func (s *Server) establish(written bool) {
	c, ok := s.agent(customResources.WithVersion("v1"))
	if !ok {
		return
	}
	all, _, _ := s.store.List(customResources, "", 0) // the newest state is always known
	for _, o := range all {
		if !written && !o.Terminating() {
			continue
		}
		crd, now := c.decode(o), s.o.Clock().UTC().Format(time.RFC3339)
		switch {
		case crd.GetDeletionTimestamp() != nil && slices.Contains(crd.GetFinalizers(), crdFinalizer):
			s.deleteInstances(c, crd, now)
		case crd.GetDeletionTimestamp() == nil && !conditionIs(crd, "Established", "True"):
			setCondition(crd, now, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
			setCondition(crd, now, "Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
			acceptNames(crd)
			c.updateStatus(crd)
			s.refresh()
		case crd.GetDeletionTimestamp() == nil:
			c.modify(crd.GetName(), acceptNames)
		}
	}
}

// acceptNames copies the names into the status.
func acceptNames(crd *unstructured.Unstructured) {
	if names, ok, _ := unstructured.NestedMap(crd.Object, "spec", "names"); ok {
		_ = unstructured.SetNestedMap(crd.Object, names, "status", "acceptedNames") // a status is an object
	}
}

// deleteInstances deletes the instances of a CustomResourceDefinition, and lets it go once none is left.
func (s *Server) deleteInstances(c *call, crd *unstructured.Unstructured, now string) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	of := schema.GroupResource{Group: group, Resource: plural}
	for _, r := range s.registry.Load().Resources() {
		if r.GVR.GroupResource() != of {
			continue
		}
		instances, _ := s.agent(r.GVR)
		if !instances.empty("") {
			c.modify(crd.GetName(), func(u *unstructured.Unstructured) {
				setCondition(u, now, "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
			})
			return
		}
		break
	}
	c.modify(crd.GetName(), func(u *unstructured.Unstructured) {
		u.SetFinalizers(slices.DeleteFunc(u.GetFinalizers(), func(f string) bool { return f == crdFinalizer }))
		setCondition(u, now, "Terminating", "False", "InstanceDeletionCompleted", "removed all instances")
	})
	s.refresh() // if other finalizers keep it, it is not looked at again, for its own is gone
}

func conditionIs(u *unstructured.Unstructured, kind, status string) bool {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == kind && m["status"] == status
	})
}

func setCondition(u *unstructured.Unstructured, now, kind, status, reason, message string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	condition := map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
	i := slices.IndexFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == kind
	})
	if i < 0 {
		conditions = append(conditions, condition)
	} else {
		if old, _ := conditions[i].(map[string]any); old["status"] == status {
			condition["lastTransitionTime"] = old["lastTransitionTime"]
		}
		conditions[i] = condition
	}
	_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions") // a status is an object
}
