package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const repository = "registry.example.com/trellis"

var stamp = Stamp{Version: "v1.2.3", Commit: "abc", Date: "2026-03-01T12:00:00Z"}

// compile compiles testdata/hub for an architecture.
func compile(t *testing.T, architecture string, stamp Stamp, args ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hub")
	ldflags := fmt.Sprintf("-X main.version=%s -X main.commit=%s -X main.date=%s", stamp.Version, stamp.Commit, stamp.Date)
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"build", "-ldflags", ldflags}, args...), "-o", file, "./testdata/hub")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// assemble makes images of the files for each architecture.
func assemble(t *testing.T, files func(architecture string) FileSet) Images {
	t.Helper()
	images := Images{}
	for _, architecture := range architectures {
		image, err := Assemble(files(architecture), architecture, stamp)
		if err != nil {
			t.Fatal(err)
		}
		images[architecture] = image
	}
	return images
}

// of are the files of an image with the same binary for each architecture.
func of(binary []byte) func(string) FileSet {
	return func(string) FileSet { return Files(binary, []byte("licences")) }
}

// write writes images and returns the paths of layout and tarball.
func write(t *testing.T, images Images) (directory, archiveFile string) {
	t.Helper()
	directory, archiveFile = filepath.Join(t.TempDir(), "oci"), filepath.Join(t.TempDir(), "image.tar")
	if _, err := Write(images, repository, stamp, directory, archiveFile); err != nil {
		t.Fatal(err)
	}
	return directory, archiveFile
}

func TestSameFilesMakeTheSameImage(t *testing.T) {
	content := func(binary string) []byte {
		_, archiveFile := write(t, assemble(t, of([]byte(binary))))
		content, err := os.ReadFile(archiveFile)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	first := content("binary")
	if !bytes.Equal(first, content("binary")) {
		t.Error("two images of the same files differ")
	}
	if !bytes.HasSuffix(first, make([]byte, 1024)) {
		t.Error("the tarball has no end, which tar refuses")
	}
	if bytes.Equal(first, content("other")) {
		t.Error("images of different files are the same")
	}
}

// TestNothingInItIsOfThisMachine checks that the image does not contain where and when it was built.
func TestNothingInItIsOfThisMachine(t *testing.T) {
	_, archiveFile := write(t, assemble(t, of([]byte("binary"))))
	content, err := os.ReadFile(archiveFile)
	if err != nil {
		t.Fatal(err)
	}
	entries := 0
	for r := tar.NewReader(bytes.NewReader(content)); ; entries++ {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := header.ModTime.UTC().Format("2006-01-02T15:04:05Z"); got != stamp.Date || header.Uid != 0 || header.Gid != 0 || header.Uname != "" {
			t.Errorf("%s is of %s, and belongs to %d:%d %s", header.Name, got, header.Uid, header.Gid, header.Uname)
		}
	}
	if entries < 8 {
		t.Errorf("the tarball has %d entries", entries)
	}
}

// TestNamesAndPlatforms reads what container engines go by.
func TestNamesAndPlatforms(t *testing.T) {
	directory, archiveFile := write(t, assemble(t, of([]byte("binary"))))
	index, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	named := top.Manifests[0].Annotations
	if named["io.containerd.image.name"] != repository+":v1.2.3" || named["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("its name is %v", named)
	}
	if index, err = index.ImageIndex(top.Manifests[0].Digest); err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, one := range manifest.Manifests {
		platforms = append(platforms, one.Platform.String())
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("it is for %s", got)
	}

	var docker []struct{ RepoTags []string }
	if err := json.Unmarshal(member(t, archiveFile, "manifest.json"), &docker); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(docker); got != "[{["+repository+":v1.2.3-amd64]} {["+repository+":v1.2.3-arm64]}]" {
		t.Errorf("for Docker it has %s", got)
	}
}

// member returns the content of a file in a tarball.
func member(t *testing.T, archiveFile, name string) []byte {
	t.Helper()
	file, err := os.Open(archiveFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatal(name, err)
		}
		if header.Name == name {
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
	}
}

func TestChartNamesTheSameRepository(t *testing.T) {
	values, err := os.ReadFile("../../charts/trellis/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(values), "\n  repository: "+Repository+"\n") {
		t.Errorf("it does not name %s", Repository)
	}
}

func TestProvenImage(t *testing.T) {
	hubs := map[string][]byte{}
	for _, architecture := range architectures {
		hubs[architecture] = compile(t, architecture, stamp)
	}
	good := func(architecture string) FileSet { return Files(hubs[architecture], []byte("licences")) }
	// with has files that have another one instead of what they have by that name.
	with := func(other File) func(string) FileSet {
		return func(architecture string) FileSet {
			files := good(architecture)
			for i := range files {
				if files[i].Name == other.Name {
					files[i] = other
				}
			}
			return files
		}
	}
	configured := func(change func(*v1.ConfigFile)) func(*testing.T) Images {
		return func(t *testing.T) Images {
			t.Helper()
			images := assemble(t, good)
			config, err := images["arm64"].ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			config = config.DeepCopy()
			change(config)
			if images["arm64"], err = mutate.ConfigFile(images["arm64"], config); err != nil {
				t.Fatal(err)
			}
			return images
		}
	}
	files := func(files func(string) FileSet) func(*testing.T) Images {
		return func(t *testing.T) Images { t.Helper(); return assemble(t, files) }
	}
	hub := func(content []byte) func(*testing.T) Images { return files(with(File{binaryName, 0o555, content})) }

	tests := map[string]struct {
		images func(*testing.T) Images
		says   string // empty if nothing is wrong
	}{
		"as it should be":                     {files(good), ""},
		"a text":                              {hub([]byte("binary")), "the hub is no executable"},
		"a program for one architecture only": {hub(hubs["amd64"]), "image for arm64: the hub is of type ET_EXEC for EM_X86_64"},
		"a program that needs a loader":       {hub(compile(t, "amd64", stamp, "-buildmode=pie")), "it needs a loader"},
		"a program of another commit":         {hub(compile(t, "amd64", Stamp{"v1.2.3", "abd", stamp.Date})), "--version ends with 0 and says"},
		"a program that takes any flag":       {hub(compile(t, "amd64", Stamp{stamp.Version, stamp.Commit, stamp.Date + " -X main.lax=true"})), "a flag that there is not ends with 0"},
		"a program that may not be started":   {files(with(File{binaryName, 0o444, hubs["amd64"]})), "starting the hub"},
		"too large":                           {files(with(File{"usr/share/doc/trellis/LICENCES", 0o444, make([]byte, sizeLimit)})), "which is not less than 62914560"},
		"a file that others may write to":     {files(with(File{binaryName, 0o577, hubs["amd64"]})), "trellis belongs to user 0, with mode 577"},
		"no certificate authorities":          {files(with(File{authoritiesName, 0o444, nil})), "it has 0 certificate authorities"},
		"root as its user":                    {configured(func(c *v1.ConfigFile) { c.Config.User = "" }), `its user is ""`},
		"a user by name":                      {configured(func(c *v1.ConfigFile) { c.Config.User = "trellis" }), `its user is "trellis"`},
		"another entrypoint":                  {configured(func(c *v1.ConfigFile) { c.Config.Entrypoint = []string{"/hub"} }), `it starts ["/hub"]`},
		"arguments":                           {configured(func(c *v1.ConfigFile) { c.Config.Cmd = []string{"--help"} }), `with ["--help"]`},
		"no labels":                           {configured(func(c *v1.ConfigFile) { c.Config.Labels = nil }), "its labels are map[]"},
		"a configuration for something else":  {configured(func(c *v1.ConfigFile) { c.Architecture = "amd64" }), "mismatched Architecture: amd64 != arm64"},
		"an architecture less":                {func(t *testing.T) Images { images := assemble(t, good); delete(images, "arm64"); return images }, "the image is for 1 architectures"},
		"the same architecture under two names": {func(t *testing.T) Images {
			images := assemble(t, good)
			images["arm64"] = images["amd64"]
			return images
		}, "mismatched Architecture: amd64 != arm64"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, archiveFile := write(t, test.images(t))
			err := Prove(archiveFile, repository, stamp)
			if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("got %v, want what says %q", err, test.says)
			}
		})
	}
}

