package pack_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/pack"
)

// packed runs "pack" with something on stdin, without a source cluster.
func packed(t *testing.T, stdin string, args ...string) (said string, err error) {
	t.Helper()
	streams, in, out, _ := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	env := cli.NewEnv(streams)
	env.NewTables = nil
	env.NewClient = func(*rest.Config) (client.WithWatch, error) {
		t.Error("it has to stop before it looks for a cluster")
		return nil, context.Canceled
	}
	command := pack.New(env)
	command.SetArgs(append([]string{"--name", "x"}, args...))
	command.SilenceErrors, command.SilenceUsage = true, true
	err = command.ExecuteContext(t.Context())
	return out.String(), err
}

// What failed before it printed anything must not delete everything.
func TestFilesWithoutManifestsAreRefused(t *testing.T) {
	directory := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(directory, name)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		return path
	}
	const manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	empty, comments, full := file("empty.yaml", ""), file("comments.yaml", "# nothing\n---\n"), file("full.yaml", manifest)
	file("none/a.yaml", "# nothing\n")
	file("some/a.yaml", "# nothing\n")
	file("some/b.yaml", strings.ReplaceAll(manifest, "name: a", "name: b"))
	for name, test := range map[string]struct {
		stdin string
		args  []string
		names string // "" if it is packed
	}{
		"nothing on stdin":                    {"", []string{"-f", "-"}, "stdin"},
		"nothing on stdin, to be applied":     {"", []string{"-f", "-", "--apply"}, "stdin"},
		"nothing but comments":                {"# nothing\n---\n", []string{"-f", "-"}, "stdin"},
		"a list of nothing":                   {"apiVersion: v1\nkind: List\nitems: []\n", []string{"-f", "-"}, "stdin"},
		"an empty file":                       {"", []string{"-f", empty}, empty},
		"nothing on stdin and a file":         {"", []string{"-f", full, "-f", "-", "--apply"}, "stdin"},
		"a file and two empty ones":           {"", []string{"-f", full, "-f", empty, "-f", comments, "--apply"}, empty + ", " + comments},
		"a directory without manifests":       {"", []string{"-f", filepath.Join(directory, "none"), "--apply"}, filepath.Join(directory, "none")},
		"a directory with a file of comments": {"", []string{"-f", filepath.Join(directory, "some")}, ""},
		"stdin and a file":                    {strings.ReplaceAll(manifest, "name: a", "name: c"), []string{"-f", "-", "-f", full}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			said, err := packed(t, test.stdin, test.args...)
			if test.names == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(said).To(ContainSubstring("kind: ManagedResource"))
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring("there are no manifests in " + test.names + ": ")))
			g.Expect(cli.ExitCode(err)).To(Equal(cli.ExitRefused))
			g.Expect(said).To(BeEmpty(), "what reads it must not take it for meant")
		})
	}
}

func TestFilesWithoutManifestsMayBeMeant(t *testing.T) {
	g := NewWithT(t)
	said, err := packed(t, "", "-f", "-", "--allow-empty")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(said).To(ContainSubstring("secretRefs: []"))
}
