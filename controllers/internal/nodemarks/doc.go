// Package nodemarks watches what controllers look for on the Nodes of targets. All of them subscribe to the same
// objects in the same form, so a target has one stream of Nodes for them, however many are switched on. A few bytes are
// kept of each Node.
//
// What one controller alone looks for is kept for all of them. That costs less than another stream, of some 24 KB in
// each target.
package nodemarks
