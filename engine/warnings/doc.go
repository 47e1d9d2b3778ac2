// Package warnings reads the last Warning events of an object. For a load balancer that does not come, they are the
// only place where the cloud's answer can be read.
//
// Notes are written so that they stay the same while the same goes on: they name when something began, not how long
// ago, and of how often it happened only the magnitude.
package warnings
