package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Options say what is published, and where.
type Options struct {
	// Registry is the name of a registry, or of one and what comes before the names of repositories. Required.
	Registry string
	// Layout is the directory of the image, Chart that of the chart. Required.
	Layout, Chart string
	// Version is the tag of the image. Required.
	Version string
	// Key is a file with the key for signatures. Empty: there are none. Password is that of the key, if it has one.
	Key      string
	Password []byte
}

// Published is what was pushed.
type Published struct {
	// Name is that of the repository with the tag, Digest that of the manifest.
	Name, Digest string
	// Signature is the name of the signature; empty if there is none.
	Signature string
}

// String is a line for people.
func (p Published) String() string {
	line := p.Name + "@" + p.Digest
	if p.Signature != "" {
		line += "\n  signed: " + p.Signature
	}
	return line
}

// Publish pushes the image and the chart, in this order, and signs them.
func Publish(ctx context.Context, o Options) ([]Published, error) {
	if o.Registry == "" || o.Version == "" {
		return nil, errors.New("the registry and the version are required")
	}
	var signer *Signer
	if o.Key != "" {
		var err error
		if signer, err = LoadKey(o.Key, o.Password); err != nil {
			return nil, fmt.Errorf("key %s: %w", o.Key, err)
		}
	}
	registry := strings.TrimSuffix(strings.TrimPrefix(o.Registry, "oci://"), "/")
	to := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}

	image, err := pushImage(registry+"/trellis:"+o.Version, o.Layout, to)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	chart, err := pushChart(registry+"/charts/trellis", o.Chart, registry+"/trellis", o.Version, image.DigestStr(), to)
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	published := []Published{
		{Name: registry + "/trellis:" + o.Version, Digest: image.DigestStr()},
		{Name: chart.tag.Name(), Digest: chart.digest.DigestStr()},
	}
	if signer == nil {
		return published, nil
	}
	for i, digest := range []name.Digest{image, chart.digest} {
		if published[i].Signature, err = signer.Sign(digest, to); err != nil {
			return nil, fmt.Errorf("signature of %s: %w", digest, err)
		}
	}
	return published, nil
}

// pushImage pushes the index of an OCI layout, and all images that it names.
func pushImage(to, directory string, options []remote.Option) (name.Digest, error) {
	tag, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return name.Digest{}, err
	}
	index, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		return name.Digest{}, fmt.Errorf("%w; \"make image\" makes it", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return name.Digest{}, err
	}
	if len(manifest.Manifests) != 1 {
		return name.Digest{}, fmt.Errorf("%s has %d images and not one", directory, len(manifest.Manifests))
	}
	// The layout has an index of its own around the one for all architectures.
	digest := manifest.Manifests[0].Digest
	image, err := index.ImageIndex(digest)
	if err != nil {
		return name.Digest{}, err
	}
	if err := remote.WriteIndex(tag, image, options...); err != nil {
		return name.Digest{}, err
	}
	return tag.Context().Digest(digest.String()), nil
}
