package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

const two = `
apiVersion: v1
kind: Config
current-context: a
contexts:
- {name: a, context: {cluster: a, user: a}}
- {name: b, context: {cluster: b, user: b}}
- {name: lost, context: {cluster: nowhere, user: b}}
clusters:
- {name: a, cluster: {server: "https://a:6443"}}
- {name: b, cluster: {server: "https://b:6443"}}
users:
- {name: a, user: {token: very-secret-a}}
- {name: b, user: {tokenFile: token}}
`

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	directory := t.TempDir()
	for name, content := range files {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(directory, name), []byte(content), 0o600)).To(Succeed())
	}
	return filepath.Join(directory, "kubeconfig")
}

func TestOneContextIsTaken(t *testing.T) {
	g := NewWithT(t)
	file := write(t, map[string]string{"kubeconfig": two, "token": "very-secret-b\n"})
	k, err := Load(file, "", nil)
	g.Expect(err).NotTo(HaveOccurred())
	raw, config, err := k.Stored()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Server).To(Equal("https://a:6443"))
	g.Expect(config.Token).To(Equal("very-secret-a"))
	g.Expect(string(raw)).NotTo(ContainSubstring("https://b"))

	k, err = Load(file, "b", nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, config, err = k.Stored()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Token).To(Equal("very-secret-b"), "the file is embedded")

	k.SetServer("https://internal:443")
	raw, config, err = k.WithToken("trellis", "another").Stored()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Server).To(Equal("https://internal:443"))
	g.Expect(config.Token).To(Equal("another"))
	g.Expect(string(raw)).NotTo(ContainSubstring("very-secret"))
}

func TestWhatIsNoKubeconfig(t *testing.T) {
	for name, test := range map[string]struct {
		content, context string
		code             int
		says             string
	}{
		"nonsense":            {"{very-secret", "", cli.ExitRefused, "is no kubeconfig"},
		"nothing":             {"", "", cli.ExitRefused, "has no current-context"},
		"too much":            {strings.Repeat("#", 2<<20), "", cli.ExitRefused, "more than 1024 KiB"},
		"another context":     {two, "c", cli.ExitNotFound, `no context "c": it has a, b, lost`},
		"a cluster is lost":   {two, "lost", cli.ExitRefused, "lost"},
		"a token file is not": {two, "b", cli.ExitRefused, "tokenFile that cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Load(write(t, map[string]string{"kubeconfig": test.content}), test.context, nil)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(cli.ExitCode(err)).To(Equal(test.code))
			g.Expect(err.Error()).NotTo(ContainSubstring("very-secret"))
			_, err = Load("-", test.context, strings.NewReader(test.content))
			if name != "a token file is not" { // there is no place beside stdin
				g.Expect(cli.ExitCode(err)).To(Equal(test.code))
			}
		})
	}
}
