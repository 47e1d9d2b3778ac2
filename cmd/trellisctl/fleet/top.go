package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/listing"
)

// orders are what top can sort by.
var orders = map[string]func(*hubv1alpha1.TargetCluster) int64{
	"objects": func(tc *hubv1alpha1.TargetCluster) int64 { return tc.Status.Objects },
	"drift":   func(tc *hubv1alpha1.TargetCluster) int64 { return tc.Status.DriftLastHour },
	"rtt":     func(tc *hubv1alpha1.TargetCluster) int64 { return tc.Status.RoundTripMilliseconds },
	"nodes": func(tc *hubv1alpha1.TargetCluster) int64 {
		if tc.Status.NodeCounts == nil {
			return 0
		}
		return int64(tc.Status.NodeCounts.Total)
	},
	"managedresources": func(tc *hubv1alpha1.TargetCluster) int64 { return countsOf(tc, all) },
	"notready":         func(tc *hubv1alpha1.TargetCluster) int64 { return countsOf(tc, notReady) },
}

var orderNames = []string{"objects", "drift", "managedresources", "notready", "nodes", "rtt"}

func all(c *hubv1alpha1.ManagedResourceCounts) int32      { return c.Total }
func notReady(c *hubv1alpha1.ManagedResourceCounts) int32 { return c.NotReady + c.Unknown }

func countsOf(tc *hubv1alpha1.TargetCluster, of func(*hubv1alpha1.ManagedResourceCounts) int32) int64 {
	if tc.Status.ManagedResources == nil {
		return 0
	}
	return int64(of(tc.Status.ManagedResources))
}

type topCommand struct {
	env       *cli.Env
	output    cli.Output
	selection cli.Selection
	by        string
	count     int
}

// NewTop returns the command top.
func NewTop(env *cli.Env) *cobra.Command {
	t := &topCommand{env: env}
	command := &cobra.Command{
		Use:   "top [flags]",
		Short: "List the clusters that have the most of something",
		Long: `List the clusters with the most objects, or by --sort-by with the most drift in the last hour,
ManagedResources, ManagedResources that are not ready, nodes, or the longest round trip. The hub reports the figures in
TargetClusters.`,
		Example: `  trellisctl top -A
  trellisctl top -A --sort-by drift --count 3`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
	}
	t.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	t.output.AddHeadersFlag(command)
	t.selection.AddFlags(command)
	command.Flags().StringVar(&t.by, "sort-by", orderNames[0], "One of: "+strings.Join(orderNames, ", ")+".")
	cli.CompleteWords(command, "sort-by", orderNames...)
	command.Flags().IntVar(&t.count, "count", 10, "How many clusters. 0: all.")
	return command
}

func (t *topCommand) run(ctx context.Context) error {
	if err := t.output.Validate(); err != nil {
		return err
	}
	of := orders[strings.ToLower(t.by)]
	if of == nil {
		return cli.Usage("--sort-by %q: must be one of %s", t.by, strings.Join(orderNames, ", "))
	}
	selector, err := t.selection.Labels()
	if err != nil {
		return err
	}
	source, err := t.env.Source()
	if err != nil {
		return err
	}
	clusters, err := listing.Clusters(ctx, source,
		listing.Scope{Namespace: t.selection.Namespace(source), Selector: selector})
	if err != nil {
		return err
	}
	slices.SortStableFunc(clusters, func(a, b hubv1alpha1.TargetCluster) int { return cmp.Compare(of(&b), of(&a)) })
	if t.count > 0 && t.count < len(clusters) {
		clusters = clusters[:t.count]
	}
	return t.print(source, clusters)
}

func (t *topCommand) print(source *cli.Source, clusters []hubv1alpha1.TargetCluster) error {
	t.output.Qualified = t.selection.All
	switch {
	case t.output.Structured():
		list := &hubv1alpha1.TargetClusterList{Items: clusters}
		list.SetGroupVersionKind(hubv1alpha1.GroupVersion.WithKind("TargetClusterList"))
		for i := range clusters {
			cli.Typed(source.Scheme(), &clusters[i])
		}
		return t.output.Encode(t.env.Out, list)
	case t.output.Format == cli.FormatName:
		for i := range clusters {
			fmt.Fprintln(t.env.Out, t.output.Name(source.Scheme(), &clusters[i]))
		}
		return nil
	case len(clusters) == 0:
		t.selection.None(t.env, source, "clusters")
		return nil
	}
	names := []string{"Name", "Objects", "Drift", "MRs", "MRs Not Ready", "Nodes", "RTT ms"}
	if t.selection.All {
		names = append([]string{"Namespace"}, names...)
	}
	table := &metav1.Table{ColumnDefinitions: cli.Columns(names...)}
	for i := range clusters {
		tc := &clusters[i]
		row := cli.Row(tc.Name)
		for _, order := range orderNames {
			row.Cells = append(row.Cells, fmt.Sprint(orders[order](tc)))
		}
		if t.selection.All {
			row.Cells = append([]any{tc.Namespace}, row.Cells...)
		}
		table.Rows = append(table.Rows, row)
	}
	return t.output.Table(t.env.Out, table)
}
