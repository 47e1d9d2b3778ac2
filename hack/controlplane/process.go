package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tailBytes bounds what LogTail and errors quote of a log.
const tailBytes = 4 << 10

// process is a running or ended component. Its log is <name>.log in its working directory.
type process struct {
	name    string
	cmd     *exec.Cmd
	log     string
	logged  int64 // what earlier processes wrote there, in bytes
	started time.Time
	// done is closed when the process has ended; err says how.
	done chan struct{}
	err  error
}

// environment configures the Go runtime of a component.
func (s Share) environment() (env []string) {
	for name, value := range map[string]int64{"GOGC": int64(s.HeapGrowth), "GOMEMLIMIT": s.MemoryLimit} {
		if value > 0 {
			env = append(env, fmt.Sprintf("%s=%d", name, value))
		}
	}
	if s.TraceCollections {
		env = append(env, "GODEBUG=gctrace=1")
	}
	return env
}

// startProcess starts a component in the process group of the guard, with dir as working directory.
func startProcess(guard *guard, dir string, share Share, name string, args ...string) (*process, error) {
	path, err := findAsset(name)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(logPath(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()

	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	// Nothing of the caller's environment may change how a control plane behaves, proxies and Go runtime settings included.
	cmd.Env = append(share.environment(), "HOME="+dir, "TMPDIR="+dir, "PATH="+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: guard.group()}
	earlier, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the log of %s: %w", name, err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log.Name(), logged: earlier.Size(), started: started, done: make(chan struct{})}
	go p.wait()
	return p, nil
}

// wait is the only goroutine of a process and ends with it.
func (p *process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure is the error of a process that has ended before its time; it quotes the log.
func (p *process) failure() error {
	return fmt.Errorf("%s ended: %w, its log ends with:\n%s", p.name, p.err, tail(p.log))
}

func (p *process) signal(signal syscall.Signal) error {
	if p == nil || p.ended() {
		return errors.New("not running")
	}
	return p.cmd.Process.Signal(signal)
}

// stopTimeout is how long a busy machine may take to stop all threads of a process.
const stopTimeout = 10 * time.Second

// awaitStop returns when no thread of a process that got a signal to stop runs any longer: on a busy machine some
// continue for a moment, and answer. Where the kernel does not show threads it returns at once.
func (p *process) awaitStop() {
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline) && !p.ended(); time.Sleep(time.Millisecond) {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid)) // the pattern is valid
		running := slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			if err != nil {
				return false // it has just ended
			}
			// The state follows the name, which is in parentheses and may contain anything.
			state := strings.TrimSpace(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			return !strings.HasPrefix(state, "T")
		})
		if !running {
			return
		}
	}
}

// terminate asks the process to end and kills it if it has not done so in time.
func (p *process) terminate(grace time.Duration) {
	if p.signal(syscall.SIGTERM) != nil {
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

// kill ends the process, frozen or not, and waits until it is gone.
func (p *process) kill() {
	if p.signal(syscall.SIGKILL) == nil {
		<-p.done
	}
}

func logPath(dir, name string) string {
	return filepath.Join(dir, name+".log")
}

// tail returns the last whole lines of a file.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	cut := false
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = file.Seek(-tailBytes, io.SeekEnd)
		cut = true
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	text := string(content)
	if _, rest, found := strings.Cut(text, "\n"); cut && found {
		text = rest
	}
	return text
}
