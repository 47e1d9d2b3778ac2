package cluster

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// Annotations of registrations whose credential trellisctl made.
const (
	// ServiceAccountAnnotation is the namespace/name of the service account in the target whose token the registration
	// has.
	ServiceAccountAnnotation = "trellisctl.hub.gardener.cloud/service-account"
	// TokenDurationAnnotation is the requested duration of its tokens, as a Go duration.
	TokenDurationAnnotation = "trellisctl.hub.gardener.cloud/token-duration" //nolint:gosec // the name of an annotation
)

// New returns the command with its subcommands.
func New(env *cli.Env) *cobra.Command {
	command := &cobra.Command{
		Use:     "cluster",
		Aliases: []string{"clusters", "tc"},
		Short:   "Add, list, describe, rotate and remove clusters",
		Long:    "Add, list, describe, rotate and remove the clusters that a hub works on.",
	}
	command.AddCommand(newAdd(env), newList(env), newDescribe(env), newRotate(env), newRemove(env))
	return command
}

// nameOf is the name of a cluster for -o name. It may have no TargetCluster yet.
func nameOf(name string) string {
	return cli.Name(cli.Scheme(), &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// find reads a TargetCluster, nil if there is none.
func find(ctx context.Context, source *cli.Source, name string) (*hubv1alpha1.TargetCluster, error) {
	tc := &hubv1alpha1.TargetCluster{}
	err := source.Get(ctx, client.ObjectKey{Namespace: source.Namespace, Name: name}, tc)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading TargetCluster %s/%s: %w", source.Namespace, name, err)
	}
	return tc, nil
}

// sameCluster lists the other targets that lead to a cluster, as far as the user may read them.
func sameCluster(ctx context.Context, source *cli.Source, uid types.UID, name string) (others []string) {
	list := &hubv1alpha1.TargetClusterList{}
	if source.List(ctx, list) != nil && source.List(ctx, list, client.InNamespace(source.Namespace)) != nil {
		return nil
	}
	for i := range list.Items {
		tc := &list.Items[i]
		if tc.Status.ClusterUID == uid && (tc.Namespace != source.Namespace || tc.Name != name) {
			others = append(others, tc.Namespace+"/"+tc.Name)
		}
	}
	return others
}

// isLoopback reports whether an address is a loopback address.
func isLoopback(server string) bool {
	address, err := url.Parse(server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(address.Hostname())
	return address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// reasonOf returns the reason and message of a condition of a TargetCluster.
func reasonOf(tc *hubv1alpha1.TargetCluster, conditionType string) string {
	c := meta.FindStatusCondition(tc.Status.Conditions, conditionType)
	if c == nil {
		return "the hub has not looked at it yet"
	}
	return c.Reason + ": " + c.Message
}

// awaitConnected waits until the hub is connected to a target.
func awaitConnected(ctx context.Context, env *cli.Env, source *cli.Source, name string, timeout time.Duration) error {
	var tc *hubv1alpha1.TargetCluster
	err := env.Await(ctx, timeout, func(ctx context.Context) (done bool, state string, err error) {
		if tc, err = find(ctx, source, name); err != nil {
			return false, "", err
		}
		if tc == nil {
			return false, "no hub has noticed the registration yet", nil
		}
		return meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionConnected),
			"waiting for the hub to connect: " + reasonOf(tc, hubv1alpha1.ConditionReady), nil
	})
	if cli.IsTimeout(err) {
		return fmt.Errorf("cluster %s is registered, but the hub is not connected to it: %w", name, err)
	}
	if err != nil {
		return err
	}
	env.Note("The hub is connected: %s", reasonOf(tc, hubv1alpha1.ConditionReady))
	return nil
}
