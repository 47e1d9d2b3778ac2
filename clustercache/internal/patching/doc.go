// Package patching sends patches and reads the metadata that comes as their answers.
//
// It is a metadata client of client-go, but for patches: to bring an object into a target takes one, and of all that a hub
// allocates for it a tenth was what client-go builds around a request: URL templates for metrics that nobody takes, a timer,
// retries, buffers that grow with the answer.
//
// Whoever calls it finds no difference. Answers and errors are the same, and what client-go does when a server is busy is left
// to it: a patch that was refused with a time to try again is handed over after that time, so that it is sent once more. The same goes for
// names that no object can have, since it is client-go that knows what becomes of them in an address.
//
// Trade-offs: requests that are sent here are not among rest_client_requests_total. The transport of a connection counts them.
package patching
