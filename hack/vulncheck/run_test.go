package vulncheck_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// database writes a database of vulnerabilities and returns its URL. It knows one in a function of the standard library that
// everybody calls, if that is wanted.
func database(t *testing.T, vulnerable bool) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	files := map[string]string{
		"index/db.json":      `{"modified":"2026-03-01T12:00:00Z"}`,
		"index/modules.json": `[]`,
		"index/vulns.json":   `[]`,
	}
	if vulnerable {
		files["index/modules.json"] = `[{"path":"stdlib","vulns":[{"id":"GO-2026-9999","modified":"2026-03-01T12:00:00Z"}]}]`
		files["index/vulns.json"] = `[{"id":"GO-2026-9999","modified":"2026-03-01T12:00:00Z"}]`
		files["ID/GO-2026-9999.json"] = `{"schema_version":"1.3.1","id":"GO-2026-9999","modified":"2026-03-01T12:00:00Z","published":"2026-03-01T12:00:00Z",
			"summary":"made up by a test","details":"made up by a test","affected":[{"package":{"name":"stdlib","ecosystem":"Go"},
			"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"fmt","symbols":["Println"]}]}}],
			"database_specific":{"url":"https://example.com"}}`
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return "file://" + dir
}

func TestEnds(t *testing.T) {
	gone := "file://" + filepath.Join(t.TempDir(), "gone")
	tests := map[string]struct {
		database string
		flags    []string
		code     int
		says     string
	}{
		"nothing is known":                         {database(t, false), nil, 0, "No vulnerabilities found"},
		"something is known":                       {database(t, true), nil, 3, "GO-2026-9999"},
		"something is known, and it was reachable": {database(t, true), []string{"--if-reachable"}, 3, "GO-2026-9999"},
		"the database is not there":                {gone, nil, 4, "NOT CHECKED"},
		"the database is not there, which may be":  {gone, []string{"--if-reachable"}, 0, "NOT CHECKED"},
		"no server": {"http://127.0.0.1:1", []string{"--if-reachable"}, 0, "NOT CHECKED"},
		"what is looked at cannot be compiled": {database(t, false), []string{"--if-reachable", "./no/such/package"}, 1,
			"no/such/package"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			args := test.flags
			if len(args) < 2 {
				args = append(args, "./version/testdata/print")
			}
			cmd := exec.CommandContext(t.Context(), "./run.sh", args...)
			cmd.Env = append(os.Environ(), "GOVULNDB="+test.database)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(cmd.ProcessState.ExitCode()).To(Equal(test.code), "%s", out)
			g.Expect(string(out)).To(ContainSubstring(test.says))
		})
	}
}
