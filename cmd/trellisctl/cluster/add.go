package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/account"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

// fromFlags select a kubeconfig.
type fromFlags struct {
	file, context, server string
}

// addFlags adds a flag --context for the kubeconfig of the target, in place of kubectl's own.
func (f *fromFlags) addFlags(cmd *cobra.Command, env *cli.Env) {
	cmd.Flags().StringVar(&f.file, "from-kubeconfig", "", "Kubeconfig of the cluster; - reads it from stdin.")
	cmd.Flags().StringVar(&f.context, "context", "",
		"Context of that kubeconfig. Default: its current one. (The context of the hub is --hub-context.)")
	cmd.Flags().StringVar(env.Flags.Context, "hub-context", "",
		"Context of your own kubeconfig that leads to the hub. Default: its current one.")
	must(cmd.MarkFlagFilename("from-kubeconfig"))
	must(cmd.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) (
		[]string, cobra.ShellCompDirective) {
		return remote.Contexts(f.file), cobra.ShellCompDirectiveNoFileComp
	}))
}

func must(err error) {
	if err != nil {
		panic(err) // of flags, which are compiled in
	}
}

// addServerFlag is for commands that store a kubeconfig.
func (f *fromFlags) addServerFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.server, "server-for-hub", "",
		"Address of the API server as the hub reaches it, if that is another one than in the kubeconfig.")
}

// load reads the kubeconfig.
func (f *fromFlags) load(env *cli.Env, flags remote.Flags) (*remote.Kubeconfig, error) {
	k, err := remote.Load(f.file, f.context, env.In)
	if err != nil {
		return nil, err
	}
	if k.Policy, err = flags.Policy(); err != nil {
		return nil, err
	}
	return k, nil
}

type add struct {
	change
	hub     cli.HubFlags
	account account.Flags
	class   string
	labels  map[string]string
}

func newAdd(env *cli.Env) *cobra.Command {
	a := &add{change: change{env: env}}
	command := &cobra.Command{
		Use:   "add NAME --from-kubeconfig FILE [--context CONTEXT] [flags]",
		Short: "Register a cluster at the hub",
		Long: `Register a cluster at the hub: check its kubeconfig, connect to it, and store what the hub needs as a
Secret in the layout of Cluster API, in the namespace whose ManagedResources the cluster is for.

Only one context of the kubeconfig is stored. Files that it refers to are embedded. What the hub refuses (exec plug-ins,
auth providers, impersonation, insecure-skip-tls-verify, unknown proxies, addresses such as loopback ones) is refused
here; with --create-service-account such a kubeconfig may be used to create the service account.

If the hub has a selector of registrations (clusterCache.registrationSelector), the registration gets the labels that it
asks for. Where it leaves a choice, --labels makes it.

Nothing is written before a connection has worked with exactly what is going to be stored. No credential is printed.`,
		Example: `  # Store a service account of its own, and wait until the hub is connected
  trellisctl -n shoot--foo--a cluster add shoot-a --from-kubeconfig admin.yaml --create-service-account --wait

  # Store the credential of a context as it is
  trellisctl -n shoot--foo--a cluster add shoot-a --from-kubeconfig ~/.kube/config --context shoot-a-robot`,
		Args: cli.TakeName, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0]) },
	}
	a.addFlags(command, false, "the hub is connected", time.Minute)
	a.from.addServerFlag(command)
	a.account.AddFlags(command)
	command.Flags().StringVar(&a.class, "class", "",
		"Class of the ManagedResources that the cluster is for. Default: the default class.")
	command.Flags().StringToStringVar(&a.labels, "labels", nil, "Labels of the registration, as KEY=VALUE. Default: "+
		"those that the hub's selector of registrations asks for.")
	a.hub.AddFlags(command)
	return command
}

