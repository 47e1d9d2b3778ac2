package cluster

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/account"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

type rotate struct {
	change
	hub cli.HubFlags
	// account is the namespace/name of the service account, and role its ClusterRole; empty if they are to be
	// confirmed.
	account, role string
	duration      time.Duration
	yes           bool
	create        bool
	confirm       bool
}

func newRotate(env *cli.Env) *cobra.Command {
	r := &rotate{change: change{env: env}}
	command := &cobra.Command{
		Use:   "rotate NAME [flags]",
		Short: "Give the hub another credential for a cluster",
		Long: `Give the hub another credential for a cluster, and wait until it has taken it.

Without a kubeconfig, the token of a service account is renewed with that token itself. If it has expired already, give
the kubeconfig of an administrator and --service-account. Other credentials are replaced by those of the kubeconfig.

You decide whose token is stored, and with what role: with --service-account and --role, or by confirming what is shown.
The account that the registration notes is not trusted, because anyone who may write it could name any account. Rotating
grants no rights: no service account, role or binding is created or changed. "cluster add" does that.

The new credential is tried before it is stored. It has to lead to the same cluster, or the hub would stop:
--confirm-identity allows another one. If only a token changes, the hub swaps it without a new connection.`,
		Example: `  # Renew the token, for example once a week from a CronJob
  trellisctl -n shoot--foo--a cluster rotate shoot-a --service-account kube-system/trellis --role cluster-admin

  # Store a new token after the old one has expired
  trellisctl -n shoot--foo--a cluster rotate shoot-a --from-kubeconfig admin.yaml --service-account kube-system/trellis

  # Take another kubeconfig
  trellisctl -n shoot--foo--a cluster rotate shoot-a --from-kubeconfig new.yaml`,
		Args:              cli.TakeName,
		ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd, args[0]) },
	}
	r.addFlags(command, true, "the hub has taken the credential", 2*time.Minute)
	r.from.addServerFlag(command)
	command.Flags().StringVar(&r.account, "service-account", "", "NAMESPACE/NAME of the service account whose "+
		"token is stored. It has to exist. Default without a kubeconfig: the one that the present token is of, if "+
		"you confirm it.")
	command.Flags().StringVar(&r.role, "role", "",
		"ClusterRole that the service account has to have already. Default: any, if you confirm it.")
	command.Flags().DurationVar(&r.duration, "token-duration", account.TokenDuration,
		"How long the token is to be valid, if "+
			"the present one was not asked for with less. The API server may give a shorter one.")
	command.Flags().BoolVarP(&r.yes, "yes", "y", false, "Confirm the service account and its role without being asked.")
	r.hub.AddFlags(command)
	command.Flags().BoolVar(&r.create, "create-service-account", false, "")
	must(command.Flags().MarkHidden("create-service-account"))
	command.Flags().BoolVar(&r.confirm, "confirm-identity", false,
		"The kubeconfig leads to another cluster than before, and that is meant.")
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
	heartbeat, err := r.hub.Read(ctx, source, r.env.Clock.Now())
	if err != nil {
		return fmt.Errorf("reading the heartbeat of the hub: %w", err)
	}
	warnIfNotSelected(r.env, &heartbeat, registration)
	if registration.Annotations == nil {
		registration.Annotations = map[string]string{}
	}
	tc, err := find(ctx, source, name)
	if err != nil {
		return err
	}
	// Missing rights to store it are reported before anything is created in the target.
	if err := source.Update(ctx, registration.DeepCopy(), client.DryRunAll, client.FieldOwner(
		cli.FieldManager)); err != nil {
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
	policy, err := r.target.Policy()
	if err != nil {
		return err
	}
	if _, err := kubeconfig.FromSecret(registration, policy); err == nil {
		delete(registration.Data, "kubeconfig") // the other key that the hub accepts: there must not be two credentials
	}
	// With the version that was read: a concurrent change is not overwritten.
	if err := source.Update(ctx, registration, client.FieldOwner(cli.FieldManager)); err != nil {
		return fmt.Errorf("storing the registration %s/%s: %w", registration.Namespace, registration.Name, err)
	}
	if a := before.Annotations[ServiceAccountAnnotation]; a != "" &&
		a != registration.Annotations[ServiceAccountAnnotation] {
		r.env.Note("The service account %s stays in the cluster, and its token is valid until it expires.", a)
	}
	outcome := &Outcome{
		Namespace: source.Namespace, Name: name, Action: Rotated, Version: connection.Version, UID: connection.UID,
		ServiceAccount: registration.Annotations[ServiceAccountAnnotation],
	}
	if bytes.Equal(before.Data[secret.KubeconfigDataName], raw) {
		outcome.Action = Unchanged
	}
	if err := r.report(outcome); err != nil || !r.wait || outcome.Action == Unchanged {
		return err
	}
	return r.awaitTaken(ctx, source, name, raw)
}

