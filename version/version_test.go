package version_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/version"
)

// run runs a command in the package's folder, with the given variables in its environment, and returns what it prints.
func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	out, err := cmd.Output()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(out))
}

// build builds testdata/print with the flags, and returns what it prints.
func build(t *testing.T, ldflags string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "print")
	run(t, nil, "go", "build", "-ldflags", ldflags, "-o", program, "./testdata/print")
	return run(t, nil, program)
}

func TestStampIsShown(t *testing.T) {
	g := NewWithT(t)
	flags := run(t, []string{"VERSION=v1.2.3", "COMMIT=0123abc", "DATE=2026-03-01T12:00:00Z"}, "../hack/stamp.sh")
	g.Expect(build(t, flags)).To(Equal("v1.2.3 (commit 0123abc of 2026-03-01T12:00:00Z, " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"))
}

func TestWithoutAStamp(t *testing.T) {
	g := NewWithT(t)
	g.Expect(build(t, "")).To(HavePrefix("dev (commit "))
	g.Expect(version.Get().Version).To(Equal("dev"))
	g.Expect(version.Get().Date).NotTo(BeEmpty())
}

// TestStampOfARepository makes repositories and looks what the script finds there.
func TestStampOfARepository(t *testing.T) {
	g := NewWithT(t)
	script, err := filepath.Abs("../hack/stamp.sh")
	g.Expect(err).NotTo(HaveOccurred())
	root := t.TempDir()
	g.Expect(os.MkdirAll(filepath.Join(root, "hack"), 0o755)).To(Succeed())
	g.Expect(os.MkdirAll(filepath.Join(root, "charts/trellis"), 0o755)).To(Succeed())
	content, err := os.ReadFile(script)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(root, "hack/stamp.sh"), content, 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(root, "charts/trellis/Chart.yaml"), []byte("name: trellis\nversion: 9.9.9\nappVersion: v0.3.0\n"), 0o600)).To(Succeed())
	stamp := func() string {
		return run(t, []string{"VERSION=", "COMMIT=", "DATE="}, filepath.Join(root, "hack/stamp.sh"))
	}
	git := func(args ...string) string {
		return run(t, []string{
			"GIT_AUTHOR_DATE=2026-03-01T13:00:00+01:00", "GIT_COMMITTER_DATE=2026-03-01T13:00:00+01:00", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_CONFIG_SYSTEM=/dev/null",
		}, "git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	}

	// Not a repository, as when it was unpacked from an archive.
	g.Expect(stamp()).To(And(ContainSubstring("version.version=v0.3.0-dev "), ContainSubstring("version.commit=unknown "), HaveSuffix("version.date=unknown")))

	// A repository that cannot be read is no secret.
	g.Expect(os.WriteFile(filepath.Join(root, ".git"), []byte("gitdir: gone"), 0o600)).To(Succeed())
	unreadable, err := exec.CommandContext(t.Context(), filepath.Join(root, "hack/stamp.sh"), "commit").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(unreadable)).To(And(ContainSubstring("git does not tell which commit this is: fatal: not a git repository"), HaveSuffix("unknown\n")))
	g.Expect(os.Remove(filepath.Join(root, ".git"))).To(Succeed())

	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	commit := git("rev-parse", "HEAD")
	g.Expect(stamp()).To(And(ContainSubstring("version.version=v0.3.0-dev "), ContainSubstring("version.commit="+commit+" "), HaveSuffix("version.date=2026-03-01T12:00:00Z")))

	// The tag of another version makes no release.
	git("tag", "v0.2.0")
	g.Expect(stamp()).To(ContainSubstring("version.version=v0.3.0-dev "))
	git("tag", "v0.3.0")
	g.Expect(stamp()).To(ContainSubstring("version.version=v0.3.0 "))

	// A file that git does not know may be compiled in; bin is for what was built.
	g.Expect(os.Mkdir(filepath.Join(root, "bin"), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(root, "bin/trellis"), nil, 0o600)).To(Succeed())
	g.Expect(stamp()).To(ContainSubstring("version.commit=" + commit + " "))
	g.Expect(os.WriteFile(filepath.Join(root, "hack/more.go"), nil, 0o600)).To(Succeed())
	g.Expect(stamp()).To(And(ContainSubstring("version.version=v0.3.0-dev "), ContainSubstring("version.commit="+commit+"-dirty ")))
	g.Expect(os.Remove(filepath.Join(root, "hack/more.go"))).To(Succeed())
	g.Expect(stamp()).To(ContainSubstring("version.commit=" + commit + " "))

	g.Expect(os.WriteFile(filepath.Join(root, "hack/stamp.sh"), append(content, '\n'), 0o755)).To(Succeed())
	g.Expect(stamp()).To(And(ContainSubstring("version.version=v0.3.0-dev "), ContainSubstring("version.commit="+commit+"-dirty ")))
}
