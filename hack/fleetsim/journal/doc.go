// Package journal records what simulated API servers were asked for and what was written to them, and judges it.
//
// A server tells its Target of every answer (Answered) and of every write it accepted (Wrote). Out of that come
//
//   - counts of requests by verb, resource, code and user agent, with bytes and time (Counts),
//   - the history of writes (History), and checks over it: Repeated, Flapping, CreatedTwice, WrongDeletes and TwoAtATime. Each
//     gives a Verdict with findings that name the object, the times and the writers,
//   - latencies as the server sees them: how long drift lasted until the owner corrected it, and how long a change took from
//     its source to the server (Latencies), and when the last of all targets had it (Journal.Reached).
//
// What a check means is the caller's to say: which writers it judges (Writers), what they may delete, which of them are
// replicas of one another (ByConnection tells those of one program apart). The package knows nothing of the hub.
//
// How it stays cheap. Both hooks are called for each request of a thousand servers, so a target shares no lock with another,
// and neither allocates in the steady state: a count is found by a key that is hashed in place, and the strings of a history
// are interned, since the same names are written to every target. Everything is bounded: distinct counts, the history (a ring),
// objects that are watched for drift, and samples, which go to histograms of fixed size with an error of 3 %.
//
// What is given up. A ring forgets its oldest writes. A verdict says of how many targets it is not the whole story, and is not
// clean then: that nothing was found in half a history proves nothing. A drift is over when the content is the very same again;
// if the owner writes something else meanwhile, for its source has changed or because it leaves foreign labels alone, that is
// counted as superseded and is no sample.
package journal
