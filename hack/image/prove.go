package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// fewestAuthorities is less than Mozilla ever trusted since there is a Go; a file with fewer is broken.
const fewestAuthorities = 80

// machines are what ELF headers call architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Prove reads the images of a layout, and fails if one is not what it should be, or does not start.
func Prove(directory string, stamp Stamp) error {
	index, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	if len(top.Manifests) != 1 {
		return fmt.Errorf("the layout has %d images, not one", len(top.Manifests))
	}
	if index, err = index.ImageIndex(top.Manifests[0].Digest); err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the image: %w", err)
	}
	if len(manifest.Manifests) != len(architectures) {
		return fmt.Errorf("the image is for %d architectures, not for %v", len(manifest.Manifests), architectures)
	}
	fmt.Println("image:     ", top.Manifests[0].Digest)
	for _, one := range manifest.Manifests {
		image, err := index.Image(one.Digest)
		if err == nil {
			err = prove(image, one.Platform.Architecture, stamp)
		}
		if err != nil {
			return fmt.Errorf("image for %s: %w", one.Platform.Architecture, err)
		}
	}
	return nil
}

func prove(image v1.Image, architecture string, stamp Stamp) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if config.Architecture != architecture || config.OS != "linux" || config.Config.User != fmt.Sprintf("%d:%d", User, User) {
		return fmt.Errorf("its configuration is for %s/%s and the user %q", config.OS, config.Architecture, config.Config.User)
	}
	root, err := os.MkdirTemp("", "trellis-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // somebody else runs what is in it
		return err
	}
	unpacked, err := unpack(image, root)
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	var packed int64
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return err
		}
		packed += size
	}
	if unpacked >= sizeLimit {
		return fmt.Errorf("it has %d bytes, which is not less than %d", unpacked, sizeLimit)
	}
	authorities, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		return err
	}
	if n := bytes.Count(authorities, []byte("BEGIN CERTIFICATE")); n < fewestAuthorities || !x509.NewCertPool().AppendCertsFromPEM(authorities) {
		return fmt.Errorf("it has %d certificate authorities", n)
	}
	binary := filepath.Join(root, "trellis")
	if err := proveELF(binary, architecture); err != nil {
		return err
	}
	how := "header checked, not started on this machine"
	if architecture == runtime.GOARCH {
		if how, err = start(root, stamp); err != nil {
			return err
		}
	}
	fmt.Printf("%-11s %.1f MiB, %.1f MiB packed; %s\n", architecture+":", float64(unpacked)/(1<<20), float64(packed)/(1<<20), how)
	return nil
}

// unpack writes the files of an image into a folder.
func unpack(image v1.Image, root string) (size int64, err error) {
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		if header.Uid != 0 || header.Mode&0o222 != 0 || !filepath.IsLocal(header.Name) {
			return size, fmt.Errorf("%s belongs to user %d, with mode %o", header.Name, header.Uid, header.Mode)
		}
		name := filepath.Join(root, header.Name)
		if header.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o755); err != nil { //nolint:gosec // as root
				return size, err
			}
			continue
		}
		file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, header.FileInfo().Mode())
		if err != nil {
			return size, err
		}
		n, err := io.Copy(file, r) //nolint:gosec // made by this program
		size += n
		if err = errors.Join(err, file.Close()); err != nil {
			return size, err
		}
	}
}

// proveELF fails if a file is not a static executable for an architecture.
func proveELF(binary, architecture string) error {
	file, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("the hub is no executable: %w", err)
	}
	defer func() { _ = file.Close() }()
	if file.Machine != machines[architecture] || file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
		return fmt.Errorf("the hub is of type %s for %s", file.Type, file.Machine)
	}
	for _, header := range file.Progs {
		if header.Type == elf.PT_INTERP {
			return errors.New("the hub is not static: it needs a loader")
		}
	}
	return nil
}

// start runs the hub of an unpacked image, with nothing around it but the image if that is possible, and tells how.
func start(root string, stamp Stamp) (how string, err error) {
	attributes, binary := &syscall.SysProcAttr{}, filepath.Join(root, "trellis")
	how = "started"
	if os.Geteuid() == 0 {
		attributes.Chroot, binary = root, "/trellis"
		attributes.Credential = &syscall.Credential{Uid: User, Gid: User}
		how = "started in it as its user"
	}
	run := func(args ...string) (string, int, error) {
		cmd := exec.Command(binary, args...)
		cmd.SysProcAttr, cmd.Env, cmd.Dir, cmd.WaitDelay = attributes, []string{}, "/", 10*time.Second
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode(), nil
		}
		return string(out), 0, err
	}
	out, code, err := run("--version")
	if err != nil {
		return "", fmt.Errorf("starting the hub: %w", err)
	}
	if code != 0 || !strings.HasPrefix(out, "trellis "+stamp.Version+" (commit "+stamp.Commit+" of "+stamp.Date) {
		return "", fmt.Errorf("--version ends with %d and says %q", code, out)
	}
	out, code, err = run("--no-such-flag")
	if err != nil {
		return "", fmt.Errorf("starting the hub: %w", err)
	}
	if code != 1 || !strings.Contains(out, "no-such-flag") {
		return "", fmt.Errorf("a flag that there is not ends with %d and says %q", code, out)
	}
	return how, nil
}
