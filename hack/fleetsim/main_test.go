package fleetsim_test

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trellis-hub/trellis/hack/fleetsim"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts a fleet that ends with the test.
func start(t *testing.T, o fleetsim.Options) *fleetsim.Fleet {
	t.Helper()
	fleet, err := fleetsim.Start(t.Context(), o)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	return fleet
}

// one starts a fleet of one target.
func one(t *testing.T, o fleetsim.Options) *fleetsim.Target {
	t.Helper()
	o.Targets = 1
	return start(t, o).Targets()[0]
}

// visitor is a client with a connection of its own.
type visitor struct{ *kubernetes.Clientset }

// visit connects with the kubeconfig of now.
func visit(t *testing.T, target *fleetsim.Target) visitor {
	t.Helper()
	return connect(t, restConfig(t, target))
}

func connect(t *testing.T, config *rest.Config) visitor {
	t.Helper()
	config.QPS = -1
	config.Timeout = patience
	config.ContentType = runtime.ContentTypeJSON // the simulator refuses bodies in protobuf
	set, err := kubernetes.NewForConfigAndClient(config, httpClient(t, config))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return visitor{set}
}

func httpClient(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	// A transport with a dialer of its own is not shared with others of the same configuration.
	config.Dial = (&net.Dialer{}).DialContext
	client, err := rest.HTTPClientFor(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// identity asks for the UID of kube-system.
func (v visitor) identity() (string, error) {
	namespace, err := v.CoreV1().Namespaces().Get(context.Background(), "kube-system", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(namespace.UID), nil
}

// hello returns what a target answers, nil if all is well.
func (v visitor) hello() error {
	_, err := v.identity()
	return err
}

func restConfig(t *testing.T, target *fleetsim.Target) *rest.Config {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return config
}

// BeUnauthorized matches the error of a 401.
func BeUnauthorized() types.GomegaMatcher {
	return Satisfy(apierrors.IsUnauthorized)
}