func (a *add) run(ctx context.Context, name string) error {
	if err := a.validate(name); err != nil {
		return err
	}
	wanted, err := a.account.Parse()
	if err != nil {
		return err
	}
	given, err := a.from.load(a.env, a.target)
	if err != nil {
		return err
	}
	source, err := a.env.Source()
	if err != nil {
		return err
	}
	if err := a.free(ctx, source, name); err != nil {
		return err
	}
	registration := newRegistration(source.Namespace, name, a.class)
	if err := a.label(ctx, source, registration); err != nil {
		return err
	}
	// Missing rights to store it are reported before anything is created in the target.
	if err := source.Create(ctx, registration.DeepCopy(), client.DryRunAll, client.FieldOwner(
		cli.FieldManager)); err != nil {
		return fmt.Errorf("storing the registration %s/%s: %w", source.Namespace, registration.Name, err)
	}
	m := &maker{env: a.env, target: a.target, server: a.from.server}
	if a.account.Create {
		m.account = wanted
	}
	raw, connection, err := m.credential(ctx, source, given, registration)
	if err != nil {
		return err
	}
	if others := sameCluster(ctx, source, connection.UID, name); len(others) > 0 {
		a.env.Warn("the cluster is registered already, as %s", strings.Join(others, ", "))
	}
	registration.Data = map[string][]byte{secret.KubeconfigDataName: raw}
	if err := source.Create(ctx, registration, client.FieldOwner(cli.FieldManager)); err != nil {
		return fmt.Errorf("storing the registration %s/%s: %w", source.Namespace, registration.Name, err)
	}
	outcome := &Outcome{
		Namespace: source.Namespace, Name: name, Action: Registered, Version: connection.Version, UID: connection.UID,
		ServiceAccount: registration.Annotations[ServiceAccountAnnotation],
	}
	if err := a.report(outcome); err != nil || !a.wait {
		return err
	}
	return awaitConnected(ctx, a.env, source, name, a.timeout)
}

func (a *add) validate(name string) error {
	if err := a.output.Validate(); err != nil {
		return err
	}
	if a.from.file == "" {
		return cli.Usage("--from-kubeconfig is required")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return cli.Usage("name %q: %s", name, strings.Join(problems, "; "))
	}
	for flag, value := range map[string]string{"name": name, "--class": a.class} {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return cli.Usage("%s %q: it becomes the value of a label: %s", flag, value, strings.Join(problems, "; "))
		}
	}
	problems := metav1validation.ValidateLabels(a.labels, field.NewPath("labels"))
	for _, reserved := range []string{hubv1alpha1.ClusterNameLabel, hubv1alpha1.ClassLabel} {
		if _, is := a.labels[reserved]; is {
			return cli.Usage("--labels: %s is set by the name of the cluster and by --class", reserved)
		}
	}
	if len(problems) > 0 {
		return cli.Usage("--labels: %q: %s", problems[0].BadValue, problems[0].Detail)
	}
	return nil
}

// free returns an error if the name is in use.
func (a *add) free(ctx context.Context, source *cli.Source, name string) error {
	_, err := remote.Registration(ctx, source, source.Namespace, name)
	switch {
	case err == nil:
		return cli.Refused("cluster %s is registered in namespace %s already; \"cluster rotate\" gives it another credential",
			name, source.Namespace)
	case cli.ExitCode(err) != cli.ExitNotFound:
		return err
	}
	namespace := &corev1.Namespace{}
	if err := source.Get(ctx, client.ObjectKey{Name: source.Namespace}, namespace); apierrors.IsNotFound(err) {
		return cli.NotFound("the source cluster has no namespace %s", source.Namespace)
	}
	return nil // without the right to read namespaces, the write of the Secret reports it
}

// newRegistration is the Secret that registers a target, without a kubeconfig yet.
func newRegistration(namespace, name, class string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: remote.SecretName(name), Labels: map[string]string{hubv1alpha1.ClusterNameLabel: name},
			Annotations: map[string]string{},
		},
		Type: clusterv1.ClusterSecretType,
	}
	if class != "" {
		s.Labels[hubv1alpha1.ClassLabel] = class
	}
	return s
}

