package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// Snapshot is what a server holds at one moment. It is never modified; any number of servers may load it, and share its content.
type Snapshot struct {
	objects  *storage.Snapshot
	registry *kinds.Registry
}

// Count returns how many objects the snapshot has.
func (s *Snapshot) Count() int { return s.objects.Count() }

// Snapshot returns what the server holds now.
func (s *Server) Snapshot() *Snapshot {
	s.crds.Lock()
	defer s.crds.Unlock()
	return &Snapshot{objects: s.store.Snapshot(), registry: s.registry.Load()}
}

// Load fills a server that was not written to yet. The objects' uids follow from the seed, but for the uid of
// namespaces that were there: the server stays who it is.
func (s *Server) Load(snapshot *Snapshot, seed int64) error {
	s.crds.Lock()
	defer s.crds.Unlock()
	if s.registry.Load() != kinds.BuiltIn() || s.store.Count() > 4 {
		return fmt.Errorf("loading a snapshot into API server %q: it is not empty", s.o.Name)
	}
	random := seeded('l', seed)
	s.store.Load(snapshot.objects, func() uuid.UUID { return draw(random) })
	s.serve(snapshot.registry)
	return nil
}

// Prepare applies objects in the name of a field manager, their status too, and returns the outcome. CustomResourceDefinitions and
// namespaces come first, everything else in the order given.
func Prepare(objects []*unstructured.Unstructured, manager string, now time.Time) (*Snapshot, error) {
	s, err := New(Options{Name: "prepared", NoControllers: true, Clock: func() time.Time { return now }, prepares: true})
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	established := false
	for _, o := range objects {
		if !established && rank(o) > 0 {
			s.establish(true)
			established = true
		}
		if err := s.apply(o, manager, now); err != nil {
			return nil, fmt.Errorf("preparing %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
	s.establish(true)
	return s.Snapshot(), nil
}

func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "CustomResourceDefinition":
		return 0
	case "Namespace":
		return 1
	}
	return 2
}

func (s *Server) apply(o *unstructured.Unstructured, manager string, now time.Time) error {
	gvk := o.GroupVersionKind()
	i := slices.IndexFunc(s.registry.Load().Resources(), func(r *kinds.Resource) bool { return r.GVK() == gvk && slices.Contains(r.Verbs, "list") })
	if i < 0 {
		return errors.New("no resource of the kind " + gvk.String())
	}
	c := &call{Server: s, resource: s.registry.Load().Resources()[i], namespace: o.GetNamespace(), name: o.GetName(), agentName: manager}
	o = o.DeepCopy()
	for _, name := range []string{"managedFields", "uid", "resourceVersion", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", name)
	}
	for _, subresource := range []string{"", "status"} {
		if _, has := o.Object["status"]; subresource == "status" && (!has || !c.resource.HasStatus) {
			continue
		}
		body, err := json.Marshal(o.Object)
		if err != nil {
			return err
		}
		_, err = c.commit(kinds.Write{
			Verb: kinds.Apply, PatchType: types.ApplyYAMLPatchType, Body: body, Manager: manager, Force: true,
			Subresource: subresource, Namespace: c.namespace, Name: c.name, Now: now,
		}, false)
		if err != nil {
			return err
		}
	}
	return nil
}
