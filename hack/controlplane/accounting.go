package controlplane

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat.
const clockTick = 10 * time.Millisecond

// CPU is the processor time that the operating system has accounted so far to each component that runs.
func (cp *ControlPlane) CPU() (map[string]time.Duration, error) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	used := map[string]time.Duration{}
	for name, p := range cp.processes {
		if p.ended() {
			continue
		}
		cpu, err := ProcessCPU(p.cmd.Process.Pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		used[name] = cpu
	}
	return used, nil
}

// ProcessCPU is the processor time, user and system, that the operating system has accounted to a process so far, to the
// hundredth of a second.
func ProcessCPU(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("accounting of a process: %w", err)
	}
	// The name of the process, in parentheses, is the only field that may hold spaces; user and system time are the 12th
	// and 13th behind it.
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("accounting of a process: unknown format")
	}
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("accounting of a process: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
