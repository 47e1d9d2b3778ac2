package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences that go together with that of Trellis, as names of SPDX.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib"}

// systems are those that a release has commands for. What is compiled in differs between them.
var systems = []string{"linux", "darwin", "windows"}

// leastCovered is how much of a file must be the text of known licences, in percent. The rest are names of authors.
const leastCovered = 75

// licenceFile matches names of files with licences, notice what goes with them.
var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-.].*)?$`)
	notice      = regexp.MustCompile(`(?i)^notice([-.].*)?$`)
)

// Module is a module, with what was found in it.
type Module struct {
	Path, Version, Dir string

	licences []string // names of SPDX
	files    map[string][]byte
}

func main() {
	texts := flag.String("texts", "", "`file` for the texts of all licences")
	sbom := flag.String("sbom", "", "`file` for a software bill of materials")
	flag.Parse()
	if err := run(flag.Args(), *texts, *sbom); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(packages []string, texts, sbom string) error {
	modules, err := Modules(packages)
	if err != nil {
		return err
	}
	var faults []error
	count := map[string]int{}
	for _, module := range modules {
		if err := module.Judge(); err != nil {
			faults = append(faults, err)
		}
		for _, licence := range module.licences {
			count[licence]++
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	if texts != "" {
		if err := write(texts, Texts(modules)); err != nil {
			return err
		}
	}
	if sbom != "" {
		content, err := SBOM(modules)
		if err != nil {
			return err
		}
		if err := write(sbom, content); err != nil {
			return err
		}
	}
	fmt.Printf("licences of %d modules:", len(modules))
	for _, licence := range slices.Sorted(maps.Keys(count)) {
		fmt.Printf(" %s %d", licence, count[licence])
	}
	fmt.Println()
	return nil
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // no secret
		return err
	}
	return os.WriteFile(name, content, 0o644) //nolint:gosec // no secret
}

// Modules are those that packages are made of on any of the systems, the main one left out and Go itself included, each with the
// files about licences.
func Modules(packages []string) ([]*Module, error) {
	root, err := exec.Command(goCommand(), "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("finding Go: %w", err)
	}
	goroot, version, _ := strings.Cut(strings.TrimSpace(string(root)), "\n")
	modules := map[string]*Module{"std": {Path: "std", Version: version, Dir: goroot, files: map[string][]byte{}}}
	if err := modules["std"].collect(goroot); err != nil {
		return nil, err
	}
	for _, system := range systems {
		if err := add(modules, packages, system); err != nil {
			return nil, fmt.Errorf("for %s: %w", system, err)
		}
	}
	return slices.SortedFunc(maps.Values(modules), func(a, b *Module) int { return strings.Compare(a.Path, b.Path) }), nil
}

// goCommand is the Go to ask: $GO, or the one in the PATH.
func goCommand() string { return cmp.Or(os.Getenv("GO"), "go") }

// add adds the modules that packages are made of on a system.
func add(modules map[string]*Module, packages []string, system string) error {
	cmd := exec.Command(goCommand(), append([]string{"list", "-deps", "-json=Dir,Standard,Module"}, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			Dir      string
			Standard bool
			Module   *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("listing packages: %w", err)
		}
		if listed.Standard || listed.Module == nil || listed.Module.Main {
			continue
		}
		module := modules[listed.Module.Path]
		if module == nil {
			module = &Module{Path: listed.Module.Path, Version: listed.Module.Version, Dir: listed.Module.Dir, files: map[string][]byte{}}
			modules[module.Path] = module
		}
		for dir := listed.Dir; strings.HasPrefix(dir, module.Dir); dir = filepath.Dir(dir) {
			if err := module.collect(dir); err != nil {
				return err
			}
		}
	}
}

// collect reads the files about licences of a folder.
func (m *Module) collect(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("module %s: %w", m.Path, err)
	}
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) && !notice.MatchString(entry.Name()) || strings.HasSuffix(name, ".go") {
			continue
		}
		if m.files[name] == nil {
			if m.files[name], err = os.ReadFile(name); err != nil {
				return fmt.Errorf("module %s: %w", m.Path, err)
			}
		}
	}
	return nil
}

// Judge names the licences of a module. It fails if one is not allowed, if a file is something else, and if there is none.
func (m *Module) Judge() error {
	var faults []error
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		if notice.MatchString(filepath.Base(name)) {
			continue
		}
		coverage := licensecheck.Scan(m.files[name])
		if coverage.Percent < leastCovered {
			faults = append(faults, fmt.Errorf("module %s: only %.0f %% of %s is the text of a licence that is known", m.Path, coverage.Percent, filepath.Base(name)))
		}
		for _, match := range coverage.Match {
			found[match.ID] = true
		}
	}
	m.licences = slices.Sorted(maps.Keys(found))
	if len(m.licences) == 0 {
		faults = append(faults, fmt.Errorf("module %s has no licence", m.Path))
	}
	for _, licence := range m.licences {
		if !slices.Contains(allowed, licence) {
			faults = append(faults, fmt.Errorf("module %s is under %s, which is not among %s", m.Path, licence, strings.Join(allowed, ", ")))
		}
	}
	return errors.Join(faults...)
}

// Texts are the texts of all licences.
func Texts(modules []*Module) []byte {
	var out bytes.Buffer
	out.WriteString("Trellis is under the Apache License 2.0. What is compiled into it is under the licences below.\n")
	for _, module := range modules {
		for _, name := range slices.Sorted(maps.Keys(module.files)) {
			relative := strings.TrimPrefix(strings.TrimPrefix(name, module.Dir), string(filepath.Separator))
			fmt.Fprintf(&out, "\n%s\n%s %s, %s\n%s\n\n%s\n", strings.Repeat("=", 80), module.Path, module.Version, relative, strings.Repeat("=", 80), bytes.TrimSpace(module.files[name]))
		}
	}
	return out.Bytes()
}
