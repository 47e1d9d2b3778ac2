package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/clock"
)

// poll is the pause between two looks at what is waited for.
const poll = 500 * time.Millisecond

// Progress tells what a wait is waiting for: on a terminal in one line that changes, else in a line for each change.
type Progress struct {
	out      io.Writer
	terminal bool
	clock    clock.PassiveClock
	start    time.Time
	last     string
	turns    int
}

// Progress begins to tell, on stderr.
func (e *Env) Progress() *Progress {
	return &Progress{out: e.ErrOut, terminal: printers.IsTerminal(e.ErrOut), clock: e.Clock, start: e.Clock.Now()}
}

// Say tells what is waited for now.
func (p *Progress) Say(text string) {
	text = FirstLine(text)
	switch {
	case p.terminal:
		p.turns++
		fmt.Fprintf(p.out, "\r\x1b[K%c %s (%s)", `|/-\`[p.turns%4], text, p.clock.Since(p.start).Round(time.Second))
	case text != p.last:
		fmt.Fprintln(p.out, text)
	}
	p.last = text
}

// End clears the line of a terminal.
func (p *Progress) End() {
	if p.terminal && p.last != "" {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// Await looks again and again until done, or an error that is not a silence of the source cluster, or the timeout, which is
// ExitTimeout. state is what is waited for.
func (e *Env) Await(ctx context.Context, timeout time.Duration, look func(context.Context) (done bool, state string, err error)) error {
	progress := e.Progress()
	defer progress.End()
	end := e.Clock.Now().Add(timeout)
	for {
		done, state, err := look(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !IsUnreachable(err):
			return err
		case err != nil:
			state = "the source cluster does not answer: " + err.Error()
		case done:
			return nil
		}
		if !e.Clock.Now().Before(end) {
			return &ExitError{Code: ExitTimeout, Err: fmt.Errorf("gave up after %s: %s", timeout, Text(state))}
		}
		progress.Say(state)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.Clock.After(poll):
		}
	}
}

// IsTimeout reports whether a wait was given up.
func IsTimeout(err error) bool {
	var failure *ExitError
	return errors.As(err, &failure) && failure.Code == ExitTimeout
}
