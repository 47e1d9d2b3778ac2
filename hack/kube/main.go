package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// binary is a command of one of the modules of this folder.
type binary struct {
	name string
	// module is the folder of the go.mod that pins it.
	module string
	pkg    string
	// stamped says that the version of Kubernetes is linked in.
	stamped bool
}

var binaries = []binary{
	{name: "etcd", module: ".", pkg: "go.etcd.io/etcd/server/v3"},
	{name: "kube-apiserver", module: ".", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", stamped: true},
	{name: "kube-controller-manager", module: ".", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager", stamped: true},
	{name: "kube-scheduler", module: ".", pkg: "k8s.io/kubernetes/cmd/kube-scheduler", stamped: true},
	{name: "kubectl", module: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl", stamped: true},
	{name: "kwok", module: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok"},
}

const stagesFile = "kwok-stages.yaml"

// stages are files of the kwok module. In their order: nodes become ready and stay it; pods become ready, those of jobs
// complete, and deleted ones go away.
var stages = []string{
	"node/fast/node-initialize.yaml",
	"node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
	"pod/fast/pod-ready.yaml",
	"pod/fast/pod-complete.yaml",
	"pod/fast/pod-delete.yaml",
}

// errInterrupted says that a signal asked to stop.
var errInterrupted = errors.New("interrupted, the next run continues from here")

func main() {
	out := flag.String("o", filepath.Join("..", "..", "bin", "kube"), "the folder that gets a folder <version> with the binaries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kube:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) error {
	version, err := kubernetesVersion("go.mod")
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(out, version))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()

	for i, b := range binaries {
		label := fmt.Sprintf("[%d/%d] %s", i+1, len(binaries), b.name)
		flags := linkerFlags(b, version)
		if err := provide(filepath.Join(dir, b.name), b.module, flags, func(target string) error {
			return build(ctx, label, b, flags, target)
		}); err != nil {
			return err
		}
	}
	return provide(filepath.Join(dir, stagesFile), "kwok", strings.Join(stages, " "), func(target string) error {
		return exportStages(ctx, target)
	})
}

// provide lets do write a file unless it is there and made by the same recipe.
func provide(path, module, arguments string, do func(target string) error) error {
	modFile, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return err
	}
	recipe := fmt.Appendf(nil, "go.mod %x\n%s\n", sha256.Sum256(modFile), arguments)
	dir, name := filepath.Split(path)
	recipeFile := filepath.Join(dir, "."+name+".recipe")
	if last, err := os.ReadFile(recipeFile); err == nil && bytes.Equal(last, recipe) {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	temporary := filepath.Join(dir, "."+name+".tmp")
	if err := do(temporary); err != nil {
		return err
	}
	// The recipe goes before the file changes and comes back after it: in between, the file counts as not made.
	if err := os.Remove(recipeFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return os.WriteFile(recipeFile, recipe, 0o644)
}

// linkerFlags stamps the version and leaves symbols out.
func linkerFlags(b binary, version string) string {
	flags := []string{"-s", "-w"}
	if b.stamped {
		numbers := strings.Split(strings.TrimPrefix(version, "v"), ".")
		for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
			flags = append(flags,
				"-X", pkg+".gitVersion="+version,
				"-X", pkg+".gitMajor="+numbers[0],
				"-X", pkg+".gitMinor="+numbers[1],
			)
		}
	}
	return strings.Join(flags, " ")
}

// exportStages takes the stages from the module cache and puts them into one file.
func exportStages(ctx context.Context, target string) error {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok")
	cmd.Dir = "kwok"
	cmd.Stderr = os.Stderr
	module, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("cannot find the module of kwok: %w", err)
	}
	var all bytes.Buffer
	for _, stage := range stages {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "kustomize", "stage", filepath.FromSlash(stage)))
		if err != nil {
			return err
		}
		all.WriteString("---\n")
		all.Write(content)
	}
	return os.WriteFile(target, all.Bytes(), 0o644)
}

// kubernetesVersion reads the version that the module file requires.
func kubernetesVersion(goMod string) (string, error) {
	content, err := os.ReadFile(goMod)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == "k8s.io/kubernetes" && strings.Count(fields[1], ".") >= 2 {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s requires no version of k8s.io/kubernetes", goMod)
}

// lock waits for its turn. The kernel takes the lock back when this process ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for printed := false; ; printed = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		if !printed {
			fmt.Println("waiting for another run to finish")
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, errInterrupted
		}
	}
}
