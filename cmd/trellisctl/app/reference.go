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

` + "`trellisctl`" + ` is the command line of Trellis. Under the name ` + "`kubectl-trellis`" + ` it is a plug-in of
kubectl: ` + "`kubectl trellis why mr addons`" + `. How to install and use it: [how-to](../how-to/trellisctl.md).

It has the rights of its user. The flags of kubectl (` + "`--kubeconfig`, `--context`, `--namespace`" + ` and so on)
select the source cluster. Every command but ` + "`kubectl`" + ` has ` + "`-o`" + `, for programs: the fields of JSON
and YAML are stable between versions, while the output for people may change. Colours are for terminals only, and not if
` + "`NO_COLOR`" + ` is set. What a command waits for is reported on stderr. ` + "`trellisctl version`" + ` prints the
versions of itself, of the hub and of the source cluster.

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
