package cluster

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// namedManagedResources bounds how many that need a target are named.
const namedManagedResources = 10

type remove struct {
	env     *cli.Env
	from    fromFlags
	target  remote.Flags
	confirm bool
	wait    bool
	timeout time.Duration
}

func newRemove(env *cli.Env) *cobra.Command {
	r := &remove{env: env}
	command := &cobra.Command{
		Use:     "remove NAME [flags]",
		Aliases: []string{"rm", "delete", "unregister"},
		Short:   "Take a cluster from the hub",
		Long: `Take a cluster from the hub: delete its registration. Nothing is deleted in the cluster.

If ManagedResources still need it, they are named and nothing is done. Delete them first if their objects are to go; --confirm says that
their objects are to stay as they are, without a hub that looks after them. It sets the annotation ` + hubv1alpha1.ConfirmDeletionAnnotation + `,
which the admission policy of the chart asks for.

With the kubeconfig of an administrator, the service account that "cluster add" made is deleted in the cluster, too.`,
		Example: `  trellisctl -n shoot--foo--a cluster remove shoot-a --from-kubeconfig admin.yaml`,
		Args:    cobra.ExactArgs(1), ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE: func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.from.addFlags(command, env)
	r.target.AddConnectFlags(command)
	command.Flags().BoolVar(&r.confirm, "confirm", false, "Remove it although ManagedResources need it; their objects stay in it.")
	command.Flags().BoolVar(&r.wait, "wait", true, "Wait until the hub has let go of it.")
	command.Flags().DurationVar(&r.timeout, "timeout", time.Minute, "How long to wait for the hub.")
	return command
}

func (r *remove) run(ctx context.Context, name string) error {
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
	needed, err := r.needed(ctx, source, name, tc)
	if err != nil {
		return err
	}
	var admin *remote.Connection
	if r.from.file != "" { // before anything is deleted, because it may not work
		if admin, err = r.administrator(ctx, source, tc, registration); err != nil {
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
	if err := source.Delete(ctx, registration, client.Preconditions{UID: ptr.To(registration.UID)}); err != nil {
		return fmt.Errorf("deleting the registration %s/%s: %w", registration.Namespace, registration.Name, err)
	}
	fmt.Fprintf(r.env.Out, "cluster/%s removed\n", name)
	if admin != nil {
		if err := r.removeAccount(ctx, admin, registration); err != nil {
			return err
		}
	} else if a := registration.Annotations[ServiceAccountAnnotation]; a != "" {
		r.env.Note("The service account %s stays in the cluster, and its token is good until it ends.", a)
	}
	if tc == nil || !r.wait {
		return nil
	}
	return r.awaitGone(ctx, source, name, needed)
}

// needed tells whether ManagedResources need the target. That is an error unless it is confirmed.
func (r *remove) needed(ctx context.Context, source *cli.Source, name string, tc *hubv1alpha1.TargetCluster) (bool, error) {
	if tc == nil {
		return false, nil // no hub ever saw it
	}
	mrs := &resourcesv1alpha1.ManagedResourceList{}
	if err := source.List(ctx, mrs, client.InNamespace(source.Namespace)); err != nil {
		return false, fmt.Errorf("listing ManagedResources: %w", err)
	}
	var names []string
	objects := 0
	for _, mr := range needing(mrs.Items, tc) {
		objects += len(mr.Status.Resources)
		state := fmt.Sprintf("%s (%d objects", mr.Name, len(mr.Status.Resources))
		if mr.DeletionTimestamp != nil {
			state += ", is being deleted"
		}
		names = append(names, state+")")
	}
	counted := 0 // the hub also knows of those in other namespaces
	if tc.Status.ManagedResources != nil {
		counted = int(tc.Status.ManagedResources.Total)
	}
	if len(names) == 0 && counted == 0 {
		return false, nil
	}
	shown := strings.Join(names[:min(len(names), namedManagedResources)], ", ")
	if rest := max(len(names), counted) - min(len(names), namedManagedResources); rest > 0 {
		shown = strings.TrimPrefix(fmt.Sprintf("%s and %d more", shown, rest), " and ")
	}
	if r.confirm {
		r.env.Warn("%d objects stay in cluster %s, and nobody looks after them any more. They belong to: %s", objects, name, shown)
		return true, nil
	}
	return true, cli.Refused("%d ManagedResources still need cluster %s: %s. Delete them to have their objects deleted, or say --confirm to leave all objects in the cluster as they are",
		max(len(names), counted), name, shown)
}

// administrator connects with the kubeconfig that may delete the service account.
func (r *remove) administrator(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster, registration *corev1.Secret) (*remote.Connection, error) {
	if registration.Annotations[ServiceAccountAnnotation] == "" {
		return nil, cli.Usage("the registration does not have a service account that trellisctl made, so there is nothing to do with --from-kubeconfig")
	}
	given, err := r.from.load(r.env, r.target)
	if err != nil {
		return nil, err
	}
	access, err := given.Local()
	if err != nil {
		return nil, err
	}
	connection, err := remote.ConnectREST(ctx, access, r.target.ConnectTimeout)
	if err != nil {
		return nil, err
	}
	if tc != nil && tc.Status.ClusterUID != "" && tc.Status.ClusterUID != connection.UID {
		return nil, cli.Refused("the kubeconfig leads to the cluster with UID %s, but %s is the one with UID %s", connection.UID, tc.Name, tc.Status.ClusterUID)
	}
	return connection, r.aloneIn(ctx, source, tc, registration, connection.UID)
}

// aloneIn refuses if another registration of the same cluster uses the same service account: it would lose the cluster with it.
// Registrations of other hubs are not seen from here.
func (r *remove) aloneIn(ctx context.Context, source *cli.Source, tc *hubv1alpha1.TargetCluster, registration *corev1.Secret, uid types.UID) error {
	const stay = "without --from-kubeconfig the registration is removed and the service account stays"
	account := registration.Annotations[ServiceAccountAnnotation]
	all := &hubv1alpha1.TargetClusterList{}
	if err := source.List(ctx, all); err != nil {
		return fmt.Errorf("looking whether others use service account %s (%s): %w", account, stay, err)
	}
	for _, other := range all.Items {
		own := tc != nil && client.ObjectKeyFromObject(&other) == client.ObjectKeyFromObject(tc)
		name := other.Annotations[hubv1alpha1.RegistrationAnnotation]
		if own || other.Status.ClusterUID != uid || name == "" {
			continue
		}
		theirs := &corev1.Secret{}
		err := source.Get(ctx, client.ObjectKey{Namespace: other.Namespace, Name: name}, theirs)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("looking whether cluster %s/%s uses service account %s (%s): %w", other.Namespace, other.Name, account, stay, err)
		case theirs.Annotations[ServiceAccountAnnotation] == account:
			return cli.Refused("cluster %s/%s uses service account %s, too; %s", other.Namespace, other.Name, account, stay)
		}
	}
	return nil
}

func (r *remove) removeAccount(ctx context.Context, admin *remote.Connection, registration *corev1.Secret) error {
	key, err := parseAccount(registration.Annotations[ServiceAccountAnnotation])
	if err != nil {
		return cli.Refused("the annotation %s of the registration is not NAMESPACE/NAME; nothing was deleted in the cluster", ServiceAccountAnnotation)
	}
	deleted, err := (&account{ObjectKey: key}).remove(ctx, admin.Client)
	for _, name := range deleted {
		io.WriteString(r.env.Out, name+" deleted in the cluster\n") //nolint:errcheck // there is nobody to tell
	}
	return err
}

// awaitGone waits until the hub has let go of a target. A TargetCluster stays as long as ManagedResources need it, and if a user made it.
func (r *remove) awaitGone(ctx context.Context, source *cli.Source, name string, needed bool) error {
	stays := ""
	err := r.env.Await(ctx, r.timeout, func(ctx context.Context) (done bool, state string, err error) {
		tc, err := find(ctx, source, name)
		if err != nil || tc == nil {
			return err == nil, "", err
		}
		ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady)
		needed = needed || tc.Annotations[hubv1alpha1.RegistrationAnnotation] == ""
		if needed && ready != nil && ready.Reason == hubv1alpha1.ReasonRegistrationGone {
			stays = ready.Message
			return true, "", nil
		}
		return false, "waiting for the hub to let go of the cluster", nil
	})
	if cli.IsTimeout(err) {
		return fmt.Errorf("the registration is deleted, but the hub has not let go of cluster %s: %w", name, err)
	}
	if err == nil && stays != "" {
		r.env.Note("The TargetCluster stays for now: %s", stays)
	}
	return err
}
