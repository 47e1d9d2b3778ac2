package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/engine/apply"
)

// requestTimeout bounds each request to a target.
const requestTimeout = 30 * time.Second

// Connection is a working connection to a target.
type Connection struct {
	apply.Target
	// REST is the access to the target.
	REST *rest.Config
	// UID is the UID of the cluster: that of its namespace kube-system.
	UID types.UID
	// Version is the version of its API server.
	Version string
}

// Connect connects with what the hub reads from a registration. timeout bounds the attempt.
func Connect(ctx context.Context, config *kubeconfig.Config, timeout time.Duration,
	policy addresses.Policy) (*Connection, error) {
	access := config.REST()
	access.BearerToken = config.Token
	return ConnectREST(ctx, access, timeout, policy)
}

// ConnectREST connects and identifies the cluster. Only addresses that the policy allows are dialled, and no redirect
// is followed. The error is ExitUnreachable if the target does not respond, and ExitRefused if it does not accept the
// credential.
func ConnectREST(ctx context.Context, access *rest.Config, timeout time.Duration,
	policy addresses.Policy) (*Connection, error) {
	access = rest.CopyConfig(access)
	access.Timeout, access.UserAgent, access.QPS, access.Burst = requestTimeout, cli.FieldManager, 50, 100
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := guard(access, policy); err != nil {
		return nil, err
	}
	httpClient, err := cli.HTTPClientFor(access)
	if err != nil {
		return nil, cli.Refused("the kubeconfig cannot be used: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(access, httpClient)
	if err != nil {
		return nil, answer(access, err)
	}
	c, err := client.New(access, client.Options{HTTPClient: httpClient, Mapper: mapper, Scheme: cli.Scheme()})
	if err != nil {
		return nil, answer(access, err)
	}
	heads, err := metadata.NewForConfigAndClient(access, httpClient)
	if err != nil {
		return nil, answer(access, err)
	}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(access, httpClient)
	if err != nil {
		return nil, answer(access, err)
	}
	connection := &Connection{REST: access, Target: apply.Target{Metadata: heads, Client: c, Mapper: mapper}}
	// The first requests are bounded by the timeout; the REST client of discovery takes no context.
	system, err := heads.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(
		ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, answer(access, err)
	}
	connection.UID = system.UID
	version, err := discover.ServerVersion()
	if err != nil {
		return nil, answer(access, err)
	}
	connection.Version = version.GitVersion
	return connection, nil
}

// guard makes a configuration dial only what the policy allows.
func guard(access *rest.Config, policy addresses.Policy) error {
	if access.Dial != nil { // set in code: it cannot come from a kubeconfig
		return nil
	}
	server, _, err := rest.DefaultServerUrlFor(access)
	if err != nil {
		return cli.Refused("the kubeconfig cannot be used: %w", err)
	}
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if err := policy.Guard(dialer, server, access.Proxy); err != nil {
		return refusedAddress(access, err)
	}
	access.Dial = dialer.DialContext
	return nil
}

// unusable is the error for a kubeconfig that cannot be used.
func unusable(what string, err error) error {
	if errors.Is(err, addresses.ErrRefused) {
		return cli.Refused("%s cannot be used: %w; --allow-network allows a network", what, err)
	}
	return cli.Refused("%s cannot be used: %w", what, err)
}

func refusedAddress(access *rest.Config, err error) error {
	return cli.Refused("nothing is sent to %s: %w; --allow-network allows a network", access.Host, err)
}

// answer translates an error of the first requests.
func answer(access *rest.Config, err error) error {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, addresses.ErrRefused):
		return refusedAddress(access, err)
	case errors.Is(err, cli.ErrRedirect):
		return cli.Refused("the cluster at %s redirects to another address, which is not followed: it would get "+
			"the credential", access.Host)
	case errors.As(err, &certificate):
		return cli.Refused("the cluster at %s does not show a certificate that the kubeconfig trusts: %w", access.Host,
			certificate.Err)
	case apierrors.IsUnauthorized(err):
		return cli.Refused("the cluster at %s does not accept the credential: %w", access.Host, err)
	case apierrors.IsForbidden(err):
		return cli.Refused("the credential may not read the namespace kube-system, by whose UID the hub recognises a cluster: %w", err)
	case apierrors.IsNotFound(err):
		return cli.Refused("what answers at %s is no Kubernetes cluster: it has no namespace kube-system", access.Host)
	case cli.IsUnreachable(err):
		return cli.Unreachable("the cluster at %s does not answer: %w", access.Host, err)
	}
	return fmt.Errorf("asking the cluster at %s: %w", access.Host, err)
}
