package access

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/remote"
)

const (
	// shortest is the shortest duration that API servers accept.
	shortest = 10 * time.Minute
	// usual is how long tokens are valid without a flag.
	usual = 15 * time.Minute
	// longest bounds what can be asked for.
	longest = 24 * time.Hour
)

// access is what both commands do.
type access struct {
	env      *cli.Env
	remote   remote.Flags
	account  string
	duration time.Duration
}

func (a *access) addFlags(command *cobra.Command) {
	a.remote.AddConnectFlags(command)
	command.Flags().StringVar(&a.account, "service-account", "",
		"NAMESPACE/NAME of the service account in the target whose token it is. Default: that of the registration's token.")
	command.Flags().DurationVar(&a.duration, "duration", usual,
		"How long the token is to be valid, from 10m to 24h. The API server may issue a shorter one.")
}

// grant is a kubeconfig with a short-lived token.
type grant struct {
	config  *remote.Kubeconfig
	account client.ObjectKey
	expires metav1.Time
}

// grant asks the target for a token.
func (a *access) grant(ctx context.Context, name string) (*grant, error) {
	if a.duration < shortest || a.duration > longest {
		return nil, cli.Usage("--duration: must be from %s to %s", shortest, longest)
	}
	source, err := a.env.Source()
	if err != nil {
		return nil, err
	}
	if namespace, rest, found := strings.Cut(name, "/"); found {
		source, name = source.In(namespace), rest
	}
	policy, err := a.remote.Policy()
	if err != nil {
		return nil, err
	}
	registration, err := remote.Registration(ctx, source, source.Namespace, name)
	if err != nil {
		return nil, err
	}
	account, err := a.accountOf(registration, policy)
	if err != nil {
		return nil, err
	}
	stored, err := remote.Stored(registration, policy)
	if err != nil {
		return nil, err
	}
	cluster := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: name}}
	if known, err := source.TargetCluster(ctx, name); err == nil {
		cluster = known
	} else if cli.ExitCode(err) != cli.ExitNotFound {
		return nil, err
	}
	connection, err := remote.Open(ctx, source, &remote.Found{Cluster: cluster}, a.remote.ConnectTimeout, policy)
	if err != nil {
		return nil, err
	}
	seconds := int64(a.duration.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}}
	if err := connection.Client.SubResource("token").Create(ctx, of, request); err != nil {
		return nil, fmt.Errorf("requesting a token of service account %s: %w", account, err)
	}
	return &grant{account: account, expires: request.Status.ExpirationTimestamp,
		config: stored.WithToken(name, request.Status.Token)}, nil
}

// accountOf is the service account whose token is requested.
func (a *access) accountOf(registration *corev1.Secret, policy kubeconfig.Policy) (client.ObjectKey, error) {
	if a.account != "" {
		namespace, name, found := strings.Cut(a.account, "/")
		if !found || namespace == "" || name == "" {
			return client.ObjectKey{}, cli.Usage("--service-account: must be NAMESPACE/NAME")
		}
		return client.ObjectKey{Namespace: namespace, Name: name}, nil
	}
	config, err := kubeconfig.FromSecret(registration, policy)
	if err != nil {
		return client.ObjectKey{}, cli.Refused("the registration %s/%s cannot be used: %w", registration.Namespace,
			registration.Name, err)
	}
	account := config.ServiceAccount()
	if account.Name == "" {
		return client.ObjectKey{},
			cli.Usage("the credential of the registration is not a token of a service account: " +
				"name an account of the target with --service-account")
	}
	return account, nil
}

// NewKubeconfig returns the command kubeconfig.
func NewKubeconfig(env *cli.Env) *cobra.Command {
	a := &access{env: env}
	output := cli.Output{}
	command := &cobra.Command{
		Use:   "kubeconfig NAME [flags]",
		Short: "Print a kubeconfig for a cluster, with a token for some minutes",
		Long: `Print a kubeconfig for a cluster, with a token of a service account in it that is valid for some minutes.
The token is requested with the credential of the registration; nothing is stored, and the registration does not change.
-o json prints JSON instead of YAML, -o name the name of the cluster alone.`,
		Example: `  trellisctl -n shoot--foo--a kubeconfig shoot-a > /dev/shm/shoot-a
  trellisctl kubeconfig shoot--foo--a/shoot-a --service-account kube-system/viewer --duration 1h`,
		Args: cli.TakeName, ValidArgsFunction: env.CompleteName(cli.KindCluster),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Validate(); err != nil {
				return err
			}
			g, err := a.grant(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if output.Format == cli.FormatName {
				fmt.Fprintln(env.Out, cli.Name(cli.Scheme(), cli.ObjectOf(cli.KindCluster, "", args[0])))
				return nil
			}
			text, err := g.config.Encode(output.Format == cli.FormatJSON)
			if err != nil {
				return err
			}
			env.Note("A token of service account %s, which expires at %s (%s).", g.account,
				g.expires.UTC().Format(time.RFC3339), env.Until(g.expires.Time))
			_, err = env.Out.Write(text)
			return err
		},
	}
	output.AddFlags(command, cli.FormatYAML, cli.FormatJSON, cli.FormatName)
	a.addFlags(command)
	return command
}