// TestBrokenTarballIsNoImage changes what was written.
func TestBrokenTarballIsNoImage(t *testing.T) {
	hubs := map[string][]byte{}
	for _, architecture := range architectures {
		hubs[architecture] = compile(t, architecture, stamp)
	}
	_, archiveFile := write(t, assemble(t, func(architecture string) FileSet { return Files(hubs[architecture], []byte("licences")) }))
	content, err := os.ReadFile(archiveFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		old, changed string
		says         string
	}{
		"a blob with another content": {`"Entrypoint":["/trellis"]`, `"Entrypoint":["/trelliS"]`, "the content of"},
		"another tag for Docker":      {"v1.2.3-arm64", "v1.2.4-arm64", "reading registry.example.com/trellis:v1.2.3-arm64 as Docker does"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Replace(content, []byte(test.old), []byte(test.changed), 1)
			if bytes.Equal(changed, content) {
				t.Fatalf("there is no %s", test.old)
			}
			file := filepath.Join(t.TempDir(), "image.tar")
			if err := os.WriteFile(file, changed, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := Prove(file, repository, stamp); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want what says %q", err, test.says)
			}
		})
	}
}

func TestDateOfABuild(t *testing.T) {
	if created, err := (Stamp{Date: unknown}).Created(); err != nil || created.Unix() != 0 {
		t.Errorf("an unknown one is %s, %v", created, err)
	}
	if _, ok := annotations(Stamp{Version: "v1", Commit: unknown, Date: unknown})["org.opencontainers.image.created"]; ok {
		t.Error("an unknown date is written")
	}
	if _, err := Assemble(of(nil)("amd64"), "amd64", Stamp{Date: "yesterday"}); err == nil {
		t.Error("yesterday is a date")
	}
}
