package cluster

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

type rotate struct {
	change
	account accountFlags
	confirm bool
}

func newRotate(env *cli.Env) *cobra.Command {
	r := &rotate{change: change{env: env}}
	command := &cobra.Command{
		Use:   "rotate NAME [flags]",
		Short: "Give the hub another credential for a cluster",
		Long: `Give the hub another credential for a cluster, and wait until it has taken it.

Without a kubeconfig, the token of the service account that "cluster add --create-service-account" made is renewed, with that token itself. If
it has ended already, give the kubeconfig of an administrator and --create-service-account again. Other credentials are replaced by
those of the kubeconfig.

The new credential is tried before it is stored. It has to lead to the same cluster, or the hub would stop: --confirm-identity says that
another one is meant. If only a token changes, the hub swaps it without a new connection.`,
		Example: `  # Renew the token, for example once a week from a CronJob
  trellisctl -n shoot--foo--a cluster rotate shoot-a

  # Take another kubeconfig
  trellisctl -n shoot--foo--a cluster rotate shoot-a --from-kubeconfig new.yaml`,
		Args:              cli.TakeName,
		ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	r.addFlags(command, true, "the hub has taken the credential", 2*time.Minute)
	r.from.addServerFlag(command)
	r.account.addFlags(command)
	command.Flags().BoolVar(&r.confirm, "confirm-identity", false, "The kubeconfig leads to another cluster than before, and that is meant.")
	return command
}

func (r *rotate) run(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
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
	if registration.Annotations == nil {
		registration.Annotations = map[string]string{}
	}
	tc, err := find(ctx, source, name)
	if err != nil {
		return err
	}
	// Who may not store it learns that before anything is created in the target.
	if err := source.Update(ctx, registration.DeepCopy(), client.DryRunAll, client.FieldOwner(cli.FieldManager)); err != nil {
		return fmt.Errorf("storing the registration %s/%s: %w", registration.Namespace, registration.Name, err)
	}
	before := registration.DeepCopy()
	raw, connection, err := r.credential(ctx, cmd, source, registration, func(connection *remote.Connection) error {
		return r.sameIdentity(tc, connection, registration)
	})
	if err != nil {
		return err
	}
	registration.Data[secret.KubeconfigDataName] = raw
	if _, err := kubeconfig.FromSecret(registration, kubeconfig.Policy{}); err == nil {
		delete(registration.Data, "kubeconfig") // the other key that the hub accepts; two credentials would be one too many
	}
	// With the version that was read: what somebody else wrote meanwhile is not overwritten.
	if err := source.Update(ctx, registration, client.FieldOwner(cli.FieldManager)); err != nil {
		return fmt.Errorf("storing the registration %s/%s: %w", registration.Namespace, registration.Name, err)
	}
	if a := before.Annotations[ServiceAccountAnnotation]; a != "" && a != registration.Annotations[ServiceAccountAnnotation] {
		r.env.Note("The service account %s stays in the cluster, and its token is good until it ends.", a)
	}
	outcome := &Outcome{
		Namespace: source.Namespace, Name: name, Action: Rotated, Version: connection.Version, UID: connection.UID,
		ServiceAccount: registration.Annotations[ServiceAccountAnnotation],
	}
	if bytes.Equal(before.Data[secret.KubeconfigDataName], raw) {
		outcome.Action = Unchanged
	}
	if err := r.tell(outcome); err != nil || !r.wait || outcome.Action == Unchanged {
		return err
	}
	return r.awaitTaken(ctx, source, name, raw)
}

// credential makes the new kubeconfig and connects with it.
func (r *rotate) credential(ctx context.Context, cmd *cobra.Command, source *cli.Source, registration *corev1.Secret, expect func(*remote.Connection) error) ([]byte, *remote.Connection, error) {
	if r.from.file != "" {
		account, err := r.accountOf(cmd, registration)
		if err != nil {
			return nil, nil, err
		}
		given, err := r.from.load(r.env, r.target)
		if err != nil {
			return nil, nil, err
		}
		m := &maker{env: r.env, target: r.target, server: r.from.server, expect: expect}
		if r.account.create {
			m.account = account
		}
		return m.credential(ctx, source, given, registration)
	}
	if r.account.create {
		return nil, nil, cli.Usage("--create-service-account needs the kubeconfig of an administrator: --from-kubeconfig")
	}
	if registration.Annotations[ServiceAccountAnnotation] == "" {
		return nil, nil, cli.Usage("the credential of %s is none that trellisctl can renew: give another one with --from-kubeconfig", registration.Labels[hubv1alpha1.ClusterNameLabel])
	}
	account, err := r.accountOf(cmd, registration)
	if err != nil {
		return nil, nil, err
	}
	present, err := remote.Stored(registration, r.target.AllowedProxyURL)
	if err != nil {
		return nil, nil, err
	}
	_, connection, err := check(ctx, r.env, present, r.target, false)
	if err != nil {
		return nil, nil, fmt.Errorf("%w. The present token cannot renew itself: give the kubeconfig of an administrator with --from-kubeconfig and --create-service-account", err)
	}
	if err := expect(connection); err != nil {
		return nil, nil, err
	}
	renewed, err := account.kubeconfig(ctx, r.env, present, connection.Client)
	if err != nil {
		return nil, nil, err
	}
	registration.Annotations[TokenDurationAnnotation] = account.duration.String()
	return check(ctx, r.env, renewed, r.target, true)
}

// accountOf is the service account of a registration, unless flags say something else.
func (r *rotate) accountOf(cmd *cobra.Command, registration *corev1.Secret) (*account, error) {
	flags := r.account
	if known := registration.Annotations[ServiceAccountAnnotation]; known != "" && !cmd.Flags().Changed("service-account") {
		flags.account = known
	}
	if known, err := time.ParseDuration(registration.Annotations[TokenDurationAnnotation]); err == nil && !cmd.Flags().Changed("token-duration") {
		flags.duration = known
	}
	return flags.parse()
}

// sameIdentity insists that it is the same cluster, or notes on the registration that another one is meant.
func (r *rotate) sameIdentity(tc *hubv1alpha1.TargetCluster, connection *remote.Connection, registration *corev1.Secret) error {
	if tc == nil || tc.Status.ClusterUID == "" || tc.Status.ClusterUID == connection.UID {
		return nil
	}
	if !r.confirm {
		return cli.Refused("this is another cluster: the hub knows %s as the one with UID %s, and the new credential leads to UID %s. The hub would stop all work on it. If that is meant, say --confirm-identity",
			tc.Name, tc.Status.ClusterUID, connection.UID)
	}
	registration.Annotations[hubv1alpha1.ConfirmIdentityAnnotation] = string(connection.UID)
	return nil
}

// awaitTaken waits until the TargetCluster shows the new credential. One without an end cannot be told from another; then it has
// to do that the hub is content.
func (r *rotate) awaitTaken(ctx context.Context, source *cli.Source, name string, raw []byte) error {
	policy := kubeconfig.Policy{}
	if r.target.AllowedProxyURL != "" {
		policy.AllowedProxyURLs = []string{r.target.AllowedProxyURL}
	}
	config, err := kubeconfig.Parse(raw, policy)
	if err != nil {
		return err
	}
	var tc *hubv1alpha1.TargetCluster
	err = r.env.Await(ctx, r.timeout, func(ctx context.Context) (done bool, state string, err error) {
		if tc, err = find(ctx, source, name); err != nil {
			return false, "", err
		}
		if tc == nil {
			return false, "no hub has noticed the registration yet", nil
		}
		state = "waiting for the hub to take the credential: " + said(tc, hubv1alpha1.ConditionCredentialsValid)
		valid := meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionCredentialsValid) &&
			meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionConnected)
		return valid && showsEnd(tc.Status.CredentialExpiry, config.Expiry), state, nil
	})
	if cli.IsTimeout(err) {
		return fmt.Errorf("the credential of cluster %s is stored, but the hub has not taken it: %w", name, err)
	}
	if err != nil {
		return err
	}
	if config.Expiry.IsZero() {
		r.env.Note("The hub has a valid credential. Whether it is the new one cannot be told: it has no end to tell it by.")
		return nil
	}
	r.env.Note("The hub has taken it: valid until %s (%s).", config.Expiry.UTC().Format(time.RFC3339), r.env.Until(config.Expiry))
	return nil
}

func showsEnd(shown *metav1.Time, expiry time.Time) bool {
	if expiry.IsZero() {
		return shown == nil
	}
	return shown != nil && shown.Unix() == expiry.Unix()
}
