package health

import "github.com/trellis-hub/trellis/untrusted"

// Severity says how bad a problem is. Greater is worse.
type Severity int

const (
	// Fine means that there is no problem.
	Fine Severity = iota
	// Waiting is for what normally resolves itself soon: the status is about an earlier generation, a container is
	// starting.
	Waiting
	// Unavailable is for what does not work now and may resolve itself.
	Unavailable
	// Failed is for what will probably not resolve itself without a change by a user.
	Failed
	// Missing is for callers that find no object. This package does not return it.
	Missing
)

// Problem is what is wrong with an object. The zero value means that nothing is.
type Problem struct {
	Severity Severity
	// Message names the cause, not the object. It is bounded.
	Message string
}

// waiting, unavailable and failed make a problem of a message, unless it is empty. They bound it.
func waiting(message string) Problem     { return problem(Waiting, message) }
func unavailable(message string) Problem { return problem(Unavailable, message) }
func failed(message string) Problem      { return problem(Failed, message) }

func problem(severity Severity, message string) Problem {
	if message == "" {
		return Problem{}
	}
	return Problem{Severity: severity, Message: untrusted.Text(message, maxMessage)}
}

// worst returns the most severe problem; of several the first.
func worst(problems ...Problem) (worst Problem) {
	for _, p := range problems {
		if p.Severity > worst.Severity {
			worst = p
		}
	}
	return worst
}
