package controlplane

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// guardScript waits for the end of its input, which is the death of the process that started it. It removes the directory
// first because killing its own group is the last thing it does; twice because the components may still be writing.
const guardScript = `trap '' HUP INT TERM; read -r _; rm -rf "$1" || rm -rf "$1"; kill -KILL 0`

// guard leads the process group of a control plane and ends it when this process dies. doc.go explains why.
type guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// startGuard starts a guard that, besides killing its group, removes the given directory. Empty: none.
func startGuard(remove string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "trellis-control-plane-guard", remove)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the pipe of the guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the guard: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

func (g *guard) group() int { return g.cmd.Process.Pid }

// killGroup kills the guard and with it all processes of its group.
func (g *guard) killGroup() {
	_ = syscall.Kill(-g.group(), syscall.SIGKILL)
	_ = g.cmd.Wait()
	_ = g.pipe.Close()
}

// dirPrefix is followed by the process that owns the directory.
const dirPrefix = "trellis-control-plane-"

var dirPattern = regexp.MustCompile(`^` + dirPrefix + `(\d+)-`)

// makeTempDir makes a directory that is known to belong to this process.
func makeTempDir(name string) (string, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-%s-", dirPrefix, os.Getpid(), name))
	if err != nil {
		return "", fmt.Errorf("cannot make a directory for the control plane: %w", err)
	}
	return dir, nil
}

// sweep removes what is left of directories of dead processes. Whatever it cannot remove it leaves to the next one.
func sweep() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, entry := range entries {
		match := dirPattern.FindStringSubmatch(entry.Name())
		if match == nil || !entry.IsDir() {
			continue
		}
		pid, err := strconv.Atoi(match[1])
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.RemoveAll(filepath.Join(os.TempDir(), entry.Name()))
		}
	}
}

var unsafeCharacters = regexp.MustCompile(`[^a-z0-9]+`)

// safeName makes a name fit for files and kubeconfigs.
func safeName(name string) string {
	name = unsafeCharacters.ReplaceAllString(strings.ToLower(name), "-")
	return strings.Trim(name[:min(len(name), 40)], "-")
}
