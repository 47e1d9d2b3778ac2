package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// User is who the hub is in a container, by number, so that a kubelet can tell that it is not root.
const User = 65532

// Stamp says which build an image is of, see hack/stamp.sh.
type Stamp struct{ Version, Commit, Date string }

// File is a file of an image. It belongs to root and nobody may write to it.
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
		{"etc/ssl/certs/ca-certificates.crt", 0o444, Authorities()},
		{"trellis", 0o555, binary},
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
		if err := header(folder, tar.TypeDir, 0o555, 0); err != nil {
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
	return out.Bytes(), w.Close()
}

// Assemble makes an image of the files for an architecture.
func Assemble(files FileSet, architecture string, stamp Stamp, created time.Time) (v1.Image, error) {
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
		User: fmt.Sprintf("%d:%d", User, User), Entrypoint: []string{"/trellis"}, WorkingDir: "/",
		Env: []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}, Labels: annotations(stamp),
	}
	return mutate.ConfigFile(image, config)
}

// annotations are those that the specification of OCI defines.
func annotations(stamp Stamp) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "trellis",
		"org.opencontainers.image.version":  stamp.Version,
		"org.opencontainers.image.revision": stamp.Commit,
		"org.opencontainers.image.created":  stamp.Date,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/trellis-hub/trellis",
	}
}

// Write writes the images, by their architectures, as one index into an OCI layout, and that into a tarball.
func Write(images map[string]v1.Image, stamp Stamp, directory, archiveFile string, created time.Time) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		if images[architecture] != nil {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: images[architecture], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
			})
		}
	}
	path, err := layout.Write(directory, empty.Index)
	if err == nil {
		// The name by which container engines call it after loading.
		err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": stamp.Version}))
	}
	if err != nil {
		return fmt.Errorf("writing the OCI layout %s: %w", directory, err)
	}
	var files FileSet
	err = filepath.WalkDir(directory, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(directory, name)
		files = append(files, File{filepath.ToSlash(relative), 0o444, content})
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the OCI layout %s: %w", directory, err)
	}
	content, err := archive(files, created)
	if err != nil {
		return fmt.Errorf("tarball of the image: %w", err)
	}
	return os.WriteFile(archiveFile, content, 0o644)
}
