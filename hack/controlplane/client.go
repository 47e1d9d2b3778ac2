package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// requestTimeout bounds each request of this package, so that one that got stuck is asked again.
const requestTimeout = 10 * time.Second

// withClient calls do with an administrator's client and leaves no connection behind.
func (cp *ControlPlane) withClient(do func(kubernetes.Interface) error) error {
	config := cp.RESTConfig()
	config.UserAgent = "trellis-control-plane"
	config.Timeout = requestTimeout
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	defer utilnet.CloseIdleConnectionsFor(httpClient.Transport)
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return fmt.Errorf("cannot make a client: %w", err)
	}
	return do(client)
}

// checkServing succeeds when the API server is ready and has made the namespaces that everybody takes for granted.
func checkServing(ctx context.Context, client kubernetes.Interface) error {
	if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return err
	}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// checkServiceAccount succeeds when pods can be created in the default namespace.
func checkServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

func createNodes(ctx context.Context, client kubernetes.Interface, count int) error {
	for i := range count {
		name := nodeName(i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		}}
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cannot create a node: %w", err)
		}
	}
	return nil
}

// checkNodes succeeds when all nodes are ready and pods can be scheduled to them.
func checkNodes(ctx context.Context, client kubernetes.Interface, count int) error {
	for i := range count {
		node, err := client.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !isReady(node) || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s is not ready", node.Name)
		}
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }
