package fairqueue

import "container/heap"

// indexedHeap is a heap of things that know where in it they are, so that each can be removed or moved in O(log n).
type indexedHeap[T any] struct {
	things []T
	// before reports whether a comes before b.
	before func(a, b T) bool
	// index returns where a thing notes its place; notInHeap if it is in no heap.
	index func(T) *int
}

// notInHeap is the place of things that are in no heap.
const notInHeap = -1

// len returns how many things there are.
func (h *indexedHeap[T]) len() int { return len(h.things) }

// first returns the thing that comes before all others. There must be one.
func (h *indexedHeap[T]) first() T { return h.things[0] }

// push adds a thing.
func (h *indexedHeap[T]) push(thing T) { heap.Push((*ordered[T])(h), thing) }

// remove takes a thing out.
func (h *indexedHeap[T]) remove(thing T) { heap.Remove((*ordered[T])(h), *h.index(thing)) }

// update puts a thing where it belongs after what decides on its order has changed.
func (h *indexedHeap[T]) update(thing T) { heap.Fix((*ordered[T])(h), *h.index(thing)) }

// ordered is indexedHeap with the methods that container/heap needs. Only container/heap calls them.
type ordered[T any] indexedHeap[T]

func (o *ordered[T]) Len() int           { return len(o.things) }
func (o *ordered[T]) Less(i, j int) bool { return o.before(o.things[i], o.things[j]) }

func (o *ordered[T]) Swap(i, j int) {
	o.things[i], o.things[j] = o.things[j], o.things[i]
	*o.index(o.things[i]), *o.index(o.things[j]) = i, j
}

func (o *ordered[T]) Push(pushed any) {
	thing, _ := pushed.(T)
	*o.index(thing) = len(o.things)
	o.things = append(o.things, thing)
}

func (o *ordered[T]) Pop() any {
	last := len(o.things) - 1
	thing := o.things[last]
	var zero T
	o.things[last] = zero
	o.things = o.things[:last]
	*o.index(thing) = notInHeap
	return thing
}
