package main

import (
	"bytes"
	"encoding/json"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// withConfig is an image whose configuration is something else, as OCI has it for artifacts.
type withConfig struct {
	v1.Image
	config    []byte
	mediaType types.MediaType
}

// RawConfigFile implements v1.Image.
func (w withConfig) RawConfigFile() ([]byte, error) { return w.config, nil }

// ConfigName implements v1.Image.
func (w withConfig) ConfigName() (v1.Hash, error) { return partial.ConfigName(w) }

// Manifest implements v1.Image.
func (w withConfig) Manifest() (*v1.Manifest, error) {
	manifest, err := w.Image.Manifest()
	if err != nil {
		return nil, err
	}
	manifest = manifest.DeepCopy()
	digest, size, err := v1.SHA256(bytes.NewReader(w.config))
	manifest.Config = v1.Descriptor{MediaType: w.mediaType, Digest: digest, Size: size}
	return manifest, err
}

// RawManifest implements v1.Image.
func (w withConfig) RawManifest() ([]byte, error) {
	manifest, err := w.Manifest()
	if err != nil {
		return nil, err
	}
	return json.Marshal(manifest)
}

// Digest implements v1.Image.
func (w withConfig) Digest() (v1.Hash, error) { return partial.Digest(w) }

// Size implements v1.Image.
func (w withConfig) Size() (int64, error) { return partial.Size(w) }
