package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// progressInterval is how often a long build says that it continues.
const progressInterval = 20 * time.Second

// build builds a binary and prints its progress.
func build(ctx context.Context, label string, b binary, flags, target string) error {
	begin := time.Now()
	fmt.Printf("%s: building\n", label)

	var output output
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", flags, "-o", target, b.pkg)
	cmd.Dir = b.module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = &output, &output
	// Go removes its own temporary files when it is interrupted, not when it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second

	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			fmt.Printf("%s: %s after %.0f s\n", label, output.progress(), time.Since(begin).Seconds())
		case err := <-done:
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return fmt.Errorf("cannot build %s: %w\n%s", b.name, err, output.complaints())
			}
			fmt.Printf("%s: built in %.0f s\n", label, time.Since(begin).Seconds())
			return nil
		}
	}
}

// output collects what "go build -v" prints: a line for each module it downloads, one for each package it compiles, and
// what is wrong.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

// progress says in a few words how far the build is.
func (o *output) progress() string {
	modules, packages, _ := o.parse()
	return fmt.Sprintf("%d modules downloaded, %d packages compiled", modules, packages)
}

// complaints returns what is wrong.
func (o *output) complaints() string {
	_, _, complaints := o.parse()
	return strings.Join(complaints, "")
}

func (o *output) parse() (modules, packages int, complaints []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		switch {
		case strings.HasPrefix(line, "go: downloading "):
			modules++
		case len(strings.Fields(line)) == 1:
			packages++
		default:
			complaints = append(complaints, line)
		}
	}
	return modules, packages, complaints
}
