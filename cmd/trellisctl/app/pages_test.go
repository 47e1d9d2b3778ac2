package app_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// quotedCommand is a command line in backquotes; blockCommand one of a block of code, or of an example of help.
var (
	quotedCommand = regexp.MustCompile("`(trellisctl [^`]*)`")
	blockCommand  = regexp.MustCompile(`(?m)^[ \t]*(?:\$ )?(trellisctl .*)$`)
)

// TestCommandLinesOfPagesExist: trellisctl accepts each command line of a page: command, flags, and arguments.
// Those of the tutorial and of the how-to on trellisctl are also run, by hack/demo and e2e/trellisctl.
func TestCommandLinesOfPagesExist(t *testing.T) {
	const root = "../../.."
	pages := []string{filepath.Join(root, "README.md")}
	for _, folder := range []string{"docs", "charts"} {
		NewWithT(t).Expect(filepath.WalkDir(filepath.Join(root, folder),
			func(path string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() && filepath.Ext(path) == ".md" &&
					!strings.Contains(path, "docs/reference/trellisctl.md") {
					pages = append(pages, path)
				}
				return err
			})).To(Succeed())
	}
	found := 0
	for _, page := range pages {
		content, err := os.ReadFile(page)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		lines := quotedCommand.FindAllStringSubmatch(string(content), -1)
		for _, line := range append(lines, blockCommand.FindAllStringSubmatch(string(content), -1)...) {
			found++
			NewWithT(t).Expect(parse(line[1])).To(Succeed(), "%s: %s", page, line[1])
		}
	}
	NewWithT(t).Expect(found).To(BeNumerically(">", 60))
}

// TestExamplesExist: so is each command line of the help.
func TestExamplesExist(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	found := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, line := range blockCommand.FindAllStringSubmatch(c.Example, -1) {
			found++
			NewWithT(t).Expect(parse(line[1])).To(Succeed(), "%s: %s", c.CommandPath(), line[1])
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(app.New(cli.NewEnv(streams), app.Name))
	NewWithT(t).Expect(found).To(BeNumerically(">", 30))
}

// shellParts end the part of a line that is the command: comments, pipes, redirections, and what follows a command.
var shellParts = regexp.MustCompile(`\s+#|\s*\||\s*>|\s*<|;|\s+&&|\s*\\$`)

// placeholder is what a reader puts something for.
var placeholder = regexp.MustCompile(`<(\w+)>`)

// parse checks a command line without running it. "..." in a page stands for more of it.
func parse(line string) error {
	line = placeholder.ReplaceAllString(line, "$1")
	if end := shellParts.FindStringIndex(line); end != nil {
		line = line[:end[0]]
	}
	words := strings.Fields(line)[1:]
	for i := range words {
		words[i] = strings.Trim(words[i], `'"`)
	}
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	root := app.New(cli.NewEnv(streams), app.Name)
	command, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	args := command.Flags().Args()
	if help, _ := command.Flags().GetBool("help"); help || command.HasSubCommands() && len(args) == 0 ||
		strings.Contains(line, "...") ||
		len(args) == 0 && strings.Contains(command.UseLine(), " NAME") { // a mention of the command
		return nil
	}
	return command.ValidateArgs(args)
}
