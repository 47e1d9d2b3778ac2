package secretindex

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// referrers are the ManagedResources that refer to a Secret. Nearly always that is one, which takes no map.
type referrers struct {
	one    types.NamespacedName // the zero name if there is none
	others map[types.NamespacedName]struct{}
}

func (r referrers) none() bool { return r.one == types.NamespacedName{} }

// with returns the referrers with one more, which was not among them. The ones before must not be used any longer.
func (r referrers) with(mr types.NamespacedName) referrers {
	if r.none() {
		return referrers{one: mr}
	}
	if r.others == nil {
		r.others = map[types.NamespacedName]struct{}{}
	}
	r.others[mr] = struct{}{}
	return r
}

// without returns the referrers without one. The ones before must not be used any longer.
func (r referrers) without(mr types.NamespacedName) referrers {
	if r.one != mr {
		delete(r.others, mr)
		return r
	}
	r.one = types.NamespacedName{}
	for next := range r.others {
		delete(r.others, next)
		r.one = next
		break
	}
	return r
}

// list returns the referrers as a list of its own.
func (r referrers) list() []types.NamespacedName {
	if r.none() {
		return nil
	}
	list := make([]types.NamespacedName, 1, 1+len(r.others))
	list[0] = r.one
	for mr := range maps.Keys(r.others) {
		list = append(list, mr)
	}
	return list
}
