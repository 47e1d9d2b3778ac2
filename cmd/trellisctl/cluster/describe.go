package cluster

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cluster/need"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
)

// describedManagedResources bounds how many ManagedResources that are not ready are printed.
const describedManagedResources = 20

type describe struct {
	env    *cli.Env
	hub    cli.HubFlags
	output cli.Output
}

func newDescribe(env *cli.Env) *cobra.Command {
	d := &describe{env: env}
	command := &cobra.Command{
		Use:     "describe NAME [flags]",
		Aliases: []string{"show"},
		Short:   "Show a cluster: conditions, credential, ManagedResources",
		Long: `Show what the hub knows of a cluster, whose credential the registration has, and which ManagedResources
are not ready; -o wide lists all of them. Credentials are not shown.`,
		Args:              cli.TakeName,
		ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE:              func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0]) },
	}
	d.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatWide, cli.FormatName)
	d.output.AddHeadersFlag(command)
	d.hub.AddFlags(command)
	return command
}

func (d *describe) run(ctx context.Context, name string) error {
	if err := d.output.Validate(); err != nil {
		return err
	}
	source, err := d.env.Source()
	if err != nil {
		return err
	}
	tc, err := source.TargetCluster(ctx, name)
	if err != nil {
		if s, unnoticed := remote.Registration(ctx, source, source.Namespace, name); unnoticed == nil {
			heartbeat, unreachable := d.hub.Read(ctx, source, d.env.Clock.Now())
			if note := notSelected(&heartbeat, s); unreachable == nil && note != "" {
				return cli.NotFound("cluster %s is not registered: %s", name, note)
			}
			return cli.NotFound("cluster %s is registered, but no hub has noticed it yet: \"why cluster %s\" says more", name,
				name)
		}
		return err
	}
	switch {
	case d.output.Structured():
		return d.output.Encode(d.env.Out, cli.Typed(source.Scheme(), tc))
	case d.output.Format == cli.FormatName:
		fmt.Fprintln(d.env.Out, cli.Name(source.Scheme(), tc))
		return nil
	}
	mrs, err := need.Here(ctx, source, tc)
	if err != nil {
		return err
	}
	return d.print(ctx, source, tc, mrs)
}

func (d *describe) print(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster,
	mrs []resourcesv1alpha1.ManagedResource) error {
	style := d.env.Style(d.env.Out)
	w := printers.GetNewTabWriter(d.env.Out)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s:\t%s\n", name, cli.Text(fmt.Sprintf(format, args...)))
	}
	line("Name", "%s", tc.Name)
	line("Namespace", "%s", tc.Namespace)
	line("Status", "%s", orDash(tc.Labels[hubv1alpha1.StatusLabel]))
	line("Cluster", "%s", clusterLine(tc))
	d.registration(ctx, source, tc, line)
	if tc.Spec.Paused {
		line("Paused", "yes: nothing is written to it (spec.paused)")
	}
	if resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation]) {
		line("Hibernated", "yes: it is not probed (annotation %s)", hubv1alpha1.HibernatedAnnotation)
	}
	if c := tc.Status.ManagedResources; c != nil {
		line("ManagedResources", "%d, %d ready; %d objects, %d corrected in the last hour", c.Total, c.Ready,
			tc.Status.Objects, tc.Status.DriftLastHour)
	}
	if r := tc.Status.DryRun; r != nil {
		line("Dry run", "the hub would create %d objects, change %d and delete %d", r.Creates, r.Updates, r.Deletes)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(d.env.Out, "\n%s\n", style.Strong("Conditions"))
	if err := d.output.Table(d.env.Out, d.conditions(tc)); err != nil {
		return err
	}
	return d.managedResources(d.env.Out, style, mrs)
}

