package convert

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

type command struct {
	options

	env      *cli.Env
	output   cli.Output
	file     string
	comments bool
	values   bool
}

// New returns the command config, with convert below it.
func New(env *cli.Env) *cobra.Command {
	config := &cobra.Command{Use: "config", Short: "Convert the configuration of a Gardener resource manager"}
	config.AddCommand(newConvert(env))
	return config
}

func newConvert(env *cli.Env) *cobra.Command {
	c := &command{env: env}
	convert := &cobra.Command{
		Use:   "convert -f FILE|- [flags]",
		Short: "Convert the configuration of a Gardener resource manager into that of a hub",
		Long: `Convert the configuration of a Gardener resource manager (ResourceManagerConfiguration) into that of a hub:
a class with controllers that have the same effect. With --target-cluster, print the settings of a TargetCluster with
the same effect on one target, whatever the settings of the class are.

Keys without an equivalent, and different defaults, are reported on stderr, or in comments of the output with
--comments. The output is what a hub accepts; what it would refuse is an error about the key of the resource manager,
with its line.

With --standby, the controllers of the class are off. The hub has the rights for them then, and a TargetCluster switches
them on, so that targets can be taken over one by one.`,
		Example: `  # What does the resource manager of this shoot do, as a class of a hub?
  kubectl -n shoot--foo--a get configmap gardener-resource-manager-1f2e3d4c -o jsonpath='{.data.config\.yaml}' > grm.yaml
  trellisctl config convert -f grm.yaml --comments

  # As values of the chart, to take over targets one by one
  trellisctl config convert -f grm.yaml --standby --values > values.yaml

  # Switch it on for one target
  trellisctl -n shoot--foo--a config convert -f grm.yaml --target-cluster shoot-a | kubectl apply --server-side -f -`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error { return c.run() },
	}
	f := convert.Flags()
	f.StringVarP(&c.file, "filename", "f", "", "File with the configuration of the resource manager; - reads stdin.")
	f.StringVar(&c.TargetCluster, "target-cluster", "",
		"Print the settings of this TargetCluster in the namespace of --namespace.")
	f.StringVar(&c.HubNamespace, "hub-namespace", hubNamespace, "Namespace of the hub.")
	f.BoolVar(&c.Standby, "standby", false,
		"Leave the controllers of the class off, for TargetClusters to switch them on.")
	f.BoolVar(&c.values, "values", false, "Print values of the hub's chart, without what the chart sets itself.")
	f.BoolVar(&c.comments, "comments", false, "Print notes as comments of the output instead of on stderr.")
	c.output.AddFlags(convert, cli.FormatYAML, cli.FormatJSON, cli.FormatName)
	env.CompleteFlag(convert, "target-cluster", cli.KindCluster)
	return convert
}

func (c *command) run() error {
	if err := c.check(); err != nil {
		return err
	}
	data, err := readFile(c.file, c.env.In)
	if err != nil {
		return err
	}
	if c.TargetCluster != "" {
		if c.Namespace, _, err = c.env.Flags.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("reading the kubeconfig of the source cluster: %w", err)
		}
	}
	made, err := convert(data, c.options)
	if err != nil {
		return err
	}
	if c.values {
		made.Without("apiVersion", "kind", "leaderElection.resourceNamespace", "sourceIdentity")
	}
	return c.print(made)
}

func (c *command) check() error {
	switch {
	case c.file == "":
		return cli.Usage("--filename is required")
	case c.TargetCluster != "" && (c.Standby || c.values):
		return cli.Usage("--standby and --values are about the hub, and --target-cluster is not")
	case c.comments && c.output.Format != cli.FormatPeople && c.output.Format != cli.FormatYAML:
		return cli.Usage("--comments goes with YAML")
	}
	for flag, name := range map[string]string{"hub-namespace": c.HubNamespace, "target-cluster": c.TargetCluster} {
		if problems := validation.IsDNS1123Subdomain(name); name != "" && len(problems) > 0 {
			return cli.Usage("--%s %q: %s", flag, name, strings.Join(problems, "; "))
		}
	}
	if c.HubNamespace == "" {
		return cli.Usage("--hub-namespace must not be empty")
	}
	return c.output.Validate()
}

func (c *command) print(made *result) error {
	if c.output.Format == cli.FormatName {
		c.printNotes(made.notes)
		for _, name := range made.enabled {
			fmt.Fprintln(c.env.Out, name)
		}
		return nil
	}
	var head []string
	if c.comments {
		for _, n := range made.notes {
			if !made.Comment(n.At, n.String()) {
				head = append(head, n.String())
			}
		}
	} else {
		c.printNotes(made.notes)
	}
	if c.values {
		made.Below("config")
	}
	written, err := made.YAML(head)
	if err != nil {
		return err
	}
	if c.output.Format == cli.FormatJSON {
		var value any
		if err := yaml.Unmarshal(written, &value); err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		return c.output.Encode(c.env.Out, value) //nolint:wrapcheck // it says what was done
	}
	if _, err := c.env.Out.Write(written); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// printNotes prints the notes on stderr.
func (c *command) printNotes(notes []note) {
	for _, n := range notes {
		c.env.Note("%s", n)
	}
}

// unmarshalStrict reads YAML into an object, and knows no other keys than its.
func unmarshalStrict(data []byte, into any) error {
	return yaml.UnmarshalStrict(data, into) //nolint:wrapcheck // the caller adds what was read
}
