package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// These tests use no assertion library: its requirements would have a say in the versions of the servers.

func TestProvide(t *testing.T) {
	module := t.TempDir()
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, filepath.Join(module, "go.mod"), "one")

	calls := 0
	provideWith := func(arguments, content string, failure error) error {
		return provide(path, module, arguments, func(target string) error {
			calls++
			writeFile(t, target, content)
			return failure
		})
	}
	expect := func(step string, err, wantErr error, wantCalls int, wantContent string) {
		t.Helper()
		content, _ := os.ReadFile(path)
		if !errors.Is(err, wantErr) || calls != wantCalls || string(content) != wantContent {
			t.Fatalf("%s: error %v, %d calls, content %q; want %v, %d, %q", step, err, calls, content, wantErr, wantCalls, wantContent)
		}
	}
	broken := errors.New("broken")

	expect("a failure leaves nothing", provideWith("x", "half", broken), broken, 1, "")
	expect("made", provideWith("x", "first", nil), nil, 2, "first")
	expect("not made again", provideWith("x", "again", nil), nil, 2, "first")
	expect("a failure leaves what was there", provideWith("y", "half", broken), broken, 3, "first")
	expect("which still is what it was", provideWith("x", "again", nil), nil, 3, "first")
	expect("other arguments", provideWith("y", "second", nil), nil, 4, "second")
	writeFile(t, filepath.Join(module, "go.mod"), "two")
	expect("other versions", provideWith("y", "third", nil), nil, 5, "third")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("removed", provideWith("y", "fourth", nil), nil, 6, "fourth")
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lock(ctx, path); !errors.Is(err, errInterrupted) {
		t.Fatalf("a second run got %v while the first one continues", err)
	}
	unlock()
	if unlock, err = lock(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestKubernetesVersion(t *testing.T) {
	version, err := kubernetesVersion("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	staging := strings.Replace(version, "v1.", "v0.", 1)
	for _, goMod := range []string{"go.mod", filepath.Join("kubectl", "go.mod")} {
		if of, err := kubernetesVersion(goMod); err != nil || of != version {
			t.Errorf("%s has Kubernetes %q, %v; want %s", goMod, of, err, version)
		}
		content, err := os.ReadFile(goMod)
		if err != nil {
			t.Fatal(err)
		}
		replaced := 0
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) == 4 && fields[1] == "=>" {
				replaced++
				if fields[3] != staging {
					t.Errorf("%s: %s is replaced by %s, want %s", goMod, fields[0], fields[3], staging)
				}
			}
		}
		if replaced == 0 {
			t.Errorf("%s: nothing is replaced", goMod)
		}
	}
}

func TestOutput(t *testing.T) {
	var output output
	for _, text := range []string{"go: downloading a v1\ngo: down", "loading b v1\nruntime\nnet/http\n", "# net/http\nx.go:1:2: is wrong\n"} {
		if _, err := output.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := output.progress(), "2 modules downloaded, 2 packages compiled"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := output.complaints(), "# net/http\nx.go:1:2: is wrong\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
