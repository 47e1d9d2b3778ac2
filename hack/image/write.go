package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Repository is the name of the image without its tag, unless another one is given.
const Repository = "ghcr.io/trellis-hub/trellis"

// Images are those of one build, by their architectures.
type Images map[string]v1.Image

// Write writes images as one index into an OCI layout, and that into a tarball, which Docker reads as well. It returns the digest
// of the index.
func Write(images Images, repository string, stamp Stamp, directory, archiveFile string) (v1.Hash, error) {
	digest, err := writeLayout(images, repository, stamp, directory)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("writing the OCI layout %s: %w", directory, err)
	}
	if err := writeTarball(images, repository, stamp, directory, archiveFile); err != nil {
		return v1.Hash{}, fmt.Errorf("writing the tarball %s: %w", archiveFile, err)
	}
	return digest, nil
}

func writeLayout(images Images, repository string, stamp Stamp, directory string) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		if images[architecture] != nil {
			index = mutate.AppendManifests(index, mutate.IndexAddendum{
				Add: images[architecture], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
			})
		}
	}
	index, ok := mutate.Annotations(index, annotations(stamp)).(v1.ImageIndex)
	if !ok {
		return v1.Hash{}, errors.New("an index with annotations is none")
	}
	path, err := layout.Write(directory, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	// By these, container engines call it after loading: the second is the tag, the first the whole name.
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          repository + ":" + stamp.Version,
		"org.opencontainers.image.ref.name": stamp.Version,
	}))
	if err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

func writeTarball(images Images, repository string, stamp Stamp, directory, archiveFile string) error {
	created, err := stamp.Created()
	if err != nil {
		return err
	}
	manifest, err := dockerManifest(images, repository, stamp)
	if err != nil {
		return err
	}
	files := FileSet{{"manifest.json", 0o644, manifest}}
	err = filepath.WalkDir(directory, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(directory, name)
		files = append(files, File{filepath.ToSlash(relative), 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	content, err := archive(files, created)
	if err != nil {
		return err
	}
	return os.WriteFile(archiveFile, content, 0o644)
}

// dockerManifest is the table of contents by which a Docker without containerd's image store finds images in a tarball. It knows
// no index, so each image has a tag of its own.
func dockerManifest(images Images, repository string, stamp Stamp) ([]byte, error) {
	var manifest tarball.Manifest
	for _, architecture := range architectures {
		image := images[architecture]
		if image == nil {
			continue
		}
		config, err := image.ConfigName()
		if err != nil {
			return nil, err
		}
		layers, err := image.Layers()
		if err != nil {
			return nil, err
		}
		one := tarball.Descriptor{Config: blob(config), RepoTags: []string{dockerTag(repository, stamp, architecture)}}
		for _, layer := range layers {
			digest, err := layer.Digest()
			if err != nil {
				return nil, err
			}
			one.Layers = append(one.Layers, blob(digest))
		}
		manifest = append(manifest, one)
	}
	return json.Marshal(manifest)
}

// blob is where an OCI layout has what a digest is of.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

func dockerTag(repository string, stamp Stamp, architecture string) string {
	return repository + ":" + stamp.Version + "-" + architecture
}
