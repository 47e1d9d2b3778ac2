package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/cmd/trellisctl/access"
	"github.com/trellis-hub/trellis/cmd/trellisctl/check"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cluster"
	"github.com/trellis-hub/trellis/cmd/trellisctl/convert"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diff"
	"github.com/trellis-hub/trellis/cmd/trellisctl/explain"
	"github.com/trellis-hub/trellis/cmd/trellisctl/fleet"
	"github.com/trellis-hub/trellis/cmd/trellisctl/get"
	"github.com/trellis-hub/trellis/cmd/trellisctl/inspect"
	"github.com/trellis-hub/trellis/cmd/trellisctl/operate"
	"github.com/trellis-hub/trellis/cmd/trellisctl/pack"
	"github.com/trellis-hub/trellis/cmd/trellisctl/rollout"
	"github.com/trellis-hub/trellis/cmd/trellisctl/webhooks"
	"github.com/trellis-hub/trellis/version"
)

// Names of the command: its own, and those under which kubectl finds plug-ins and their completions.
const (
	Name         = "trellisctl"
	pluginName   = "kubectl-trellis"
	completeName = "kubectl_complete-trellis"
)

// Main runs a command line, whose first element is the path of the program, and returns the exit code.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{
		Deduplicate: true, Color: printers.AllowsColorOutput(streams.ErrOut),
	}))
	name, line := Name, []string{}
	if len(args) > 0 {
		name, line = strings.TrimSuffix(filepath.Base(args[0]), ".exe"), args[1:]
	}
	if name == completeName {
		name, line = pluginName, append([]string{cobra.ShellCompRequestCmd}, line...)
	}
	return Run(ctx, cli.NewEnv(streams), name, line)
}

// Run runs the arguments of a command line in an environment, and returns the exit code.
func Run(ctx context.Context, env *cli.Env, name string, args []string) int {
	root := New(env, name) //nolint:contextcheck // completion has the context of its command
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	code := cli.ExitCode(err)
	if ctx.Err() != nil && err != nil {
		code = cli.ExitInterrupted
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(env.ErrOut, "%s %s\n", env.Style(env.ErrOut).Bad("Error:"), cli.Text(env.Explain(err).Error()))
	}
	if code == cli.ExitUsage {
		fmt.Fprintf(env.ErrOut, "See '%s --help'.\n", command.CommandPath())
	}
	return code
}

// New returns the tree of commands.
func New(env *cli.Env, name string) *cobra.Command {
	root := &cobra.Command{
		Use:   Name,
		Short: "Work with a Trellis hub",
		Long: "Register clusters at a Trellis hub, pack manifests for them, show their state, and find the cause of " +
			"problems.",
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	if name == pluginName {
		root.Use = pluginName
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl trellis"}
	}
	env.Command = root.DisplayName()
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.ErrOut)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Usage("%w", err) })
	env.Flags.AddFlags(root.PersistentFlags())
	completeFlags(env, root)

	groups := []*cobra.Group{
		{ID: "fleet", Title: "Fleet:"}, {ID: "clusters", Title: "Clusters:"}, {ID: "content", Title: "Content:"},
		{ID: "look", Title: "Look and understand:"}, {ID: "access", Title: "Access to clusters:"},
		{ID: "operate", Title: "Operate:"},
	}
	root.AddGroup(groups...)
	for id, commands := range map[string][]*cobra.Command{
		"clusters": {cluster.New(env)},
		"content":  {pack.New(env), pack.NewUnpack(env)},
		"fleet": {fleet.NewProblems(env), fleet.NewTop(env), get.New(env), get.NewWait(env), rollout.New(env),
			check.New(env), check.NewVersion(env)},
		"look": {inspect.NewStatus(env, &fleet.OverviewFlags{}), inspect.NewTree(env), diff.New(env),
			explain.NewWhy(env),
			explain.NewEvents(env)},
		"access": {access.NewKubeconfig(env), access.NewKubectl(env)},
		"operate": {operate.NewReconcile(env), operate.NewSuspend(env), operate.NewResume(env), convert.New(env),
			webhooks.New(env)},
	} {
		for _, command := range commands {
			command.GroupID = id
			root.AddCommand(command)
		}
	}
	root.AddCommand(optionsCommand(root))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	finish(root)
	return root
}

// finish makes all errors of a command line an ExitUsage, and makes a command that only groups others list them.
func finish(command *cobra.Command) {
	if check := command.Args; check != nil {
		command.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			var failure *cli.ExitError
			if err != nil && !errors.As(err, &failure) {
				return cli.Usage("%w", err)
			}
			return err
		}
	}
	if command.HasSubCommands() && command.Run == nil && command.RunE == nil {
		command.Args = cobra.ArbitraryArgs
		command.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usage("unknown command %q for %q%s", args[0], c.CommandPath(), suggestion(c, args[0]))
			}
			return c.Help()
		}
	}
	command.Example = strings.ReplaceAll(command.Example, Name+" ", command.Root().DisplayName()+" ")
	command.SetUsageTemplate(usage)
	command.DisableFlagsInUseLine = true
	for _, sub := range command.Commands() {
		finish(sub)
	}
}

// suggestion names commands with a similar name.
func suggestion(c *cobra.Command, word string) string {
	c.SuggestionsMinimumDistance = 2
	if names := c.SuggestionsFor(word); len(names) > 0 {
		return ", did you mean " + strings.Join(names, " or ") + "?"
	}
	return ""
}

// usage is cobra's template without the twenty flags of kubectl, which "options" lists.
const usage = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} [command]{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if not .AllChildCommandsHaveGroup}}

More:{{range $cmds}}{{if (and (eq .GroupID "") .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}{{if not .HasAvailableSubCommands}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{end}}

The flags of kubectl (--context, --namespace and so on) say where the hub is: see '{{.Root.CommandPath}} options'.{{if not .HasParent}}
'{{.CommandPath}} --version' says which build this is.{{end}}
`

// optionsCommand lists the flags that all commands have.
func optionsCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(),
				"All commands have these flags, which are those of kubectl:\n\n"+root.PersistentFlags().FlagUsages())
			return err
		},
	}
}

// completeFlags completes the names of contexts, clusters and users from the kubeconfig.
func completeFlags(env *cli.Env, root *cobra.Command) {
	names := func(of func() ([]string, error)) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			found, err := of()
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for flag, of := range map[string]func() (
		[]string, error){"context": env.Contexts, "cluster": env.Clusters, "user": env.Users} {
		if err := root.RegisterFlagCompletionFunc(flag, names(of)); err != nil {
			panic(err) // the flags are compiled in
		}
	}
	if err := root.RegisterFlagCompletionFunc(
		"namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return env.Namespaces(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		}); err != nil {
		panic(err)
	}
}
