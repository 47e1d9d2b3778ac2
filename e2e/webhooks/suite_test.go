package webhooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"k8s.io/client-go/tools/clientcmd"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/webhooks/certificates"
)

// replicaEnv makes the test binary a replica of a hub: the command itself, or with the value rotating one that does not
// wait for weeks until it renews certificates.
const (
	replicaEnv = "TRELLIS_E2E_REPLICA"
	rotating   = "rotating"
)

// The control planes that all tests share.
var (
	source  *testbed.Cluster
	targets = map[string]*testbed.Cluster{}
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(replicaEnv); mode != "" {
		os.Exit(beReplica(mode))
	}
	testbed.Suite{Patience: 2 * time.Minute, Poll: 50 * time.Millisecond}.Main(m, run)
}

func run(m *testing.M) int {
	clusters, err := testbed.StartSource(context.Background(), controlplane.Options{Name: "source"},
		controlplane.Options{Name: "east"}, controlplane.Options{Name: "west"}, controlplane.Options{Name: "north"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer testbed.StopClusters(clusters...)
	source = clusters[0]
	targets["east"], targets["west"], targets["north"] = clusters[1], clusters[2], clusters[3]
	return m.Run()
}

// beReplica runs a replica until a signal or the end of the test that started it, and returns the exit code.
func beReplica(mode string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other end is closed
		cancel(errors.New("the test is gone"))
	}()
	var err error
	if mode == rotating {
		err = runRotating(ctx)
	} else {
		err = app.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runRotating runs a replica that renews all the time what calls are secured with.
func runRotating(ctx context.Context) error {
	data, err := os.ReadFile(os.Args[2])
	if err != nil {
		return err
	}
	config, err := configv1alpha1.Load(data)
	if err != nil {
		return err
	}
	access, err := clientcmd.BuildConfigFromFlags("", config.SourceClientConnection.Kubeconfig)
	if err != nil {
		return err
	}
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	return app.Run(ctx, app.Options{
		Config: config, Source: access, Logger: zapr.NewLogger(log),
		Certificates: func(o *certificates.Options) {
			o.Renewal, o.Overlap = time.Second, 20*time.Second
			o.Poll, o.Check, o.Spread = 200*time.Millisecond, 200*time.Millisecond, 20*time.Second
		},
	})
}
