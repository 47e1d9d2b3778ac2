// Package reviews sends objects to webhooks in tests of them, as an API server does: only if the selectors of an entry
// match, and with the patch applied. What a handler reads of its target is in memory.
//
// Every object is sent twice, the second time as the first answer has made it: webhooks have to leave that as it is.
// Nothing of this needs a network. Match conditions are not evaluated.
package reviews
