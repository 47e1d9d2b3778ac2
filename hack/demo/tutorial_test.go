package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// blockPatience is how long a block of the tutorial may take, and how long its output may take to become what the page shows.
// The commands have deadlines of their own, of a minute.
const blockPatience = 3 * time.Minute

// TestTutorial follows README.md and docs/tutorial in the clusters of the demo: what stands in blocks of the language "shell" is
// run in one shell a page, in order, and a block of the language "text" is what the block before it prints. The show between
// registration and tutorial is left out: "make demo ONCE=1" is about that.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	ctrllog.SetLogger(logr.Discard()) // as in main
	g := NewWithT(t)
	ctx := t.Context()
	home := t.TempDir()
	w := &world{screen: &screen{out: testOutput{t}, start: time.Now()}, dir: filepath.Join(home, "bin", "demo")}
	t.Cleanup(w.abandon)
	for _, step := range []func(context.Context) error{w.prepare, w.hubStarts, w.targetsConnect, w.resourcesBecomeReady, w.startDelta} {
		g.Expect(step(ctx)).To(Succeed())
	}

	for _, page := range []string{"README.md", "docs/tutorial/demo.md", "docs/tutorial/own-cluster.md", "docs/tutorial/trellisctl.md"} {
		content, err := os.ReadFile(filepath.Join(w.root, page))
		g.Expect(err).NotTo(HaveOccurred())
		blocks := blocksOf(string(content))
		g.Expect(len(blocks)).To(BeNumerically(">=", 3), "blocks of %s", page)
		shell := startShell(t, home)
		for _, b := range blocks {
			shell.follow(t, page, b)
		}
	}

	for _, written := range []string{"*access.kubeconfig", "manifests"} {
		g.Expect(filepath.Glob(filepath.Join(w.dir, written))).To(BeEmpty(), "what the tutorial wrote")
	}
}

// TestShellOfTutorial holds the shell against blocks that fail: a tutorial must not pass because errors are ignored.
func TestShellOfTutorial(t *testing.T) {
	tests := []struct {
		name, script string
		wantStatus   string
		wantOutput   string
	}{
		{"the last command fails", "echo a\nfalse", "1", "a\n"},
		{"a command in the middle fails", "echo a\nfalse\necho b", "1", "a\nb\n"},
		{"a command in a pipe fails", "false | cat", "1", ""},
		{"a command is missing", "no-such-command-anywhere 2>/dev/null", "127", ""},
		{"all is well", "X=1\necho \"$X\"\ncat <<'EOF'\nb\nEOF", "0", "1\nb\n"},
		{"variables stay", "echo \"$X\"", "0", "1\n"},
		{"input is empty", "cat", "0", ""},
	}
	shell := startShell(t, t.TempDir())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			output, status, err := shell.run(test.script)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status).To(Equal(test.wantStatus))
			g.Expect(output).To(Equal(test.wantOutput))
		})
	}
}

func TestBlocksOfTutorial(t *testing.T) {
	g := NewWithT(t)
	page := "# A\n\n    not run\n\n```shell\none\ntwo\n```\n\nand\n\n```shell\nthree\n```\n\n```text\nx ... y\n```\n\n```yaml\nno: 1\n```\n"
	g.Expect(blocksOf(page)).To(Equal([]block{{line: 5, script: "one\ntwo\n"}, {line: 12, script: "three\n", output: "x ... y\n"}}))

	b := block{output: "a ... b(1)\nc\n"}
	g.Expect(b.shownIn("before\na   23 b(1)\nbetween\nxc\n")).To(BeTrue())
	g.Expect(b.shownIn("c\na 1 b(1)\n")).To(BeFalse(), "the wrong order")
	g.Expect(b.shownIn("a 1 b(1)\n")).To(BeFalse(), "a line is missing")
	g.Expect(b.shownIn("a\n1 b(1)\nc\n")).To(BeFalse(), "dots do not span lines")
}

// block is one of the blocks of a page that is run.
type block struct {
	line   int // where it begins
	script string
	output string // empty: the page shows none
}

