package ownership

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// All functions here take time in proportion to the size of their sets, except for a logarithmic factor, and to the
// depth of the fields, which is bounded: a target chooses the content.

// beside returns the elements of a set that another one, own, does not have. Maps and lists under which own has
// something are left out, too: a manager that updates owns them as well as their content, an applier owns the content
// alone. They hold nothing that own does not. The result shares its parts with the set. It takes the time of the set
// alone, however large own is.
func beside(set, own *fieldpath.Set) *fieldpath.Set {
	out := fieldpath.NewSet()
	set.Members.Iterate(func(pe fieldpath.PathElement) {
		if _, parent := own.Children.Get(pe); !parent && !own.Members.Has(pe) {
			out.Members.Insert(pe)
		}
	})
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		theirs, _ := set.Children.Get(pe)
		if ours, both := own.Children.Get(pe); both {
			theirs = beside(theirs, ours)
		}
		if !theirs.Empty() {
			*out.Children.Descend(pe) = *theirs
		}
	})
	return out
}

// filter returns the paths of a set that keep accepts, which must not hold on to them. prefix is where the set
// begins. No path is copied: those of somebody else's fields may be many and deep.
func filter(set *fieldpath.Set, prefix fieldpath.Path, keep func(fieldpath.Path) bool) *fieldpath.Set {
	out := fieldpath.NewSet()
	set.Members.Iterate(func(pe fieldpath.PathElement) {
		if keep(append(prefix, pe)) {
			out.Members.Insert(pe)
		}
	})
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		child, _ := set.Children.Get(pe)
		if kept := filter(child, append(prefix, pe), keep); !kept.Empty() {
			*out.Children.Descend(pe) = *kept
		}
	})
	return out
}

// union returns what is in any of some sets. Two at a time, the smallest number of times: one after the other, a
// thousand managers would copy what the first of them has a thousand times.
func union(sets []*fieldpath.Set) *fieldpath.Set {
	sets = slices.Clone(sets)
	for len(sets) > 1 {
		n := len(sets)
		for i := range n / 2 {
			sets[i] = sets[i].Union(sets[n-1-i])
		}
		sets = sets[:(n+1)/2]
	}
	if len(sets) == 0 {
		return fieldpath.NewSet()
	}
	return sets[0]
}

// coveredBy reports whether a path, or one of its ancestors, is in the set.
func coveredBy(p fieldpath.Path, set *fieldpath.Set) bool {
	for _, pe := range p {
		if set.Members.Has(pe) {
			return true
		}
		next, ok := set.Children.Get(pe)
		if !ok {
			return false
		}
		set = next
	}
	return false
}

// hasBelow reports whether a set has anything under a path.
func hasBelow(set *fieldpath.Set, path fieldpath.Path) bool {
	for _, pe := range path {
		next, ok := set.Children.Get(pe)
		if !ok {
			return false
		}
		set = next
	}
	return !set.Empty()
}

// below returns what a set has at a path and under it.
func below(set *fieldpath.Set, path fieldpath.Path) *fieldpath.Set {
	out := fieldpath.NewSet()
	if set.Has(path) {
		out.Insert(path)
	}
	at := out
	for _, pe := range path {
		next, ok := set.Children.Get(pe)
		if !ok {
			return out
		}
		set, at = next, at.Children.Descend(pe)
	}
	*at = *set
	return out
}

// Fields returns the paths that an intent sets, as far as they can be determined without a schema: map keys by name,
// and whole lists. It serves to name who changed something; nothing is decided by it.
func Fields(intent map[string]any) *fieldpath.Set {
	set := fieldpath.NewSet()
	for _, k := range slices.Sorted(maps.Keys(intent)) { // in their order each is appended
		pe := fieldpath.PathElement{FieldName: &k}
		if m, ok := intent[k].(map[string]any); ok && len(m) > 0 {
			*set.Children.Descend(pe) = *Fields(m)
		} else {
			set.Members.Insert(pe)
		}
	}
	return set
}