// credential makes the new kubeconfig and connects with it.
func (r *rotate) credential(ctx context.Context, cmd *cobra.Command, source *cli.Source, registration *corev1.Secret,
	expect func(*remote.Connection) error) ([]byte, *remote.Connection, error) {
	if r.create {
		return nil, nil, cli.Usage("rotating creates no service account and grants no rights: create one with the " +
			"rights that the hub needs, and name it with --service-account")
	}
	a := &account.Account{Role: r.role}
	var err error
	if r.account != "" {
		if a.ObjectKey, err = account.ParseKey(r.account); err != nil {
			return nil, nil, err
		}
	}
	if a.Duration, err = r.tokenDuration(cmd, registration); err != nil {
		return nil, nil, err
	}
	if r.from.file == "" {
		return r.renew(ctx, a, registration, expect)
	}
	if r.account == "" && r.role != "" {
		return nil, nil, cli.Usage("--role is about a service account: name it with --service-account")
	}
	given, err := r.from.load(r.env, r.target)
	if err != nil {
		return nil, nil, err
	}
	m := &maker{env: r.env, target: r.target, server: r.from.server, expect: expect}
	if r.account != "" {
		m.account, m.accept = a, r.acceptExisting
	}
	return m.credential(ctx, source, given, registration)
}

// renew requests another token of the same service account with the current token. The target reports the account.
func (r *rotate) renew(ctx context.Context, a *account.Account, registration *corev1.Secret,
	expect func(*remote.Connection) error) ([]byte, *remote.Connection, error) {
	policy, err := r.target.Policy()
	if err != nil {
		return nil, nil, err
	}
	present, err := remote.Stored(registration, policy)
	if err != nil {
		return nil, nil, err
	}
	_, connection, err := account.Connect(ctx, r.env, present, r.target, false)
	if err != nil {
		return nil, nil, fmt.Errorf("%w. The present credential cannot renew itself: give the kubeconfig of an "+
			"administrator with --from-kubeconfig, and --service-account", err)
	}
	if err := expect(connection); err != nil {
		return nil, nil, err
	}
	key, isAccount, err := account.Of(ctx, connection.Client)
	switch {
	case err != nil:
		return nil, nil, err
	case !isAccount:
		return nil, nil,
			cli.Usage("the credential of %s is none that trellisctl can renew: give another one with "+
				"--from-kubeconfig", registration.Labels[hubv1alpha1.ClusterNameLabel])
	case a.Name != "" && a.ObjectKey != key:
		return nil, nil, cli.Refused("the present token is of service account %s, and gets no token of %s: give "+
			"the kubeconfig of an administrator with --from-kubeconfig", key, a.ObjectKey)
	}
	if noted := registration.Annotations[ServiceAccountAnnotation]; noted != "" && noted != key.String() {
		r.env.Warn("the registration notes service account %s, but its token is of %s", noted, key)
	}
	a.ObjectKey = key
	if err := r.accept(ctx, connection, a); err != nil {
		return nil, nil, err
	}
	renewed, err := a.Kubeconfig(ctx, r.env, present, connection.Client)
	if err != nil {
		return nil, nil, err
	}
	registration.Annotations[ServiceAccountAnnotation] = a.String()
	registration.Annotations[TokenDurationAnnotation] = a.Duration.String()
	raw, connection, err := account.Connect(ctx, r.env, renewed, r.target, false)
	if err != nil {
		return nil, nil, err
	}
	warnOfRights(ctx, r.env, connection)
	return raw, connection, nil
}