// blocksOf returns the blocks of a page that are run.
func blocksOf(page string) []block {
	var blocks []block
	language := "" // of the block that a line is in
	number := 0
	for line := range strings.Lines(page) {
		number++
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && language == "":
			language = fence
			if language == "shell" {
				blocks = append(blocks, block{line: number})
			}
		case isFence:
			language = ""
		case language == "shell":
			blocks[len(blocks)-1].script += line
		case language == "text" && len(blocks) > 0:
			blocks[len(blocks)-1].output += line
		}
	}
	return blocks
}

// shownIn reports whether an output has the lines that the page shows, in this order; others may be between them. Three
// dots stand for anything, and the amount of white space does not count.
func (b block) shownIn(output string) bool {
	rest := strings.Split(output, "\n")
	for line := range strings.Lines(b.output) {
		var parts []string
		for part := range strings.SplitSeq(strings.TrimSpace(line), "...") {
			parts = append(parts, strings.Join(strings.Fields(regexp.QuoteMeta(part)), `\s+`))
		}
		pattern := regexp.MustCompile(strings.Join(parts, `.*`))
		found := -1
		for i, candidate := range rest {
			if pattern.MatchString(candidate) {
				found = i
				break
			}
		}
		if found < 0 {
			return false
		}
		rest = rest[found+1:]
	}
	return true
}

// shell is a bash that continues from block to block, as a terminal does.
type shell struct {
	script string // the file of the block that is run
	input  io.Writer
	output *bufio.Reader
}

// endOfBlock marks the line after the output of a block. Its status follows.
const endOfBlock = "end-of-block-of-the-tutorial "

func startShell(t *testing.T, dir string) *shell {
	t.Helper()
	g := NewWithT(t)
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG=", "HOME="+dir)
	input, err := cmd.StdinPipe()
	g.Expect(err).NotTo(HaveOccurred())
	output, err := cmd.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	cmd.Stderr = cmd.Stdout
	g.Expect(cmd.Start()).To(Succeed())
	watchdog := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() }) // what is left then fails by itself
	t.Cleanup(func() {
		watchdog.Stop()
		_ = input.Close() // it ends
		_, _ = io.Copy(io.Discard, output)
		_ = cmd.Wait()
	})
	_, err = io.WriteString(input, "set -E -o pipefail\ntrap 'status=$?' ERR\n")
	g.Expect(err).NotTo(HaveOccurred())
	return &shell{script: filepath.Join(t.TempDir(), "block"), input: input, output: bufio.NewReader(output)}
}

// run runs a script. Its status is "0" unless a command in it failed.
func (s *shell) run(script string) (output, status string, err error) {
	if err := os.WriteFile(s.script, []byte(script), 0o600); err != nil {
		return "", "", err
	}
	if _, err := fmt.Fprintf(s.input, "status=0; . '%s' </dev/null; echo '%s'$status\n", s.script, endOfBlock); err != nil {
		return "", "", err
	}
	for {
		line, err := s.output.ReadString('\n')
		if err != nil {
			return output, "", fmt.Errorf("the shell ended: %w", err)
		}
		if before, status, ended := strings.Cut(line, endOfBlock); ended {
			return output + before, strings.TrimSpace(status), nil
		}
		output += line
	}
}

// follow runs a block and compares its output with that of the page. What the hub reports comes a moment after what it does, so
// a block with output, of which each may be run twice, is run again until the output is right.
func (s *shell) follow(t *testing.T, page string, b block) {
	t.Helper()
	for deadline := time.Now().Add(blockPatience); ; time.Sleep(500 * time.Millisecond) {
		output, status, err := s.run(b.script)
		if err != nil || status != "0" {
			t.Fatalf("%s, line %d: status %s, %v\n%s\nprints\n%s", page, b.line, status, err, b.script, output)
		}
		if b.output == "" || b.shownIn(output) {
			t.Logf("%s, line %d:\n%s\n%s", page, b.line, b.script, output)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, line %d:\n%s\nprints\n%s\nand not\n%s", page, b.line, b.script, output, b.output)
		}
	}
}

// testOutput is what the demo prints, in the log of a test.
type testOutput struct{ t *testing.T }

// Write implements io.Writer.
func (o testOutput) Write(text []byte) (int, error) {
	o.t.Log(strings.TrimRight(string(text), "\n"))
	return len(text), nil
}
