package app

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// Reference returns the page of documentation on all commands.
func Reference() []byte {
	root := New(cli.NewEnv(genericiooptions.IOStreams{}), Name)
	page := bytes.NewBufferString(`# trellisctl

<!-- Generated from the code by "make generate". Do not edit. -->

` + "`trellisctl`" + ` is what people do with a hub. Under the name ` + "`kubectl-trellis`" + ` it is a plug-in of kubectl: ` + "`kubectl trellis why mr addons`" + `. How to
get it and what to do with it: [how-to](../how-to/trellisctl.md).

Everything is done with the rights of whoever calls it. The flags of kubectl (` + "`--kubeconfig`, `--context`, `--namespace`" + ` and so on) say where the
hub is. ` + "`-o`" + ` is for programs,
	and every command but ` + "`kubectl`" + ` has it: JSON and YAML have the same fields from one
version to the next; what is printed for people may change. Colours are for terminals only,
	and not if ` + "`NO_COLOR`" + `
is set. What a command waits for is reported on stderr.
` + "`trellisctl version`" + ` prints the versions of itself and of the hub.

## Exit codes

| code | meaning |
|---|---|
`)
	for _, exit := range cli.ExitCodes {
		fmt.Fprintf(page, "| %d | %s |\n", exit.Code, exit.Meaning)
	}
	describe(page, root)
	fmt.Fprintf(page, "\n## Flags of all commands\n\n```\n%s```\n", root.PersistentFlags().FlagUsages())
	return page.Bytes()
}

// describe adds a section for each command that does something, in the order of their names.
func describe(page *bytes.Buffer, parent *cobra.Command) {
	for _, command := range parent.Commands() {
		switch {
		case !command.IsAvailableCommand() || command.Name() == "completion":
		case command.HasSubCommands():
			describe(page, command)
		default:
			fmt.Fprintf(page, "\n## %s\n\n%s\n\n```\n%s\n```\n", strings.TrimPrefix(command.CommandPath(), Name+" "),
				long(command), command.UseLine())
			if command.HasExample() {
				fmt.Fprintf(page, "\n```\n%s\n```\n", dedent(command.Example))
			}
			if flags := command.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
				fmt.Fprintf(page, "\n```\n%s```\n", flags.FlagUsages())
			}
		}
	}
}

func long(command *cobra.Command) string {
	if command.Long != "" {
		return command.Long
	}
	return command.Short + "."
}

func dedent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}
