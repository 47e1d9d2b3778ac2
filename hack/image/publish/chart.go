package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types by which Helm knows a chart in a registry.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart is one in a registry.
type chart struct {
	tag    name.Tag
	digest name.Digest
}

// pushChart packs a chart whose image is the given one, and pushes it. Its tag is its own version.
func pushChart(to, directory, image, version, digest string, options []remote.Option) (chart, error) {
	metadata, content, err := pack(directory, image, version, digest)
	if err != nil {
		return chart{}, err
	}
	tag, err := name.NewTag(to+":"+strings.ReplaceAll(metadata.Version, "+", "_"), name.StrictValidation)
	if err != nil {
		return chart{}, err
	}
	config, err := json.Marshal(metadata.all)
	if err != nil {
		return chart{}, err
	}
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	artifact, err = mutate.Append(artifact, mutate.Addendum{Layer: static.NewLayer(content, chartContent)})
	if err != nil {
		return chart{}, err
	}
	pushed := withConfig{Image: artifact, config: config, mediaType: chartConfig}
	if err := remote.Write(tag, pushed, options...); err != nil {
		return chart{}, err
	}
	sum, err := pushed.Digest()
	return chart{tag: tag, digest: tag.Context().Digest(sum.String())}, err
}

// metadata is what Chart.yaml says.
type metadata struct {
	Name, Version string
	all           map[string]any
}

// In values.yaml, these lines say which image it is.
var (
	repositoryLine = regexp.MustCompile(`(?m)^  repository: .*$`)
	digestLine     = regexp.MustCompile(`(?m)^  digest: ""$`)
)

// pack makes the archive of a chart, as "helm package" does: what is in the folder, below one with the name of the
// chart, and neither Go code nor test data.
func pack(directory, image, version, digest string) (metadata, []byte, error) {
	var m metadata
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	add := func(name string, content []byte) error {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join("trellis", name), Mode: 0o644, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	err := filepath.WalkDir(directory, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) == ".go" {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(directory, file)
		if err != nil {
			return err
		}
		switch relative = filepath.ToSlash(relative); relative {
		case "Chart.yaml":
			if content, err = m.read(content, version); err != nil {
				return err
			}
		case "values.yaml":
			if !repositoryLine.Match(content) || !digestLine.Match(content) {
				return errors.New("values.yaml does not say where the image is")
			}
			content = repositoryLine.ReplaceAll(content, []byte("  repository: "+image))
			content = digestLine.ReplaceAll(content, []byte("  digest: "+digest))
		}
		return add(relative, content)
	})
	if err == nil {
		err = errors.Join(archive.Close(), compressed.Close())
	}
	if err == nil && (m.Name != "trellis" || m.Version == "") {
		err = fmt.Errorf("%s is no chart of Trellis", directory)
	}
	return m, out.Bytes(), err
}

// read takes what Chart.yaml says, and returns it with another version of the image.
func (m *metadata) read(content []byte, version string) ([]byte, error) {
	if err := yaml.Unmarshal(content, &m.all); err != nil {
		return nil, fmt.Errorf("Chart.yaml: %w", err)
	}
	m.Name, _ = m.all["name"].(string)
	m.Version, _ = m.all["version"].(string)
	m.all["appVersion"] = version
	return yaml.Marshal(m.all)
}