// maker makes the kubeconfig that is stored from the one that is given.
type maker struct {
	env    *cli.Env
	target remote.Flags
	// server is the address for the hub; empty for that of the kubeconfig.
	server string
	// account replaces the credential that is given; nil for none. It is created, with its rights, unless accept is
	// set: then it must exist, and its rights are not changed.
	account *account.Account
	// accept returns an error for an existing account that must not be used.
	accept func(ctx context.Context, admin *remote.Connection, a *account.Account) error
	// expect returns an error for a cluster other than the expected one; nil accepts any.
	expect func(*remote.Connection) error
}

// credential makes the kubeconfig that will be stored, connects with it, and records its origin on the registration.
func (m *maker) credential(ctx context.Context, source *cli.Source, given *remote.Kubeconfig,
	registration *corev1.Secret) ([]byte, *remote.Connection, error) {
	stored := given
	if m.account == nil {
		delete(registration.Annotations, ServiceAccountAnnotation)
		delete(registration.Annotations, TokenDurationAnnotation)
		if _, _, err := stored.Stored(); err != nil {
			return nil, nil, fmt.Errorf(
				"%w. With --create-service-account, it is used once to create a service account for the hub", err)
		}
	} else {
		var err error
		if m.account.User, err = account.UserOf(ctx, source,
			registration.Labels[hubv1alpha1.ClusterNameLabel]); err != nil {
			return nil, nil, err
		}
		if stored, err = m.create(ctx, given); err != nil {
			return nil, nil, err
		}
		registration.Annotations[ServiceAccountAnnotation] = m.account.String()
		registration.Annotations[TokenDurationAnnotation] = m.account.Duration.String()
	}
	raw, connection, err := account.Connect(ctx, m.env, stored, m.target, m.account != nil && m.accept == nil)
	if err != nil {
		return nil, nil, err
	}
	if err := m.expected(connection); err != nil {
		return nil, nil, err
	}
	warnOfRights(ctx, m.env, connection)
	if m.server != "" {
		stored.SetServer(m.server)
		if raw, _, err = stored.Stored(); err != nil {
			return nil, nil, err
		}
	}
	if isLoopback(stored.Server()) {
		m.env.Warn("the address %s means this machine: the hub reaches the cluster only if it runs here; see --server-for-hub", stored.Server())
	}
	return raw, connection, nil
}

func (m *maker) expected(connection *remote.Connection) error {
	if m.expect == nil {
		return nil
	}
	return m.expect(connection)
}

// create creates the service account with the given credential, in the expected cluster only.
func (m *maker) create(ctx context.Context, given *remote.Kubeconfig) (*remote.Kubeconfig, error) {
	access, err := given.Local()
	if err != nil {
		return nil, err
	}
	admin, err := remote.ConnectREST(ctx, access, m.target.ConnectTimeout, given.Policy.Addresses)
	if err != nil {
		return nil, err
	}
	if err := m.expected(admin); err != nil {
		return nil, err
	}
	// A cluster that the hub would refuse is detected before anything is created there.
	if _, _, err := given.WithToken(m.account.Name, "none-yet").Stored(); err != nil {
		return nil, err
	}
	if err := m.prepare(ctx, admin); err != nil {
		return nil, err
	}
	return m.account.Kubeconfig(ctx, m.env, given, admin.Client)
}

// prepare ensures that the service account exists.
func (m *maker) prepare(ctx context.Context, admin *remote.Connection) error {
	if m.accept == nil {
		return m.account.Create(ctx, admin.Client)
	}
	if err := m.accept(ctx, admin, m.account); err != nil {
		return err
	}
	return m.account.Use(ctx, admin.Client)
}

// warnOfRights warns if a credential does not have all rights.
func warnOfRights(ctx context.Context, env *cli.Env, connection *remote.Connection) {
	if !account.MayDoEverything(ctx, connection.Client) {
		env.Warn("the credential may not do everything in the cluster: objects that it may not write will fail " +
			"with ApplyFailed")
	}
}
