package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Names of files in an image.
const (
	binaryName      = "trellis"
	authoritiesName = "etc/ssl/certs/ca-certificates.crt"
)

// User is who the hub is in a container, by number, so that a kubelet knows that it is not root.
const User = 65532

// unknown is what hack/stamp.sh says of a commit and its date where there is no git.
const unknown = "unknown"

// Stamp says which build an image is of, see hack/stamp.sh.
type Stamp struct{ Version, Commit, Date string }

// Created is the date as a time: the beginning of all times if it is unknown.
func (s Stamp) Created() (time.Time, error) {
	if s.Date == unknown {
		return time.Unix(0, 0).UTC(), nil
	}
	created, err := time.Parse(time.RFC3339, s.Date)
	if err != nil {
		return time.Time{}, fmt.Errorf("date of the build: %w", err)
	}
	return created.UTC(), nil
}

// File is a file of an image or a tarball. It belongs to root.
type File struct {
	Name    string // without a slash in front
	Mode    fs.FileMode
	Content []byte
}

// FileSet is all files of an image. Folders follow from their names.
type FileSet []File

// Size is what the files take, unpacked.
func (s FileSet) Size() (bytes int64) {
	for _, file := range s {
		bytes += int64(len(file.Content))
	}
	return bytes
}

// Files are those of the hub's image.
func Files(binary, licences []byte) FileSet {
	return FileSet{
		{"etc/group", 0o444, fmt.Appendf(nil, "root:x:0:\ntrellis:x:%d:\n", User)},
		{"etc/passwd", 0o444, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\ntrellis:x:%d:%d:trellis:/:/sbin/nologin\n", User, User)},
		{authoritiesName, 0o444, Authorities()},
		{binaryName, 0o555, binary},
		{"usr/share/doc/trellis/LICENCES", 0o444, licences},
	}
}

// Authorities are certificates of the authorities that Mozilla trusts without conditions.
func Authorities() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return out.Bytes()
}

// archive is the files as a tarball, the same for the same files.
func archive(files FileSet, created time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := func(name string, kind byte, mode fs.FileMode, size int) error {
		return w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Mode: int64(mode), Size: int64(size), ModTime: created, Format: tar.FormatUSTAR})
	}
	var folders []string
	for _, file := range files {
		for folder := path.Dir(file.Name); folder != "."; folder = path.Dir(folder) {
			folders = append(folders, folder+"/")
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		if err := header(folder, tar.TypeDir, 0o755, 0); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		if err := header(file.Name, tar.TypeReg, file.Mode, len(file.Content)); err != nil {
			return nil, err
		}
		if _, err := w.Write(file.Content); err != nil {
			return nil, err
		}
	}
	err := w.Close() // which writes the end
	return out.Bytes(), err
}

// Assemble makes an image of the files for an architecture.
func Assemble(files FileSet, architecture string, stamp Stamp) (v1.Image, error) {
	created, err := stamp.Created()
	if err != nil {
		return nil, err
	}
	content, err := archive(files, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "hack/image", Comment: "Trellis " + stamp.Version},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = architecture, "linux", v1.Time{Time: created}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", User, User), Entrypoint: []string{"/" + binaryName}, WorkingDir: "/",
		Env: []string{"PATH=/", "SSL_CERT_FILE=/" + authoritiesName}, Labels: annotations(stamp),
	}
	return mutate.ConfigFile(image, config)
}

// annotations are those that the specification of OCI defines, as far as they are known.
func annotations(stamp Stamp) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "trellis",
		"org.opencontainers.image.description": "Keeps resources applied, healthy and free of drift in hundreds of Kubernetes clusters",
		"org.opencontainers.image.version":     stamp.Version,
		"org.opencontainers.image.revision":    stamp.Commit,
		"org.opencontainers.image.created":     stamp.Date,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/trellis-hub/trellis",
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == unknown })
	return all
}
