package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const module = "github.com/trellis-hub/trellis/"

// below are the folders that packages of a folder may import, beside their own.
var below = map[string][]string{
	"addresses":    {},
	"fairqueue":    {"metrics"},
	"semaphore":    {},
	"untrusted":    {},
	"version":      {},
	"metrics":      {"untrusted"},
	"apis":         {"addresses"},
	"engine":       {"addresses", "apis", "metrics", "semaphore", "untrusted"},
	"clustercache": {"addresses", "metrics", "semaphore", "untrusted"},
	"leader":       {"apis", "metrics"},
	"webhooks":     {"addresses", "apis", "clustercache", "engine", "metrics", "semaphore", "untrusted"},
	"controllers": { // one of them registers webhooks
		"addresses", "apis", "clustercache", "engine", "fairqueue", "leader", "metrics", "semaphore", "untrusted",
		"webhooks",
	},
	"cmd": {
		"addresses", "apis", "clustercache", "controllers", "engine", "fairqueue", "leader", "metrics", "semaphore",
		"untrusted", "version", "webhooks",
	},
}

// developing are the folders that do not ship, which may import everything that may be imported, and which nothing that
// ships imports.
var developing = []string{"charts", "e2e", "hack"}

type listed struct {
	ImportPath, Name string
	Imports          []string
	Tests            []string `json:"TestImports"`
	External         []string `json:"XTestImports"`
}

func packages(g *WithT) (found []listed) {
	command := exec.Command("go", "list", "-json=ImportPath,Name,Imports,TestImports,XTestImports", "../../...")
	out, err := command.Output()
	g.Expect(err).NotTo(HaveOccurred())
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := listed{}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return found
		}
		g.Expect(err).NotTo(HaveOccurred())
		found = append(found, p)
	}
}

// folder is the top-level folder of a package of the module.
func folder(path string) (top string, ours bool) {
	within, ours := strings.CutPrefix(path, module)
	top, _, _ = strings.Cut(within, "/")
	return top, ours
}

// controller is which controller a package belongs to; empty for what several use, and for other packages.
func controller(path string) string {
	within, is := strings.CutPrefix(path, module+"controllers/")
	name, _, _ := strings.Cut(within, "/")
	if !is || name == "internal" {
		return ""
	}
	return name
}

func TestImports(t *testing.T) {
	g := NewWithT(t)
	found := packages(g)
	g.Expect(len(found)).To(BeNumerically(">", 50))
	for _, p := range found {
		from, ours := folder(p.ImportPath)
		g.Expect(ours).To(BeTrue(), p.ImportPath)
		if slices.Contains(developing, from) {
			continue
		}
		allowed, known := below[from]
		g.Expect(known).To(BeTrue(), "%s is in a folder without a layer", p.ImportPath)
		for _, imported := range p.Imports {
			to, ours := folder(imported)
			if !ours {
				continue
			}
			g.Expect(to == from || slices.Contains(allowed, to)).To(BeTrue(), "%s imports %s", p.ImportPath, imported)
			list := p.ImportPath == module+"controllers" // the one package that knows all of them
			if own, other := controller(p.ImportPath), controller(imported); from == "controllers" && other != "" && !list {
				g.Expect(other).To(Equal(own), "%s imports another controller: %s", p.ImportPath, imported)
			}
		}
		for _, imported := range append(p.Tests, p.External...) {
			to, ours := folder(imported)
			if ours && from != "cmd" {
				g.Expect(to).NotTo(Equal("cmd"), "tests of %s import %s", p.ImportPath, imported)
			}
		}
	}
}
