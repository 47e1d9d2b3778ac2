package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// fewestAuthorities is less than Mozilla ever trusted since there is a Go; a file with fewer is broken.
const fewestAuthorities = 80

// machines are what ELF headers call architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Prove reads the tarball of an image, as an OCI layout and as Docker does, and fails if one of its images is not what it should
// be, or does not start.
func Prove(archiveFile, repository string, stamp Stamp) error {
	directory, remove, err := newFolder()
	if err != nil {
		return err
	}
	defer remove()
	file, err := os.Open(archiveFile)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := unpack(file, directory); err != nil {
		return fmt.Errorf("unpacking %s: %w", archiveFile, err)
	}
	index, err := onlyIndex(directory)
	if err != nil {
		return fmt.Errorf("reading the OCI layout in %s: %w", archiveFile, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("reading the OCI layout in %s: %w", archiveFile, err)
	}
	if len(manifest.Manifests) != len(architectures) {
		return fmt.Errorf("the image is for %d architectures, not for %v", len(manifest.Manifests), architectures)
	}
	for i, one := range manifest.Manifests {
		architecture := architectures[i]
		image, err := index.Image(one.Digest)
		if err == nil {
			err = prove(image, v1.Platform{OS: "linux", Architecture: architecture}, stamp)
		}
		if err == nil {
			err = proveDocker(archiveFile, dockerTag(repository, stamp, architecture), image)
		}
		if err != nil {
			return fmt.Errorf("image for %s: %w", architecture, err)
		}
	}
	return nil
}

// onlyIndex is the one image of an OCI layout, in which every digest, size and platform is right.
func onlyIndex(directory string) (v1.ImageIndex, error) {
	blobs, err := filepath.Glob(filepath.Join(directory, "blobs", "sha256", "*"))
	if err != nil {
		return nil, err
	}
	for _, blob := range blobs {
		content, err := os.ReadFile(blob)
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != filepath.Base(blob) {
			return nil, fmt.Errorf("the content of %s is another one", filepath.Base(blob))
		}
	}
	index, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		return nil, err
	}
	if err := validate.Index(index); err != nil {
		return nil, err
	}
	top, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(top.Manifests) != 1 {
		return nil, fmt.Errorf("it has %d images, not one", len(top.Manifests))
	}
	return index.ImageIndex(top.Manifests[0].Digest)
}

// proveDocker fails if Docker finds another image under a tag than that of the index. Docker knows an image by its configuration.
func proveDocker(archiveFile, tag string, image v1.Image) error {
	reference, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("name for Docker: %w", err)
	}
	loaded, err := tarball.ImageFromPath(archiveFile, &reference)
	if err != nil {
		return fmt.Errorf("reading %s as Docker does: %w", tag, err)
	}
	if err := validate.Image(loaded); err != nil {
		return fmt.Errorf("reading %s as Docker does: %w", tag, err)
	}
	want, err := image.ConfigName()
	if err != nil {
		return err
	}
	got, err := loaded.ConfigName()
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("for Docker %s is %s, and %s in the index", tag, got, want)
	}
	return nil
}

func prove(image v1.Image, platform v1.Platform, stamp Stamp) error {
	if err := proveConfig(image, platform, stamp); err != nil {
		return err
	}
	root, remove, err := newFolder()
	if err != nil {
		return err
	}
	defer remove()
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	unpacked, err := unpack(content, root)
	if err != nil {
		return err
	}
	if unpacked >= sizeLimit {
		return fmt.Errorf("it has %d bytes, which is not less than %d", unpacked, sizeLimit)
	}
	authorities, err := os.ReadFile(filepath.Join(root, authoritiesName))
	if err != nil {
		return err
	}
	if n := bytes.Count(authorities, []byte("BEGIN CERTIFICATE")); n < fewestAuthorities || !x509.NewCertPool().AppendCertsFromPEM(authorities) {
		return fmt.Errorf("it has %d certificate authorities", n)
	}
	if err := proveELF(filepath.Join(root, binaryName), platform.Architecture); err != nil {
		return err
	}
	how := "header checked, NOT started: this machine is another one"
	if platform.OS == runtime.GOOS && platform.Architecture == runtime.GOARCH {
		if how, err = start(root, stamp); err != nil {
			return err
		}
	}
	packed, err := packedSize(image)
	if err != nil {
		return err
	}
	fmt.Printf("%-11s %.1f MiB, %.1f MiB packed; %s\n", platform.Architecture+":", float64(unpacked)/(1<<20), float64(packed)/(1<<20), how)
	return nil
}

// proveConfig fails if a container engine would not make of an image what it is meant to be.
func proveConfig(image v1.Image, platform v1.Platform, stamp Stamp) error {
	file, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config := file.Config
	switch {
	case file.OS != platform.OS || file.Architecture != platform.Architecture:
		return fmt.Errorf("it says that it is for %s/%s", file.OS, file.Architecture)
	case config.User != fmt.Sprintf("%d:%d", User, User):
		return fmt.Errorf("its user is %q", config.User)
	case !slices.Equal(config.Entrypoint, []string{"/" + binaryName}) || len(config.Cmd) > 0:
		return fmt.Errorf("it starts %q with %q", config.Entrypoint, config.Cmd)
	case !maps.Equal(config.Labels, annotations(stamp)):
		return fmt.Errorf("its labels are %v", config.Labels)
	}
	return nil
}

func packedSize(image v1.Image) (bytes int64, err error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return 0, err
		}
		bytes += size
	}
	return bytes, nil
}

// newFolder makes an empty folder for the time being, which all users may read: another user runs what is in it.
func newFolder() (path string, remove func(), err error) {
	if path, err = os.MkdirTemp("", "trellis-image-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(path) }
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // see above
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

// unpack writes the files of a tarball into a folder. All have to belong to root, and no other user may write to them.
func unpack(content io.Reader, root string) (size int64, err error) {
	for r := tar.NewReader(content); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
		if header.Uid != 0 || header.Mode&0o022 != 0 || !filepath.IsLocal(header.Name) {
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

// start runs the hub of an unpacked image, with nothing around it but the image if that is possible, and returns how.
func start(root string, stamp Stamp) (how string, err error) {
	attributes, binary := &syscall.SysProcAttr{}, filepath.Join(root, binaryName)
	how = "started"
	if os.Geteuid() == 0 {
		attributes.Chroot, binary = root, "/"+binaryName
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
