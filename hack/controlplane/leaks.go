package controlplane

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// VerifyTestMain runs the tests of a package and exits as Exit does.
func VerifyTestMain(m *testing.M, ignored ...goleak.Option) { Exit(m.Run(), ignored...) }

// Exit ends a test binary with a code. Goroutines that are left, other than those that are ignored, make a run fail that was good so far.
func Exit(code int, ignored ...goleak.Option) {
	if code == 0 {
		if err := AwaitGoroutines(ignored...); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left at the end:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// AwaitGoroutines waits until no goroutines are left but those that are ignored, and errs if some are after half a minute. Those of
// connections end a moment after the processes at their other end; goleak itself waits for less than half a second.
func AwaitGoroutines(ignored ...goleak.Option) error {
	for end := time.Now().Add(30 * time.Second); ; {
		if err := goleak.Find(ignored...); err == nil || time.Now().After(end) {
			return err
		}
	}
}