// tokenDuration is the value of the flag, or the recorded duration of the current token. Since others may write the
// latter, it cannot be longer than the default.
func (r *rotate) tokenDuration(cmd *cobra.Command, registration *corev1.Secret) (time.Duration, error) {
	noted, err := time.ParseDuration(registration.Annotations[TokenDurationAnnotation])
	if err == nil && !cmd.Flags().Changed("token-duration") && noted >= account.ShortestToken && noted < r.duration {
		return noted, nil
	}
	return r.duration, account.CheckDuration(r.duration)
}

// acceptExisting is accept for a service account that is used with an administrator's credential.
func (r *rotate) acceptExisting(ctx context.Context, admin *remote.Connection, a *account.Account) error {
	err := admin.Client.Get(ctx, a.ObjectKey, &corev1.ServiceAccount{})
	if apierrors.IsNotFound(err) {
		return cli.NotFound("the cluster has no service account %s, and rotating creates none", a.ObjectKey)
	}
	if err != nil {
		return fmt.Errorf("reading service account %s in the target: %w", a.ObjectKey, err)
	}
	return r.accept(ctx, admin, a)
}

// accept requires that the service account and its role are those of the flags, or are confirmed.
func (r *rotate) accept(ctx context.Context, connection *remote.Connection, a *account.Account) error {
	roles, err := a.Roles(ctx, connection.Client)
	var rights string
	switch {
	case apierrors.IsForbidden(err) && r.role != "":
		return cli.Refused("whether service account %s has the ClusterRole %s cannot be seen with this "+
			"credential; confirm it without --role: %w", a.ObjectKey, r.role, err)
	case apierrors.IsForbidden(err):
		rights = "its roles cannot be seen with this credential"
	case err != nil:
		return err
	case len(roles) == 0:
		rights = "it has no ClusterRole"
	default:
		rights = "it has the ClusterRoles " + strings.Join(roles, ", ")
	}
	if r.role != "" && !slices.Contains(roles, r.role) {
		return cli.Refused("service account %s lacks rights, and rotating grants none: %s instead of %s",
			a.ObjectKey, rights, r.role)
	}
	more := r.role != "" && r.role != account.ClusterAdmin && slices.ContainsFunc(roles, func(role string) bool {
		return role != r.role && role != a.IdentityRole()
	})
	if more {
		rights += ", which is more than " + r.role
	}
	if r.account != "" && r.role != "" && !more {
		return nil
	}
	shown := fmt.Sprintf("Service account %s of the cluster with UID %s: %s.", a.ObjectKey, connection.UID, rights)
	if r.yes {
		r.env.Note("%s", shown)
		return nil
	}
	switch yes, asked := r.env.Confirm(shown + " Give the hub a token of it?"); {
	case yes:
		return nil
	case asked:
		return cli.Refused("not confirmed, so nothing was changed")
	}
	return cli.Usage("%s There is no terminal to confirm that: set --service-account and --role, or --yes", shown)
}

// sameIdentity returns an error for another cluster, unless that is confirmed, which it records on the registration.
func (r *rotate) sameIdentity(tc *hubv1alpha1.TargetCluster, connection *remote.Connection,
	registration *corev1.Secret) error {
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

// awaitTaken waits until the TargetCluster shows the new credential. One without an expiry cannot be distinguished from
// another; then it is enough that the hub accepts it.
func (r *rotate) awaitTaken(ctx context.Context, source *cli.Source, name string, raw []byte) error {
	policy, err := r.target.Policy()
	if err != nil {
		return err
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
		state = "waiting for the hub to take the credential: " + reasonOf(tc, hubv1alpha1.ConditionCredentialsValid)
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
		r.env.Note("The hub has a valid credential. Whether it is the new one is not known, because it does not expire.")
		return nil
	}
	r.env.Note("The hub has taken it: valid until %s (%s).", config.Expiry.UTC().Format(time.RFC3339),
		r.env.Until(config.Expiry))
	return nil
}

func showsEnd(shown *metav1.Time, expiry time.Time) bool {
	if expiry.IsZero() {
		return shown == nil
	}
	return shown != nil && shown.Unix() == expiry.Unix()
}
