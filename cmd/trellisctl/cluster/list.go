package cluster

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

type list struct {
	env      *cli.Env
	output   cli.Output
	all      bool
	selector string
}

func newList(env *cli.Env) *cobra.Command {
	l := &list{env: env}
	command := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ls", "get"},
		Short:   "List clusters and how they are",
		Example: `  # All that are not as they should be, of all namespaces
  trellisctl cluster list -A -l hub.gardener.cloud/status!=healthy`,
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context()) },
	}
	l.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	l.output.AddHeadersFlag(command)
	command.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "List those of all namespaces.")
	command.Flags().StringVarP(&l.selector, "selector", "l", "", "Labels that they are to have.")
	return command
}

func (l *list) run(ctx context.Context) error {
	if err := l.output.Validate(); err != nil {
		return err
	}
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return cli.Usage("--selector: %w", err)
	}
	source, err := l.env.Source()
	if err != nil {
		return err
	}
	namespace := source.Namespace
	if l.all {
		namespace = ""
	}
	clusters := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, clusters, client.InNamespace(namespace),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return fmt.Errorf("listing TargetClusters: %w", err)
	}
	return l.print(source, clusters)
}

func (l *list) print(source *cli.Source, clusters *hubv1alpha1.TargetClusterList) error {
	switch {
	case l.output.Structured():
		clusters.SetGroupVersionKind(hubv1alpha1.GroupVersion.WithKind("TargetClusterList"))
		for i := range clusters.Items {
			cli.Typed(source.Scheme(), &clusters.Items[i])
		}
		return l.output.Encode(l.env.Out, clusters)
	case l.output.Format == cli.FormatName:
		for i := range clusters.Items {
			fmt.Fprintln(l.env.Out, cli.Name(source.Scheme(), &clusters.Items[i]))
		}
		return nil
	case len(clusters.Items) == 0:
		where := "namespace " + source.Namespace
		if l.all {
			where = "any namespace"
		}
		l.env.Note("No clusters found in %s.", where)
		return nil
	}
	return l.output.Table(l.env.Out, l.table(clusters))
}

func (l *list) table(clusters *hubv1alpha1.TargetClusterList) *metav1.Table {
	names := []string{"Name", "Ready", "Reason", "Status", "Version", "Nodes", "MRs", "MRs Ready", "Drift", "Age",
		"(RTT ms)", "(Credential Ends)", "(UID)", "(Message)"}
	if l.all {
		names = append([]string{"Namespace"}, names...)
	}
	table := &metav1.Table{ColumnDefinitions: cli.Columns(names...)}
	for i := range clusters.Items {
		tc := &clusters.Items[i]
		ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady)
		if ready == nil {
			ready = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: "NotSeen", Message: "no hub has looked at it yet"}
		}
		ends := "<never>"
		if e := tc.Status.CredentialExpiry; e != nil {
			ends = l.env.Until(e.Time)
		}
		row := cli.Row(tc.Name, string(ready.Status), ready.Reason, orDash(tc.Labels[hubv1alpha1.StatusLabel]),
			orDash(tc.Status.KubernetesVersion),
			nodes(tc), total(tc), mrsReady(tc), fmt.Sprint(tc.Status.DriftLastHour), l.env.Age(tc.CreationTimestamp.Time),
			fmt.Sprint(tc.Status.RoundTripMilliseconds), ends, orDash(string(tc.Status.ClusterUID)),
			cli.FirstLine(ready.Message))
		if l.all {
			row.Cells = append([]any{tc.Namespace}, row.Cells...)
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func nodes(tc *hubv1alpha1.TargetCluster) string {
	if tc.Status.NodeCounts == nil {
		return "-"
	}
	return fmt.Sprint(tc.Status.NodeCounts.Total)
}

func total(tc *hubv1alpha1.TargetCluster) string {
	if tc.Status.ManagedResources == nil {
		return "-"
	}
	return fmt.Sprint(tc.Status.ManagedResources.Total)
}

func mrsReady(tc *hubv1alpha1.TargetCluster) string {
	if tc.Status.ManagedResources == nil {
		return "-"
	}
	return fmt.Sprint(tc.Status.ManagedResources.Ready)
}
