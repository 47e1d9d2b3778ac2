//go:build race

package mapperpool

// instrumented is how many times as much is allocated under the race detector, which has pools forget some of what they
// hold.
const instrumented = 3
