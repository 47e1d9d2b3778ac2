package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

var (
	stamp   = Stamp{Version: "v1.2.3", Commit: "abc", Date: "2026-03-01T12:00:00Z"}
	created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// write writes an image with a binary for each architecture, and returns the folder and the sum of the tarball.
func write(t *testing.T, binary []byte) (layout string, sum [sha256.Size]byte) {
	t.Helper()
	dir := t.TempDir()
	images := map[string]v1.Image{}
	for _, architecture := range architectures {
		image, err := Assemble(Files(binary, []byte("licences")), architecture, stamp, created)
		if err != nil {
			t.Fatal(err)
		}
		images[architecture] = image
	}
	layout, file := filepath.Join(dir, "oci"), filepath.Join(dir, "image.tar")
	if err := Write(images, stamp, layout, file, created); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return layout, sha256.Sum256(content)
}

func TestSameFilesMakeTheSameImage(t *testing.T) {
	_, first := write(t, []byte("binary"))
	_, second := write(t, []byte("binary"))
	if first != second {
		t.Error("two images of the same files differ")
	}
	if _, other := write(t, []byte("other")); other == first {
		t.Error("images of different files are the same")
	}
}

func TestWhatDoesNotStartIsNoImage(t *testing.T) {
	for name, test := range map[string]struct {
		binary []byte
		says   string
	}{
		"a text":                          {[]byte("binary"), "the hub is no executable"},
		"a program for this machine only": {self(t), "image for"},
	} {
		t.Run(name, func(t *testing.T) {
			layout, _ := write(t, test.binary)
			if err := Prove(layout, stamp); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want what says %q", err, test.says)
			}
		})
	}
}

// self is the program of this test.
func self(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
