package connection

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// reasonEvery and sameReasonEvery are how often the log reports why a target cannot be reached, unless its state
	// changes: targets may fail in another way each time.
	reasonEvery     = time.Minute
	sameReasonEvery = time.Hour
)

// FailureLog reports to the operator, in the log, why a target cannot be reached, instead of in conditions and events,
// which tenants see. The zero value is ready for use.
type FailureLog struct {
	mu     sync.Mutex
	last   string
	logged time.Time
}

// Repeat makes the next reason be logged in any case.
func (l *FailureLog) Repeat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logged = time.Time{}
}

// Log logs a reason, if there is one, unless it was logged recently.
func (l *FailureLog) Log(log logr.Logger, now time.Time, details string) {
	if details == "" {
		return
	}
	l.mu.Lock()
	pause := reasonEvery
	if details == l.last {
		pause = sameReasonEvery
	}
	due := l.logged.IsZero() || now.Sub(l.logged) >= pause
	if due {
		l.last, l.logged = details, now
	}
	l.mu.Unlock()
	if due {
		log.Info("The target cannot be reached", "details", details)
	}
}
