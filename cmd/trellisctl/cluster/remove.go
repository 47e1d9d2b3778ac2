package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/account"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cluster/need"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

type remove struct {
	change
	confirm bool
}

func newRemove(env *cli.Env) *cobra.Command {
	r := &remove{change: change{env: env}}
	command := &cobra.Command{
		Use:     "remove NAME [flags]",
		Aliases: []string{"rm", "delete", "unregister"},
		Short:   "Remove a cluster from the hub",
		Long: `Remove a cluster from the hub: delete its registration. Nothing is deleted in the cluster.

If ManagedResources still need it, they are named and nothing is done. Delete them first to have their objects deleted.
With --confirm, their objects stay as they are, and no hub reconciles them. It sets the annotation
` + hubv1alpha1.ConfirmDeletionAnnotation + `, which the admission policy of the chart requires.

With the kubeconfig of an administrator, the service account that "cluster add" made is deleted in the cluster, too,
unless another registration of any hub uses it: the account has an annotation for each, and is deleted with the last
one.`,
		Example: `  trellisctl -n shoot--foo--a cluster remove shoot-a --from-kubeconfig admin.yaml`,
		Args:    cli.TakeName, ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.addFlags(command, true, "the hub has released it", time.Minute)
	command.Flags().BoolVar(&r.confirm, "confirm", false,
		"Remove it although ManagedResources need it; their objects stay in it.")
	return command
}

func (r *remove) run(ctx context.Context, name string) error {
	if err := r.output.Validate(); err != nil {
		return err
	}
	source, err := r.env.Source()
	if err != nil {
		return err
	}
	registration, err := remote.Registration(ctx, source, source.Namespace, name)
	if err != nil {
		return err
	}
	tc, err := find(ctx, source, name)
	if err != nil {
		return err
	}
	tc, needs, err := r.needs(ctx, source, tc)
	if err != nil {
		return err
	}
	needed, err := r.needed(name, needs)
	if err != nil {
		return err
	}
	var used *usedAccount
	if r.from.file != "" { // before anything is deleted, because it may fail
		if used, err = r.usedAccount(ctx, source, tc, registration); err != nil {
			return err
		}
	}
	if r.confirm {
		before := registration.DeepCopy()
		metav1.SetMetaDataAnnotation(&registration.ObjectMeta, hubv1alpha1.ConfirmDeletionAnnotation, "true")
		if err := source.Patch(ctx, registration, client.MergeFrom(before), client.FieldOwner(cli.FieldManager)); err != nil {
			return fmt.Errorf("confirming the deletion of %s/%s: %w", registration.Namespace, registration.Name, err)
		}
	}
	if err := r.unregister(ctx, source, registration, needed); err != nil {
		return fmt.Errorf("deleting the registration %s/%s: %w", registration.Namespace, registration.Name, err)
	}
	if used != nil { // the hub uses the account to clean up
		if err := r.awaitWebhooks(ctx, source, tc); err != nil {
			return err
		}
	}
	outcome := &Outcome{Namespace: source.Namespace, Name: name, Action: Removed,
		ServiceAccount: registration.Annotations[ServiceAccountAnnotation]}
	var left error
	switch {
	case used != nil:
		left = r.release(ctx, used, outcome)
	case outcome.ServiceAccount != "":
		r.env.Note("The service account %s stays in the cluster, and its token is valid until it expires.",
			outcome.ServiceAccount)
	}
	if err := errors.Join(r.report(outcome), left); err != nil {
		return err
	}
	if tc == nil || !r.wait {
		return nil
	}
	return r.awaitGone(ctx, source, name, needed)
}

// policyDelay bounds how long the admission policy takes to see the count of the hub.
const policyDelay = 10 * time.Second

// unregister deletes the registration. If the hub counts no ManagedResources, a refusal may be based on an older count:
// the API server uses a cache.
func (r *remove) unregister(ctx context.Context, source *cli.Source, registration *corev1.Secret, needed bool) error {
	del := func(ctx context.Context) error {
		return source.Delete(ctx, registration, client.Preconditions{UID: ptr.To(registration.UID)})
	}
	ofPolicy := func(err error) bool { // not because of missing rights
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	}
	err := del(ctx)
	if needed || !ofPolicy(err) {
		return err
	}
	late := r.env.Await(ctx, policyDelay, func(ctx context.Context) (bool, string, error) {
		if err = client.IgnoreNotFound(del(ctx)); ofPolicy(err) { // a response may have been lost
			return false, err.Error(), nil
		}
		return err == nil, "", err
	})
	if cli.IsTimeout(late) {
		return err
	}
	return late
}

// needs finds what needs a target. If the hub counts ManagedResources although none is left, it waits until the hub has
// counted again: its count may be half a minute old, and the admission policy of the chart uses it as well. The hub may
// still count some when the wait ends, such as those of namespaces that the user may not list.
func (r *remove) needs(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) (
	*hubv1alpha1.TargetCluster, need.Need, error) {
	n, err := need.Of(ctx, source, tc)
	if err != nil || n.Total() == 0 || n.Named() || r.confirm || !r.wait {
		return tc, n, err
	}
	err = r.env.Await(ctx, r.timeout, func(ctx context.Context) (done bool, state string, err error) {
		now, err := find(ctx, source, tc.Name)
		if err != nil {
			return false, "", err
		}
		if tc = now; need.Count(tc) == 0 {
			return true, "", nil
		}
		return false, fmt.Sprintf("waiting for the hub to count again: it counts %s for the cluster, but none is found",
			cli.Count(need.Count(tc), "ManagedResource")), nil
	})
	if err != nil && !cli.IsTimeout(err) {
		return tc, n, err
	}
	n, err = need.Of(ctx, source, tc)
	return tc, n, err
}

// needed reports whether ManagedResources need the target. That is an error unless it is confirmed.
func (r *remove) needed(name string, n need.Need) (bool, error) {
	if n.Total() == 0 {
		return false, nil
	}
	if r.confirm {
		what := cli.Count(n.Objects, "object") + ", which no hub reconciles from now on"
		if n.Objects == 0 {
			what = "what it has: no objects are known in it"
		}
		r.env.Warn("cluster %s keeps %s, of: %s", name, what, n)
		return true, nil
	}
	return true, cli.Refused("cluster %s is still needed by %s: %s. Delete what needs it to have its objects deleted, or say --confirm to leave all objects in the cluster as they are",
		name, cli.Count(n.Total(), "ManagedResource"), n)
}

// usedAccount is the service account of a registration, with a connection that may delete it.
type usedAccount struct {
	account.Account
	admin *remote.Connection
}

// usedAccount connects with the kubeconfig that may delete the service account.
func (r *remove) usedAccount(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster,
	registration *corev1.Secret) (*usedAccount, error) {
	name := registration.Annotations[ServiceAccountAnnotation]
	if name == "" {
		return nil, cli.Usage("the registration does not have a service account that trellisctl made, so there is nothing to do with --from-kubeconfig")
	}
	key, err := account.ParseKey(name)
	if err != nil {
		return nil, cli.Refused("the annotation %s of the registration is not NAMESPACE/NAME", ServiceAccountAnnotation)
	}
	used := &usedAccount{Account: account.Account{ObjectKey: key}}
	if used.User, err = account.UserOf(ctx, source, registration.Labels[hubv1alpha1.ClusterNameLabel]); err != nil {
		return nil, err
	}
	given, err := r.from.load(r.env, r.target)
	if err != nil {
		return nil, err
	}
	access, err := given.Local()
	if err != nil {
		return nil, err
	}
	if used.admin, err = remote.ConnectREST(ctx, access, r.target.ConnectTimeout, given.Policy.Addresses); err != nil {
		return nil, err
	}
	if tc != nil && tc.Status.ClusterUID != "" && tc.Status.ClusterUID != used.admin.UID {
		return nil, cli.Refused("the kubeconfig leads to the cluster with UID %s, but %s is the one with UID %s",
			used.admin.UID, tc.Name, tc.Status.ClusterUID)
	}
	return used, nil
}

// release deletes the service account, unless others use it.
func (r *remove) release(ctx context.Context, used *usedAccount, outcome *Outcome) error {
	outcome.Version, outcome.UID = used.admin.Version, used.admin.UID
	stays, deleted, err := used.Remove(ctx, used.admin.Client)
	outcome.Deleted = deleted
	if stays != "" {
		r.env.Note("The service account %s stays in the cluster, and its token is valid until it expires: %s",
			outcome.ServiceAccount, stays)
	}
	return err
}

// awaitWebhooks waits until the hub has deleted its configurations of webhooks in the target, or says that it cannot.
func (r *remove) awaitWebhooks(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster) error {
	if tc == nil || webhooksOf(tc) == nil || !r.wait {
		return nil
	}
	err := r.env.Await(ctx, r.timeout, func(ctx context.Context) (done bool, state string, err error) {
		now, err := find(ctx, source, tc.Name)
		if err != nil || now == nil {
			return err == nil, "", err
		}
		webhooks := webhooksOf(now)
		return webhooks == nil || webhooks.Reason == hubv1alpha1.ReasonWebhooksLeftBehind,
			"waiting for the hub to delete its configurations of webhooks in the cluster", nil
	})
	if cli.IsTimeout(err) {
		return fmt.Errorf("the registration is deleted, and the service account stays in the cluster, because the hub "+
			"has not deleted its configurations of webhooks there: %w", err)
	}
	return err
}

// webhooksOf is what a TargetCluster says about webhooks of the hub; nil if there are none.
func webhooksOf(tc *hubv1alpha1.TargetCluster) *metav1.Condition {
	return meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
}

// awaitGone waits until the hub has released a target. A TargetCluster stays as long as ManagedResources need it, if its
// webhooks are left behind, and if a user created it.
func (r *remove) awaitGone(ctx context.Context, source *cli.Source, name string, needed bool) error {
	stays := ""
	err := r.env.Await(ctx, r.timeout, func(ctx context.Context) (done bool, state string, err error) {
		tc, err := find(ctx, source, name)
		if err != nil || tc == nil {
			return err == nil, "", err
		}
		needed = needed || tc.Annotations[hubv1alpha1.RegistrationAnnotation] == ""
		if message, gone := need.RegistrationGone(tc); needed && gone {
			stays = message
			return true, "", nil
		}
		if left := webhooksOf(tc); left != nil && left.Reason == hubv1alpha1.ReasonWebhooksLeftBehind {
			stays = left.Message
			return true, "", nil
		}
		return false, "waiting for the hub to release the cluster", nil
	})
	if cli.IsTimeout(err) {
		return fmt.Errorf("the registration is deleted, but the hub has not released cluster %s: %w", name, err)
	}
	if err == nil && stays != "" {
		r.env.Note("The TargetCluster stays for now: %s", stays)
	}
	return err
}
