package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// etcdData is where etcd has its data, in the directory of the control plane.
const etcdData = "etcd"

// Backup copies the data of etcd to a directory that must not exist. Etcd does nothing meanwhile.
func (cp *ControlPlane) Backup(to string) error {
	if err := cp.Suspend(Etcd); err != nil {
		return err
	}
	err := os.CopyFS(to, os.DirFS(filepath.Join(cp.dir, etcdData)))
	if err = errors.Join(err, cp.Resume(Etcd)); err != nil {
		return fmt.Errorf("controlplane: cannot back up %s: %w", cp.options.Name, err)
	}
	return nil
}

// Restore has the cluster be as it was when a backup was made, and returns when the API server is ready. As the
// documentation of etcd demands, etcd is not replaced beneath an API server that runs: both are ended and started
// again. The backup can be used again.
func (cp *ControlPlane) Restore(ctx context.Context, from string) error {
	cp.KillAPIServer()
	cp.KillEtcd()
	if err := cp.replaceData(ctx, from); err != nil {
		return fmt.Errorf("controlplane: cannot restore %s: %w", cp.options.Name, err)
	}
	return cp.StartAPIServer(ctx)
}

// replaceData starts etcd with other data.
func (cp *ControlPlane) replaceData(ctx context.Context, from string) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	data := filepath.Join(cp.dir, etcdData)
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(from)); err != nil {
		return err
	}
	// etcd refuses a directory that others may read.
	if err := os.Chmod(data, 0o700); err != nil { //nolint:gosec // a directory
		return err
	}
	_ = os.Remove(cp.etcdSocket()) // of the dead one
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	return cp.startEtcd(ctx)
}
