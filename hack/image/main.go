package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// sizeLimit is what the unpacked files of an image may take.
const sizeLimit = 60 << 20

// architectures are those that there are images for.
var architectures = []string{"amd64", "arm64"}

func main() {
	out := flag.String("out", "bin/image", "`directory` for the image; what is there goes")
	licences := flag.String("licences", "", "`file` with the licences of what is compiled in (required)")
	flag.Parse()
	if err := run(*out, *licences); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(out, licencesFile string) error {
	licences, err := os.ReadFile(licencesFile)
	if err != nil {
		return fmt.Errorf("licences: %w", err)
	}
	stamp := Stamp{}
	for name, into := range map[string]*string{"version": &stamp.Version, "commit": &stamp.Commit, "date": &stamp.Date} {
		if *into, err = output("hack/stamp.sh", name); err != nil {
			return err
		}
	}
	created, err := time.Parse(time.RFC3339, stamp.Date)
	if err != nil { // an unpacked archive, of which nobody knows when it was made
		created = time.Unix(0, 0)
	}
	ldflags, err := output("hack/stamp.sh")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	images := map[string]v1.Image{}
	for _, architecture := range architectures {
		binary := filepath.Join(out, "trellis-linux-"+architecture)
		if err := build(architecture, ldflags, binary); err != nil {
			return err
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		files := Files(content, licences)
		if size := files.Size(); size >= sizeLimit {
			return fmt.Errorf("the image for %s has %d bytes, which is not less than %d", architecture, size, sizeLimit)
		}
		if images[architecture], err = Assemble(files, architecture, stamp, created.UTC()); err != nil {
			return fmt.Errorf("image for %s: %w", architecture, err)
		}
	}
	layoutDirectory, tarball := filepath.Join(out, "oci"), filepath.Join(out, "trellis-"+stamp.Version+".oci.tar")
	if err := Write(images, stamp, layoutDirectory, tarball, created.UTC()); err != nil {
		return err
	}
	if err := Prove(layoutDirectory, stamp); err != nil {
		return err
	}
	fmt.Println("OCI layout:", layoutDirectory)
	fmt.Println("tarball:   ", tarball)
	return nil
}

// build builds the hub for an architecture.
func build(architecture, ldflags, binary string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w "+ldflags, "-o", binary, "./cmd/trellis")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOFLAGS=")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the hub for %s: %w", architecture, err)
	}
	return nil
}

func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
