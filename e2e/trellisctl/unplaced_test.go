package trellisctl

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diff"
)

func TestDiffSaysWhatGoesToTheNamespaceDefault(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	file := p.file("manifests.yaml", manifests(p.configMap("placed", "1"),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+p.name+`-unplaced"}}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"`+p.name+`"},"rules":[]}`))
	r := p.ctl("diff", "-f", file, "--name", "addons", "-o", "json")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	notes := map[string][]string{}
	for _, d := range p.report(r).Differences {
		p.Expect(d.Action).To(Equal(diff.Create))
		if len(d.Notes) > 0 {
			notes[d.Object] = d.Notes
		}
	}
	p.Expect(notes).To(Equal(map[string][]string{
		"ConfigMap default/" + p.name + "-unplaced": {"the manifest has no namespace: it goes to the namespace default"},
	}))
}
