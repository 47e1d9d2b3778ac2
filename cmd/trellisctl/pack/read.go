package pack

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// maxInput bounds what is read.
const maxInput = 64 << 20

// Manifest is an object with its position.
type Manifest struct {
	*unstructured.Unstructured
	// Place names the file and the document, for users.
	Place string
	// From is the path that it was read for, a directory if its file is in one.
	From string
}

// ReadFiles reads the manifests in files and directories; "-" is in. Of directories, files that end in .yaml, .yml or
// .json are read, those of subdirectories only if recursive. All that cannot be read is reported in the error.
func ReadFiles(paths []string, recursive bool, in io.Reader) ([]Manifest, error) {
	var sources []bundle.Source
	total := 0
	add := func(path, name string, content []byte) error {
		if total += len(content); total > maxInput {
			return cli.Refused("the files have more than %d MiB together, and the hub takes no more of a ManagedResource",
				maxInput>>20)
		}
		sources = append(sources, bundle.Source{Namespace: path, Name: name, Data: map[string][]byte{"data.yaml": content}})
		return nil
	}
	for _, path := range paths {
		if path == "-" {
			content, err := io.ReadAll(io.LimitReader(in, maxInput+1))
			if err != nil {
				return nil, fmt.Errorf("reading stdin: %w", err)
			}
			if err := add(path, "stdin", content); err != nil {
				return nil, err
			}
			continue
		}
		files, err := expand(path, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := os.ReadFile(file) //nolint:gosec // the user named it
			if err != nil {
				return nil, fmt.Errorf("reading manifests: %w", err)
			}
			if err := add(path, file, content); err != nil {
				return nil, err
			}
		}
	}
	return decode(sources)
}

// expand lists the files behind a path.
func expand(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if len(files) == 0 {
		return nil, cli.Refused("%s has no files that end in .yaml, .yml or .json", path)
	}
	return files, nil
}

// decode reads the documents as the hub does.
func decode(sources []bundle.Source) ([]Manifest, error) {
	b := bundle.Decode(sources, bundle.Limits{})
	var problems []string
	for _, fault := range b.Faults {
		problems = append(problems, fmt.Sprintf("%s: %v", place(fault.Position), fault.Err))
	}
	var manifests []Manifest
	seen := map[inventory.Key]string{}
	for _, o := range b.Objects {
		m := Manifest{Unstructured: o.Unstructured, Place: place(o.Position), From: o.SecretNamespace}
		if err := o.Invalid(); err != nil {
			problems = append(problems, m.Place+strings.TrimPrefix(err.Error(), o.Position.String()))
			continue
		}
		manifests = append(manifests, m)
		key := inventory.KeyOfObject(m.Unstructured)
		if before, twice := seen[key]; twice {
			problems = append(problems, fmt.Sprintf("%s: %s is already in %s", m.Place, key, before))
		}
		seen[key] = m.Place
	}
	if len(problems) > 0 {
		return nil, cli.Refused("%s cannot be packed:\n  %s", cli.Count(len(problems), "document"), strings.Join(
			problems, "\n  "))
	}
	return manifests, nil
}

// place is a position for users: the name of the Secret is the file, and its namespace the path that was given.
func place(p bundle.Position) string {
	switch {
	case p.Index == 0:
		return p.SecretName
	case p.Item > 0:
		return fmt.Sprintf("%s, document %d, item %d", p.SecretName, p.Index, p.Item)
	}
	return fmt.Sprintf("%s, document %d", p.SecretName, p.Index)
}