// registration describes the registration, as far as the user may read it.
func (d *describe) registration(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster, line func(
	name, format string, args ...any)) {
	s, err := remote.Registration(ctx, source, tc.Namespace, tc.Name)
	if err != nil {
		line("Registration", "%s", err.Error())
	} else {
		line("Registration", "Secret %s, class %s", s.Name, assignment.ClassName(s.Labels[hubv1alpha1.ClassLabel]))
		// Without the heartbeat, the conditions still report whether the hub uses the registration.
		if heartbeat, err := d.hub.Read(ctx, source, d.env.Clock.Now()); err == nil {
			if note := notSelected(&heartbeat, s); note != "" {
				line("Not used", "%s", note)
			}
		}
		if config, err := kubeconfig.FromSecret(s,
			kubeconfig.Policy{Addresses: addresses.Any()}); err != nil { // nothing is dialled
			line("Credential", "%s", err.Error())
		} else {
			line("API server", "%s", config.Server)
			line("Credential", "%s", credentialLine(s.Annotations, config))
		}
	}
	if e := tc.Status.CredentialExpiry; e != nil {
		line("Valid until", "%s (%s)", e.UTC().Format("2006-01-02T15:04:05Z"), d.env.Until(e.Time))
	}
}

// credentialLine describes the type of the credential, without its content.
func credentialLine(annotations map[string]string, config *kubeconfig.Config) string {
	switch {
	case annotations[ServiceAccountAnnotation] != "":
		return fmt.Sprintf("token of service account %s, for %s each; \"cluster rotate\" renews it",
			annotations[ServiceAccountAnnotation], annotations[TokenDurationAnnotation])
	case config.Token != "":
		return "token"
	case len(config.ClientCertificate) > 0:
		return "client certificate"
	}
	return "username and password"
}

func clusterLine(tc *hubv1alpha1.TargetCluster) string {
	parts := []string{"UID " + orDash(string(tc.Status.ClusterUID))}
	for _, p := range []string{tc.Status.KubernetesVersion, tc.Status.CloudType, tc.Status.Region} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if n := tc.Status.NodeCounts; n != nil {
		parts = append(parts, fmt.Sprintf("%s, %d ready", cli.Count(int(n.Total), "node"), n.Ready))
	}
	return strings.Join(parts, ", ")
}

func (d *describe) conditions(tc *hubv1alpha1.TargetCluster) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: cli.Columns("Type", "Status", "Reason", "For", "Message")}
	for _, c := range tc.Status.Conditions {
		table.Rows = append(table.Rows, cli.Row(c.Type, string(c.Status), c.Reason, d.env.Age(c.LastTransitionTime.Time),
			cli.FirstLine(c.Message)))
	}
	return table
}

// managedResources lists the ManagedResources that are not ready, or all of them.
func (d *describe) managedResources(w io.Writer, style cli.Style, mrs []resourcesv1alpha1.ManagedResource) error {
	table := &metav1.Table{ColumnDefinitions: cli.Columns("Name", "Ready", "Reason", "For", "Message")}
	rest, title, all := 0, "ManagedResources that are not ready", d.output.Format == cli.FormatWide
	if all {
		title = "ManagedResources"
	}
	for i := range mrs {
		c := resourcesv1alpha1.GetCondition(mrs[i].Status.Conditions, resourcesv1alpha1.ConditionReady)
		switch {
		case c == nil:
			c = &resourcesv1alpha1.Condition{Status: resourcesv1alpha1.ConditionUnknown, Reason: "-",
				Message: "no hub has looked at it yet"}
		case c.Status == resourcesv1alpha1.ConditionTrue && !all:
			continue
		}
		if len(table.Rows) == describedManagedResources && !all {
			rest++
			continue
		}
		table.Rows = append(table.Rows, cli.Row(mrs[i].Name, string(c.Status), c.Reason, d.env.Age(c.LastTransitionTime.Time),
			cli.FirstLine(c.Message)))
	}
	if len(table.Rows) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", style.Strong(title))
	if err := d.output.Table(w, table); err != nil {
		return err
	}
	if rest > 0 {
		fmt.Fprintf(w, "and %d more\n", rest)
	}
	return nil
}
