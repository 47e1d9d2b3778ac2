// Package storage holds the objects of a simulated API server, and lets watches follow what happens to them.
//
//	s := storage.NewStore(1000)
//	o, err := storage.New(anUnstructured)
//	err = s.Write(func(tx storage.Tx) error {
//		o = tx.Put(deployments, o) // now with its version
//		return nil
//	})
//	list, w, err := s.ListAndWatch(deployments, "default")
//
// # How it works
//
// An Object is immutable, and made of parts: what is its own (key, uid, version, generation, times) and its content as JSON
// text, in four pieces: labels and other metadata, managedFields without their times, status, everything else. The pieces are
// interned process-wide with package unique, which forgets them with the last object that has them. So servers with the
// same objects share all of the text, and servers whose objects differ in a label or an annotation share the rest. An answer
// is put together from the pieces without parsing any; label selectors read the labels from the text.
//
// A Store has one lock, one counter for versions, and for each resource a list sorted by key and the last events. A Watch is no
// more than a place in those events: it costs a few words, has no goroutine and no buffer of its own. One that falls
// behind further than events are kept gets an error (ErrSlow). Events keep the content they replaced, so their bytes
// are limited as well as their number. An older version of a list is the list with the events since then undone.
//
// # What it costs
//
// Measured by the tests of this package, with objects of 4.1 KB of JSON, 1 KB of that managedFields:
//
//   - 146 bytes an object whose content another server has too, whether it was loaded from a snapshot or written;
//   - 3.3 KB an object whose spec and name no other object has;
//   - 0.4 to 0.75 MB a store for the events of thousands of writes, whatever they write (TestEventsHoldABoundedAmount);
//   - 0.5 µs of CPU to load an object from a snapshot, 2 µs to encode it.
//
// # Trade-offs
//
//   - A write decodes the object it changes and encodes the outcome: time for memory.
//   - To list or insert moves one pointer for each object of the resource, under the lock. It is meant for hundreds or a few
//     thousand.
//   - Transactions cannot be undone. They need not be: everything that can fail comes before the first Put.
package storage
