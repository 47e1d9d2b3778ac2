package app_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// serveWebhooks has a hub serve webhooks to API servers on this machine.
func serveWebhooks(e *env) func(*configv1alpha1.HubConfiguration) {
	e.t.Helper()
	port, err := controlplane.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	return func(c *configv1alpha1.HubConfiguration) {
		w := &c.Server.Webhooks
		w.Enabled, w.BindAddress, w.Port = true, "127.0.0.1", int32(port)
		w.ClientConfig.URL = fmt.Sprintf("https://127.0.0.1:%d", port)
		e.complete(c)
	}
}

// complete gives a configuration its defaults, but for the ports of the process, which the kernel chooses: another hub
// on this machine may have the usual ones.
func (e *env) complete(c *configv1alpha1.HubConfiguration) {
	e.t.Helper()
	configv1alpha1.SetDefaults(c)
	e.Expect(configv1alpha1.Validate(c).ToAggregate()).To(Succeed())
	c.Server.HealthProbes.Port, c.Server.Metrics.Port = 0, 0
}

// setWebhooks says what webhooks a target of the test has.
func (e *env) setWebhooks(target, json string) {
	e.t.Helper()
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: target}}
	patch := []byte(`{"spec":{"webhooks":` + json + `}}`)
	e.Eventually(func() error {
		return source.Client.Patch(e.ctx, tc, client.RawPatch(types.MergePatchType, patch))
	}).Should(Succeed())
}

// webhooksOf is the condition of a target's webhooks; empty if there is none.
func (e *env) webhooksOf(target string) func() string {
	return func() string {
		tc := &hubv1alpha1.TargetCluster{}
		err := source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: target}, tc)
		e.Expect(client.IgnoreNotFound(err)).To(Succeed()) // the hub makes it in a moment
		c := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
}

// host is the one of the API server that a new pod of kube-system gets; empty if it gets none.
func (e *env) host(in *testbed.Cluster) (string, error) {
	pod, err := e.newPod(in)
	if err != nil {
		return "", err
	}
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == "KUBERNETES_SERVICE_HOST" {
			return v.Value, nil
		}
	}
	return "", nil
}

// newPod creates a pod in kube-system, deletes it, and returns what the API server made of it.
func (e *env) newPod(in *testbed.Cluster) (*corev1.Pod, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "default"}}
	if err := in.Client.Create(e.ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", GenerateName: "test-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := in.Client.Create(e.ctx, pod); err != nil {
		return nil, err
	}
	e.Expect(in.Client.Delete(e.ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	return pod, nil
}

// scheduler is that of a new pod of kube-system.
func (e *env) scheduler(in *testbed.Cluster) (string, error) {
	pod, err := e.newPod(in)
	if err != nil {
		return "", err
	}
	return pod.Spec.SchedulerName, nil
}

// alias is a kubeconfig of a cluster that is another one than those of all other tests: webhooks are registered for one
// registration of a cluster only (MC-4).
func (e *env) alias(of *testbed.Cluster) []byte {
	e.t.Helper()
	_, kubeconfig := e.startAlias(of)
	return kubeconfig
}

func (e *env) startAlias(of *testbed.Cluster) (*testbed.Alias, []byte) {
	e.t.Helper()
	return e.startAliasAs(of, uuid.NewUUID())
}

// startAliasAs starts an alias with the UID of a cluster.
func (e *env) startAliasAs(of *testbed.Cluster, uid types.UID) (*testbed.Alias, []byte) {
	e.t.Helper()
	alias, err := testbed.StartAlias(of.RESTConfig(), uid)
	e.Expect(err).NotTo(HaveOccurred())
	e.t.Cleanup(alias.Stop)
	kubeconfig, err := of.ServiceAccountKubeconfig(e.ctx, metav1.NamespaceSystem, e.name, time.Hour)
	e.Expect(err).NotTo(HaveOccurred())
	err = of.Client.Create(e.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: e.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: e.name}},
	})
	e.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
	return alias, alias.Through(kubeconfig)
}

// HUB-1, KSH-6, PSN-4: API servers of two targets call the hub, and pods get what their own settings say.
func TestWebhooksOfTwoTargets(t *testing.T) {
	e := newEnv(t)
	e.Expect(source.Client.Update(e.ctx, testbed.Registration(e.name, "target", e.alias(target)))).To(Succeed())
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "other", e.alias(source)))).To(Succeed())
	serve := serveWebhooks(e)
	hub := e.startHub(serve)
	e.Expect(e.host(target)).To(BeEmpty(), "they are off by default")
	e.Expect(e.webhooksOf("target")()).To(BeEmpty())
	e.setWebhooks("target", `{"kubernetesServiceHost":{"enabled":true,"mode":"Webhook","host":"api.a"},`+
		`"podSchedulerName":{"enabled":true,"mode":"Webhook","schedulerName":"packing"}}`)
	e.setWebhooks("other", `{"kubernetesServiceHost":{"enabled":true,"mode":"Webhook","host":"api.b"}}`)
	for name, of := range map[string]*testbed.Cluster{"target": target, "other": source} {
		e.Eventually(e.webhooksOf(name)).Should(Equal("True WebhooksRegistered"), "%s", hub.Log)
		e.Expect(e.host(of)).To(Equal(map[string]string{"target": "api.a", "other": "api.b"}[name]))
	}
	e.Expect(e.scheduler(target)).To(Equal("packing"))
	// A hub that is down does not stop pods of Ignore class. One that comes back serves at once, as does one that waits.
	e.stop(hub)
	e.Expect(e.host(target)).To(BeEmpty())
	e.Expect(e.scheduler(target)).To(Equal(corev1.DefaultSchedulerName))
	hub = e.startHub(serve)
	e.Eventually(func() (string, error) { return e.host(target) }).Should(Equal("api.a"))
	for _, name := range []string{"target", "other"} {
		e.setWebhooks(name, "null")
		e.Eventually(e.webhooksOf(name)).Should(BeEmpty(), "%s", hub.Log)
	}
	e.Expect(e.host(target)).To(BeEmpty())
}
