package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

const (
	// maxConfigurations bounds how many are listed of a kind.
	maxConfigurations = 500
	// lookAgain is the time until it is checked whether a hub has created them again.
	lookAgain = 2 * time.Second
)

// New returns the command webhooks with all that it has.
func New(env *cli.Env) *cobra.Command {
	command := &cobra.Command{Use: "webhooks", Short: "Free a cluster of the webhooks of a hub"}
	command.AddCommand(newRemove(env))
	return command
}

type remove struct {
	env    *cli.Env
	output cli.Output
	yes    bool
}

func newRemove(env *cli.Env) *cobra.Command {
	r := &remove{env: env}
	command := &cobra.Command{
		Use:   "remove [flags]",
		Short: "Delete the webhooks and policies of hubs in a cluster",
		Long: `Delete the configurations of webhooks by which the API server of a cluster calls a hub, and the admission
policies of hubs that replace webhooks, of any registration. The kubeconfig is one of that cluster, not of the one that
the hub runs in. It does not need a hub.

It is for a cluster whose hub is gone, or whose registration was deleted while it could not be reached: where the
failure policy is Fail, nobody can create such objects then. A hub for which the cluster is registered creates the
configurations again: switch off the webhooks in its TargetCluster instead.`,
		Example: `  trellisctl --kubeconfig shoot-a.yaml webhooks remove`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	r.output.AddFlags(command, cli.FormatJSON, cli.FormatYAML, cli.FormatName)
	command.Flags().BoolVar(&r.yes, "yes", false, "Do not ask whether they are to be deleted.")
	return command
}

func (r *remove) run(ctx context.Context) error {
	if err := r.output.Validate(); err != nil {
		return err
	}
	cluster, err := r.env.Source() // the cluster of the kubeconfig, whichever it is
	if err != nil {
		return err
	}
	found, err := list(ctx, cluster)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		r.env.Note("No hub has webhooks in this cluster.")
		return nil
	}
	for _, c := range found {
		r.env.Note("%s of the target %s", name(c), cli.Text(c.GetAnnotations()[hubv1alpha1.WebhooksTargetAnnotation]))
	}
	if err := r.confirm(cluster, len(found)); err != nil {
		return err
	}
	var errs []error
	deleted := []string{}
	for _, c := range found {
		uid := c.GetUID()
		err := cluster.Delete(ctx, c, client.Preconditions{UID: &uid})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting %s: %w", name(c), err))
			continue
		}
		deleted = append(deleted, name(c))
	}
	if err := errors.Join(append(errs, r.report(deleted))...); err != nil {
		return err
	}
	return r.gone(ctx, cluster)
}

// report prints what was deleted.
func (r *remove) report(deleted []string) error {
	if r.output.Structured() {
		return r.output.Encode(r.env.Out, map[string]any{"deleted": deleted})
	}
	for _, name := range deleted {
		if r.output.Format != cli.FormatName {
			name += " deleted"
		}
		fmt.Fprintln(r.env.Out, name)
	}
	return nil
}

// confirm asks whether to delete a number of configurations and policies.
func (r *remove) confirm(cluster *cli.Source, n int) error {
	if r.yes {
		return nil
	}
	question := fmt.Sprintf("Delete these %d objects in the cluster at %s?", n, cluster.Config.Host)
	switch yes, asked := r.env.Confirm(question); {
	case yes:
		return nil
	case asked:
		return cli.Refused("not confirmed, so nothing was deleted")
	}
	return cli.Usage("there is no terminal to confirm it: set --yes")
}

// gone returns an error if a hub has created configurations or policies again.
func (r *remove) gone(ctx context.Context, cluster client.Client) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("looking again: %w", ctx.Err())
	case <-r.env.Clock.After(lookAgain):
	}
	left, err := list(ctx, cluster)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return cli.Refused("%s is there again: a hub looks after this cluster, switch off its webhooks there", name(left[0]))
	}
	return nil
}

// list returns all configurations of hubs and the policies in their place, bindings first. An API server need not serve
// policies.
func list(ctx context.Context, cluster client.Client) (found []client.Object, err error) {
	options := []client.ListOption{
		client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}, client.Limit(maxConfigurations),
	}
	for _, l := range []client.ObjectList{
		&admissionregistrationv1.MutatingWebhookConfigurationList{},
		&admissionregistrationv1.ValidatingWebhookConfigurationList{},
		&admissionregistrationv1.MutatingAdmissionPolicyBindingList{},
		&admissionregistrationv1.MutatingAdmissionPolicyList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
		&admissionregistrationv1.ValidatingAdmissionPolicyList{},
	} {
		switch err := cluster.List(ctx, l, options...); {
		case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
			continue
		case apierrors.IsForbidden(err):
			return nil, fmt.Errorf("it takes the rights of an administrator of the cluster: %w", err)
		case err != nil:
			return nil, fmt.Errorf("looking for configurations of webhooks: %w", err)
		}
		if err := meta.EachListItem(l, func(item runtime.Object) error {
			if object, is := item.(client.Object); is {
				found = append(found, object)
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("looking for configurations of webhooks: %w", err)
		}
	}
	return found, nil
}

// name is that of a configuration or policy with its kind.
func name(c client.Object) string {
	kind := ""
	switch c.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		kind = "mutatingwebhookconfiguration"
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		kind = "validatingwebhookconfiguration"
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		kind = "mutatingadmissionpolicy"
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		kind = "mutatingadmissionpolicybinding"
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		kind = "validatingadmissionpolicy"
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		kind = "validatingadmissionpolicybinding"
	}
	return kind + "/" + cli.Text(c.GetName())
}
