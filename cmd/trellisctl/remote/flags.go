package remote

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trellis-hub/trellis/addresses"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// Flags are the flags of commands that connect to targets.
type Flags struct {
	// Target is the user's choice of the target of a ManagedResource; empty if it is to be found out.
	Target string
	// ConnectTimeout bounds the attempt to connect.
	ConnectTimeout time.Duration
	// AllowedProxyURL is the proxy that kubeconfigs may name.
	AllowedProxyURL string
	// AllowedNetworks are networks of special addresses, such as loopback ones, that targets may be in. Default: those
	// of the environment variable.
	AllowedNetworks []string
}

// allowVariable is the variable of the environment with networks, separated by commas, for machines whose clusters are
// all local.
const allowVariable = "TRELLISCTL_ALLOW_NETWORK"

// Policy is the policy for kubeconfigs. An error is about the flags.
func (f *Flags) Policy() (kubeconfig.Policy, error) {
	var policy kubeconfig.Policy
	var err error
	from, networks := "--allow-network", f.AllowedNetworks
	if value := os.Getenv(allowVariable); len(networks) == 0 && value != "" {
		from, networks = "$"+allowVariable, strings.Split(value, ",")
	}
	if policy.Addresses, err = addresses.Allow(networks...); err != nil {
		return kubeconfig.Policy{}, cli.Usage("%s: %w", from, err)
	}
	if f.AllowedProxyURL != "" {
		policy.AllowedProxyURLs = []string{f.AllowedProxyURL}
	}
	return policy, nil
}

// AddFlags adds the flags to a command about ManagedResources.
func (f *Flags) AddFlags(cmd *cobra.Command, env *cli.Env) {
	f.AddConnectFlags(cmd)
	cmd.Flags().StringVar(&f.Target, "target", "", "Target to look into: NAME or NAMESPACE/NAME of a TargetCluster, or \"source\". Default: where the ManagedResource goes.")
	env.CompleteFlag(cmd, "target", cli.KindCluster, SourceName)
}

// AddConnectFlags adds those of the flags that are about the connection.
func (f *Flags) AddConnectFlags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.ConnectTimeout, "connect-timeout", 10*time.Second,
		"How long to wait for the target when connecting.")
	cmd.Flags().StringVar(&f.AllowedProxyURL, "allow-proxy-url", "", "The proxy-url that the kubeconfig of a target may have. The hub has to allow it, too (clusterCache.allowedProxyURLs).")
	cmd.Flags().StringSliceVar(&f.AllowedNetworks, "allow-network", nil,
		"Network of loopback, link-local, unspecified or multicast addresses that the target may be in, such as "+
			"127.0.0.0/8. The hub has to allow it, too (clusterCache.allowedNetworks). Default: $"+allowVariable+".")
}

// Open finds the target of a ManagedResource and connects to it. The target is returned with an error, too, if it was
// found.
func (f *Flags) Open(ctx context.Context, source *cli.Source, mr *resourcesv1alpha1.ManagedResource) (
	*Found, *Connection, error) {
	found, err := Of(ctx, source, mr, f.Target)
	if err != nil {
		return nil, nil, err
	}
	policy, err := f.Policy()
	if err != nil {
		return found, nil, err
	}
	connection, err := Open(ctx, source, found, f.ConnectTimeout, policy)
	if err != nil {
		return found, nil, err
	}
	return found, connection, nil
}
