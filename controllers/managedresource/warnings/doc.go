// Package warnings tells what the last Warning events of an object in a target say. For a load balancer that does not come,
// they are the only place where the cloud's answer can be read.
//
// Last reads them. A Reader does so beside everything else, for messages that stay in a status: it answers from memory and
// never waits. It reads when it is first asked for an object, at most once in a Pause after that, a few at a time, each with
// a deadline, and notifies the ManagedResource when there is something else to say.
//
// Notes are written so that they stay the same while the same goes on: they name when something began, not how long ago, and
// of how often it happened only the magnitude.
package warnings
