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

// poll is the interval at which a wait checks again.
const poll = 500 * time.Millisecond

// Progress prints what is waited for: on a terminal in one line that is overwritten, else in a line for each change.
type Progress struct {
	out      io.Writer
	terminal bool
	clock    clock.PassiveClock
	start    time.Time
	last     string
	drawn    int
}

// Progress returns a Progress that prints on stderr.
func (e *Env) Progress() *Progress {
	return &Progress{out: e.ErrOut, terminal: printers.IsTerminal(e.ErrOut), clock: e.Clock, start: e.Clock.Now()}
}

// Say prints what is waited for now.
func (p *Progress) Say(text string) {
	text = FirstLine(text)
	switch {
	case p.terminal:
		p.drawn++
		fmt.Fprintf(p.out, "\r\x1b[K%c %s (%s)", `|/-\`[p.drawn%4], text, p.clock.Since(p.start).Round(time.Second))
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

// Await polls until done, a timeout (ExitTimeout), or an error other than an unreachable source cluster. state is what
// is waited for.
func (e *Env) Await(ctx context.Context, timeout time.Duration,
	look func(context.Context) (done bool, state string, err error)) error {
	return e.AwaitEvery(ctx, poll, timeout, look)
}

// AwaitEvery is Await with another pause between two looks.
func (e *Env) AwaitEvery(ctx context.Context, pause, timeout time.Duration,
	look func(context.Context) (done bool, state string, err error)) error {
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
		case <-e.Clock.After(pause):
		}
	}
}

// IsTimeout reports whether an error is the timeout of a wait.
func IsTimeout(err error) bool {
	var failure *ExitError
	return errors.As(err, &failure) && failure.Code == ExitTimeout
}
