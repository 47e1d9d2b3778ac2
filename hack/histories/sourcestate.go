package histories

import (
	"maps"
	"slices"
)

// faultOf a Secret is why it cannot be read.
type faultOf int

const (
	faultNone     faultOf = iota
	faultDocument         // some documents are no YAML
	faultKind             // some documents are of an unknown kind
	faultNameless         // some documents have no name
	faultBrotli           // the value is cut off in the middle
	faults
)

// secret is the content of a ManagedResource, or a part of it.
type secret struct {
	exists  bool
	brotli  bool
	fault   faultOf
	entries map[int]entry
}

// hidden are the objects whose documents cannot be read: every second one, the first included.
func (s secret) hidden() (out []int) {
	if s.fault == faultNone {
		return nil
	}
	for i, o := range slices.Sorted(maps.Keys(s.entries)) {
		if i%2 == 0 || s.fault == faultBrotli {
			out = append(out, o)
		}
	}
	return out
}

// hides reports whether what cannot be read may ask for an object. A document of an unknown kind with mode=Ignore does
// not: it names something that is to be left alone and that no target has, which is no fault, and the object of the
// right kind is in no document.
func (s secret) hides() bool {
	if s.fault == faultKind && len(s.entries) > 0 {
		return slices.ContainsFunc(s.hidden(), func(o int) bool { return !s.entries[o].modeIgnore })
	}
	return s.fault != faultNone
}

func (s secret) clone() secret {
	s.entries = maps.Clone(s.entries)
	return s
}

// resource is what users say of a ManagedResource.
type resource struct {
	wanted bool // it was created and not deleted since
	class  int  // index of classes
	keep   bool
	ignore bool
	force  bool
	pick   int // which registration its label names, -1 for none
	refs   []int
}

// registration leads to a cluster.
type registration struct {
	exists  bool
	cluster int
	classB  bool
	confirm bool
	paused  bool
}

// state is what users say. It changes only by steps, and is what everything is judged by.
type state struct {
	secrets       [spaces * resourcesEach * secretsEach]secret
	resources     [spaces * resourcesEach]resource
	registrations [spaces * registrations]registration
}

func (s *state) clone() *state {
	out := *s
	for i := range out.secrets {
		out.secrets[i] = out.secrets[i].clone()
	}
	for i := range out.resources {
		out.resources[i].refs = slices.Clone(out.resources[i].refs)
	}
	return &out
}

// target is the cluster where a ManagedResource belongs, -1 for none.
func (s *state) target(m int) int {
	r := s.resources[m]
	space := spaceOfResource(m)
	switch classes[r.class] {
	case "seed":
		if space == seedSpace {
			return west
		}
		return -1
	case "", "b":
	default:
		return -1
	}
	found := -1
	for i := range registrations {
		reg := s.registrations[space*registrations+i]
		if !reg.exists || reg.classB != (classes[r.class] == "b") || r.pick >= 0 && r.pick != i {
			continue
		}
		if found >= 0 {
			return -1 // ambiguous
		}
		found = reg.cluster
	}
	return found
}

// registered reports whether a registration of a space leads to a cluster for certain.
func (s *state) registered(space, cluster int) bool {
	return slices.ContainsFunc(s.registrations[space*registrations:(space+1)*registrations], func(r registration) bool {
		return r.exists && r.confirm && r.cluster == cluster
	})
}

// wish is what a ManagedResource asks for one object.
type wish int

const (
	unwanted wish = iota
	wanted
	released // listed with mode=Ignore: not managed, and to be left alone
)

// releases reports whether some manifest asks not to manage an object, and so has the hub's marks taken off.
func (s *state) releases(object int) bool {
	for i := range s.secrets {
		if s.secrets[i].entries[object].modeIgnore {
			return true
		}
	}
	return false
}

// bundle is what can be read of a ManagedResource's content, and whether that is all of it. Of objects that several
// Secrets hold the last one counts, but for those that ask not to be managed if another one asks for it.
func (s *state) bundle(m int) (entries map[int]entry, possible map[int]bool, complete bool) {
	entries, possible, complete = map[int]entry{}, map[int]bool{}, true
	for _, i := range s.resources[m].refs {
		sec := s.secrets[i]
		if !sec.exists || sec.hides() {
			complete = false
		}
		if !sec.exists {
			continue
		}
		hidden := sec.hidden()
		for o, e := range sec.entries {
			possible[o] = possible[o] || !e.modeIgnore
			if other, ok := entries[o]; !slices.Contains(hidden, o) && (!ok || other.modeIgnore || !e.modeIgnore) {
				entries[o] = e
			}
		}
	}
	return entries, possible, complete
}
