package controlplane

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"k8s.io/client-go/kubernetes"
)

// Suspend stops a component, which is one of the constants of this package, from running without ending it,
// and returns when none of its threads runs any longer. Without a controller manager no controller observes
// what is written, without a scheduler pods stay where they are, and without etcd an API server accepts
// requests and does not answer them.
func (cp *ControlPlane) Suspend(component string) error {
	if err := cp.signal(component, syscall.SIGSTOP); err != nil {
		return err
	}
	cp.mu.Lock()
	p := cp.processes[component]
	cp.mu.Unlock()
	p.awaitStop()
	return nil
}

// Resume lets a suspended component continue.
func (cp *ControlPlane) Resume(component string) error { return cp.signal(component, syscall.SIGCONT) }

func (cp *ControlPlane) signal(component string, signal syscall.Signal) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if err := cp.processes[component].signal(signal); err != nil {
		return fmt.Errorf("controlplane: cannot send %s to %s of %s: %w", signal, component, cp.options.Name, err)
	}
	return nil
}

// KillEtcd ends etcd at once, suspended or not. The API server stays up: it serves what it remembers, and fails otherwise.
func (cp *ControlPlane) KillEtcd() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.processes[Etcd].kill()
}

// StartEtcd starts etcd again with the same data, and returns when the API server is ready. It does nothing if etcd is
// running.
func (cp *ControlPlane) StartEtcd(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.stopped {
		return fmt.Errorf("controlplane: %s has been stopped", cp.options.Name)
	}
	if !cp.processes[Etcd].ended() {
		return nil
	}
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	// The socket of the dead one would pass for that of the new one.
	_ = os.Remove(cp.etcdSocket())
	err := cp.startEtcd(ctx)
	if err == nil {
		err = cp.withClient(func(client kubernetes.Interface) error {
			return wait(ctx, []*process{cp.processes[Etcd], cp.processes[APIServer]}, "the API server to become ready", func(ctx context.Context) error {
				return checkServing(ctx, client)
			})
		})
	}
	if err != nil {
		return fmt.Errorf("controlplane: cannot restart etcd of %s: %w", cp.options.Name, err)
	}
	return nil
}
