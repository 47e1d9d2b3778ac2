package ownership

import (
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// All functions here take time linear in the size of their sets, up to a logarithmic factor, and in the depth of the
// fields, which is bounded, because a target controls the content.

// notOwned returns the elements of a set that another one, own, does not have. Maps and lists below which own has
// elements are left out as well: a manager that updates owns them in addition to their content, an applier owns the
// content alone. The result shares its parts with the set. The time does not depend on the size of own.
func notOwned(set, own *fieldpath.Set) *fieldpath.Set {
	out := fieldpath.NewSet()
	set.Members.Iterate(func(pe fieldpath.PathElement) {
		if _, parent := own.Children.Get(pe); !parent && !own.Members.Has(pe) {
			out.Members.Insert(pe)
		}
	})
	set.Children.Iterate(func(pe fieldpath.PathElement) {
		theirs, _ := set.Children.Get(pe)
		if ours, both := own.Children.Get(pe); both {
			theirs = notOwned(theirs, ours)
		}
		if !theirs.Empty() {
			*out.Children.Descend(pe) = *theirs
		}
	})
	return out
}

// filter returns the paths of a set that keep accepts; keep must not retain them. prefix is the path of the set. Paths
// are not copied, since foreign fields may be many and deep.
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

// union returns the union of sets. It merges them pairwise: one after the other, the first of a thousand sets would be
// copied a thousand times.
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

// hasBelow reports whether a set has elements below a path.
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

// below returns the elements of a set at a path and below it.
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
// and whole lists.
func Fields(intent map[string]any) *fieldpath.Set {
	set := fieldpath.NewSet()
	for _, k := range slices.Sorted(maps.Keys(intent)) { // sorted, so that each is appended
		pe := fieldpath.PathElement{FieldName: &k}
		if m, ok := intent[k].(map[string]any); ok && len(m) > 0 {
			*set.Children.Descend(pe) = *Fields(m)
		} else {
			set.Members.Insert(pe)
		}
	}
	return set
}
