package controlplane

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The components of a control plane, as ControlPlane.LogTail wants them. Each is also the name of its binary.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

const (
	assetsVariable = "KUBEBUILDER_ASSETS"
	rootModule     = "github.com/trellis-hub/trellis"
	kubeModule     = "k8s.io/kubernetes"
	stagesFile     = "kwok-stages.yaml"
)

// Kubectl returns the path of the kubectl that "make kube" builds, in the version of the control planes.
func Kubectl() (string, error) { return findAsset("kubectl") }

// findAsset returns the path of a binary, or of another file that "make kube" puts beside the binaries.
func findAsset(name string) (string, error) {
	if dir := os.Getenv(assetsVariable); dir != "" && (name == Etcd || name == APIServer) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("controlplane: $%s is set, but: %w", assetsVariable, err)
		}
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	version, err := readVersion(filepath.Join(root, "hack", "kube", "go.mod"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "kube", version)
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("controlplane: no %s in %s: run \"make kube\" in %s", name, dir, root)
	} else if err != nil {
		return "", fmt.Errorf("controlplane: %w", err)
	}
	return path, nil
}

// Root is the root of the repository: the first folder with its go.mod on the way up from the working directory.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("controlplane: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isRoot(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("controlplane: %s is not inside the repository of %s, where \"make kube\" puts the binaries",
				start, rootModule)
		}
	}
}

func isRoot(dir string) bool {
	found := false
	_ = eachField(filepath.Join(dir, "go.mod"), func(fields []string) bool {
		found = len(fields) == 2 && fields[0] == "module" && fields[1] == rootModule
		return found
	})
	return found
}

// readVersion reads the version of Kubernetes that hack/kube is pinned to, so that it is written down only once.
func readVersion(goMod string) (string, error) {
	version := ""
	err := eachField(goMod, func(fields []string) bool {
		if len(fields) > 0 && fields[0] == "require" {
			fields = fields[1:]
		}
		if len(fields) >= 2 && fields[0] == kubeModule {
			version = fields[1]
		}
		return version != ""
	})
	if err != nil {
		return "", fmt.Errorf("controlplane: %w", err)
	}
	if version == "" {
		return "", fmt.Errorf("controlplane: %s does not require %s", goMod, kubeModule)
	}
	return version, nil
}

// eachField calls visit with the fields of each line until it returns true.
func eachField(path string, visit func([]string) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if visit(strings.Fields(lines.Text())) {
			return nil
		}
	}
	return lines.Err()
}
