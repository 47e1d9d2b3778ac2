package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sizeLimit is what the unpacked files of an image may take.
const sizeLimit = 60 << 20

// architectures are those that there are images for.
var architectures = []string{"amd64", "arm64"}

func main() {
	out := flag.String("out", "bin/image", "`directory` for the image; what is there goes")
	licences := flag.String("licences", "", "`file` with the licences of what is compiled in (required)")
	repository := flag.String("repository", Repository, "`name` of the image without its tag")
	flag.Parse()
	if err := run(*out, *licences, *repository); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(out, licencesFile, repository string) error {
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
	ldflags, err := output("hack/stamp.sh")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	images := Images{}
	for _, architecture := range architectures {
		binary := filepath.Join(out, "trellis-linux-"+architecture)
		if err := build(architecture, ldflags, binary); err != nil {
			return err
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		if images[architecture], err = Assemble(Files(content, licences), architecture, stamp); err != nil {
			return fmt.Errorf("image for %s: %w", architecture, err)
		}
	}
	layoutDirectory, tarball := filepath.Join(out, "oci"), filepath.Join(out, "trellis-"+stamp.Version+".oci.tar")
	digest, err := Write(images, repository, stamp, layoutDirectory, tarball)
	if err != nil {
		return err
	}
	if err := Prove(tarball, repository, stamp); err != nil {
		return err
	}
	fmt.Println("image:     ", repository+":"+stamp.Version+"@"+digest.String())
	fmt.Println("OCI layout:", layoutDirectory)
	fmt.Println("tarball:   ", tarball)
	return os.WriteFile(filepath.Join(out, "digest"), []byte(digest.String()+"\n"), 0o644)
}

// build builds the hub for an architecture, for every processor of it.
func build(architecture, ldflags, binary string) error {
	cmd := exec.Command(cmp.Or(os.Getenv("GO"), "go"), "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w "+ldflags, "-o", binary, "./cmd/trellis")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=")
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
