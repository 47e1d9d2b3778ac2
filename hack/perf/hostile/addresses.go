package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// addressesCases are those of registrations that lead into the hub's own machine or network.
func addressesCases() []attack {
	var listening *server
	return []attack{{
		row: 15, name: "loopback and link-local addresses", budget: oneTarget, calls: true, quick: true,
		// 127.0.0.0/8 is allowed here for the honest targets, so the port is one of IPv6.
		begin: func(ctx context.Context, s *scene) error {
			var err error
			listening, err = newServerAt(s.identity, "[::1]:0", serverOptions{}) //nolint:contextcheck // it is closed
			if err != nil {
				return err
			}
			s.servers = append(s.servers, listening)
			closed, err := net.Listen("tcp", "[::1]:0")
			if err != nil {
				return fmt.Errorf("finding a port that is closed: %w", err)
			}
			refused := "https://" + closed.Addr().String()
			if err := closed.Close(); err != nil {
				return fmt.Errorf("finding a port that is closed: %w", err)
			}
			_, port, _ := net.SplitHostPort(listening.listener.Addr().String())
			for name, address := range map[string]string{
				"open": listening.address(), "closed": refused, "mapped": "https://[::ffff:169.254.169.254]:" + port,
				"link-local": "https://169.254.169.254:" + port, "link-local-6": "https://[fe80::1]:" + port,
				"unspecified": "https://[::]:" + port, "multicast": "https://224.0.0.1:" + port,
			} {
				if err := s.register(ctx, name, s.identity.kubeconfig(address)); err != nil {
					return err
				}
			}
			return nil
		},
		check: func(ctx context.Context, s *scene) error { return s.judgeAddresses(ctx, listening) },
	}}
}

// judgeAddresses says whether a tenant learns from conditions what listens where.
func (s *scene) judgeAddresses(ctx context.Context, listening *server) error {
	const registrations = 7
	said := map[string]string{}
	what := "all registrations of refused addresses are shown as not connected"
	if err := s.Until(ctx, s.options.Patience, 200*time.Millisecond, what, func() (bool, error) {
		clear(said)
		var list hubv1alpha1.TargetClusterList
		if err := s.Source.Client.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
			return false, fmt.Errorf("reading TargetClusters: %w", err)
		}
		for i := range list.Items {
			tc := &list.Items[i]
			c := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionConnected)
			if c != nil && c.Status != "Unknown" {
				if c.Status == "True" {
					return false, fmt.Errorf("%s is connected", tc.Name)
				}
				said[tc.Name] = c.Reason + ": " + c.Message
			}
		}
		return len(said) == registrations, nil
	}); err != nil {
		return err
	}
	if n := listening.connections.Load(); n > 0 {
		return fmt.Errorf("the hub dialled a loopback address, %d times", n)
	}
	if said["open"] != said["closed"] {
		return fmt.Errorf("an open port looks different from a closed one: %q and %q", said["open"], said["closed"])
	}
	for name, message := range said {
		for _, detail := range []string{"connection refused", "timeout", "timed out", "no route", "certificate", "EOF"} {
			if strings.Contains(strings.ToLower(message), detail) {
				return errors.New(name + " says how dialling failed: " + message)
			}
		}
	}
	return nil
}
