package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64

// onTerminal reports whether stdin and stderr are a terminal.
func (e *Env) onTerminal() bool {
	in, isFile := e.In.(*os.File)
	return isFile && printers.IsTerminal(in) && printers.IsTerminal(e.ErrOut)
}

// Confirm asks a question, and reports whether the answer is yes. asked is false if there is no terminal.
func (e *Env) Confirm(question string) (yes, asked bool) {
	if !e.Interactive() {
		return false, false
	}
	fmt.Fprintf(e.ErrOut, "%s [y/N] ", Text(question))
	answer, _ := bufio.NewReader(io.LimitReader(e.In, maxAnswer)).ReadString('\n') // an answer that cannot be read is a no
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, true
	}
	return false, true
}
