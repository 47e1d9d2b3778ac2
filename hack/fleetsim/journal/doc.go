// Package journal records what simulated API servers were asked for and what was written to them, and judges it.
//
// A server reports every answer (Answered) and every write that it accepted (Wrote) to its Target. Out of that come
//
//   - counts of requests by verb, resource, code and user agent, with bytes and time (Counts),
//   - the history of writes (History), and checks over it: Repeated, Flapping, CreatedTwice, WrongDeletes and
//     TwoAtATime. Each gives a Verdict with findings that name the object, the times and the writers,
//   - times as the server sees them: how long edits lasted until the owner corrected them, and how long a change took
//     from its source to the server (CorrectionsIn), and when the last of all targets had it (Journal.Reached).
//
// What a check means is the caller's to say: which writers it judges (Writers), what they may delete, which of them are
// replicas of one another (ByConnection distinguishes those of one program). The package knows nothing of the hub.
//
// How it stays cheap. Both hooks are called for each request of a thousand servers, so a target shares no lock with
// another, and neither allocates in the steady state: a count is found by a key that is hashed in place, and the
// strings of a history are interned, since the same names are written to every target. Distinct counts are bounded, and
// so is the history, which is a ring.
//
// What is given up. A ring forgets its oldest writes. A verdict says of how many targets it is not the whole story, and
// is not clean then: that nothing was found in half a history proves nothing. A correction is over when the content is
// the very same again, or when a newer change of the source takes its place.
package journal
