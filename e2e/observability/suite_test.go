//go:build observability

package observability

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// binariesEnv is the folder with Prometheus and Alertmanager.
const binariesEnv = "TRELLIS_MONITORING"

const config = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
logFormat: text
leaderElection: {resourceNamespace: trellis}
classes:
- name: ""
  target: {type: Namespace}
- name: slow
  target: {type: Namespace}
  concurrentSyncs: 1
- name: piled
  target: {type: Namespace}
  concurrentSyncs: 1
- name: crawling
  target: {type: Namespace}
- name: broken
  target: {type: Namespace}
- name: contested
  target: {type: Namespace}
- name: kept
  target: {type: Namespace}
clusterCache: {drainTimeout: 1m}
controllers:
  managedResource: {maxConcurrentObjects: 4}
`

// long is the lifetime of a credential that does not expire during the tests.
const long = 90 * 24 * time.Hour

// What all tests share.
var (
	source, home   *testbed.Cluster
	monitoring     *testbed.Monitoring
	hub, standby   *testbed.Process
	binary, folder string
	began          time.Time
	waysMu         sync.Mutex
	ways           []*proxy // of all targets
	aliases        []*testbed.Alias
)

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 8 * time.Minute, Poll: 500 * time.Millisecond, Parallel: 32}.Main(m, func(m *testing.M) int {
		code, err := play(m)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	})
}

// play runs the tests on everything that they share.
func play(m *testing.M) (int, error) {
	ctx := context.Background()
	binaries := os.Getenv(binariesEnv)
	if binaries == "" {
		return 0, fmt.Errorf("%s is not set: use \"make e2e-observability\"", binariesEnv)
	}
	root, err := controlplane.Root()
	if err != nil {
		return 0, err
	}
	if binary, err = testbed.Build(ctx, root); err != nil {
		return 0, err
	}
	if folder, err = os.MkdirTemp("", "trellis-observability-"); err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	clusters, err := testbed.StartClusters(ctx, controlplane.Options{Name: "source"},
		controlplane.Options{Name: "cluster"})
	if err != nil {
		return 0, err
	}
	defer testbed.StopClusters(clusters...)
	source, home = clusters[0], clusters[1]
	if err := testbed.InstallSource(ctx, source.Client); err != nil {
		return 0, err
	}
	if err := chooseWebhookPorts(); err != nil {
		return 0, err
	}
	for i, h := range []**testbed.Process{&hub, &standby} {
		if *h, err = startReplica(ctx, i); err != nil {
			return 0, err
		}
		defer func() { (*h).Kill() }() // the one that is there by then
	}
	rules, err := shorten(chart.Rules())
	if err != nil {
		return 0, err
	}
	if monitoring, err = testbed.StartMonitoring(
		ctx, testbed.MonitoringOptions{Binaries: binaries, Dir: folder, Interval: time.Second, Rules: rules}); err != nil {
		return 0, err
	}
	defer monitoring.Stop()
	began = time.Now()
	if err := monitoring.Watch(hub, standby); err != nil {
		return 0, err
	}
	code := m.Run()
	for _, way := range ways {
		way.stop()
	}
	for _, alias := range aliases {
		alias.Stop()
	}
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the log of the hub ends with:\n%s\n", hub.LogTail())
	}
	return code, nil
}

// startHub starts a replica with files of its own.
func startHub(ctx context.Context, config string) (*testbed.Process, error) {
	own, err := os.MkdirTemp(folder, "hub-")
	if err != nil {
		return nil, err
	}
	return testbed.StartProcess(ctx, binary, own, source, config)
}

// target is a registered target of its own, although all of them lie in one cluster.
type target struct {
	namespace, name string
	way             *proxy
	alias           *testbed.Alias // at the end of the way; nil for the cluster itself
}

// newTarget registers a target and waits until it is connected.
func newTarget(t *testing.T, name string, lifetime time.Duration) *target {
	t.Helper()
	to := prepareTarget(t, name)
	to.create(t, to.access(t, "first", lifetime))
	to.awaitConnected(t)
	return to
}

// awaitConnected waits until the target is connected.
func (to *target) awaitConnected(t *testing.T) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(value(g, `max(trellis_target_up{target="`+to.label()+`"})`)).To(Equal(1.0))
	}).Should(Succeed())
}

// prepareTarget prepares all but the registration.
func prepareTarget(t *testing.T, name string) *target {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	backend, err := url.Parse(home.Host())
	g.Expect(err).NotTo(HaveOccurred())
	way, err := startProxy(backend.Host)
	g.Expect(err).NotTo(HaveOccurred())
	keep(way)
	to := &target{namespace: "shoot--" + name, name: name, way: way}
	for _, c := range []*testbed.Cluster{source, home} {
		g.Expect(c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: to.namespace}})).To(Succeed())
	}
	return to
}

// keep leaves a way open until the end, since the hub continues to delete what it was asked to delete.
func keep(way *proxy) {
	waysMu.Lock()
	defer waysMu.Unlock()
	ways = append(ways, way)
}

// create creates the registration.
func (to *target) create(t *testing.T, kubeconfig []byte) {
	t.Helper()
	ctx := context.Background()
	NewWithT(t).Expect(source.Client.Create(ctx, testbed.Registration(to.namespace, to.name, kubeconfig))).To(Succeed())
	t.Cleanup(func() { _ = source.Client.Delete(ctx, testbed.Registration(to.namespace, to.name, nil)) })
}

// label is how metrics call the target.
func (to *target) label() string { return to.namespace + "/" + to.name }

// access is a kubeconfig that leads through the way.
func (to *target) access(t *testing.T, name string, lifetime time.Duration) []byte {
	t.Helper()
	g := NewWithT(t)
	kubeconfig, err := home.Access(context.Background(), to.name+"-"+name, lifetime)
	g.Expect(err).NotTo(HaveOccurred())
	return to.lead(kubeconfig)
}

// eachObject is the right to everything but to list and watch.
var eachObject = rbacv1.PolicyRule{
	APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "create", "update", "patch", "delete"},
}

// narrowAccess is a kubeconfig with all rights except reading ConfigMaps, until they are extended.
func (to *target) narrowAccess(t *testing.T) (kubeconfig []byte, widen func()) {
	t.Helper()
	return to.limitedAccess(t,
		eachObject,
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"namespaces", "secrets", "nodes"},
			Verbs: []string{"list", "watch"},
		})
}

// limitedAccess is a kubeconfig with some rights, until they are extended to all.
func (to *target) limitedAccess(t *testing.T, rules ...rbacv1.PolicyRule) (kubeconfig []byte, widen func()) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	name := "limited-" + to.name
	kubeconfig, err := home.ServiceAccountKubeconfig(ctx, metav1.NamespaceSystem, name, long)
	g.Expect(err).NotTo(HaveOccurred())
	bind := func(role string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}},
		}
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	g.Expect(home.Client.Create(ctx, role)).To(Succeed())
	g.Expect(home.Client.Create(ctx, bind(name))).To(Succeed())
	return to.lead(kubeconfig), func() { g.Expect(home.Client.Create(ctx, bind("cluster-admin"))).To(Succeed()) }
}

// register changes the registration.
func (to *target) register(t *testing.T, kubeconfig []byte) {
	t.Helper()
	NewWithT(t).Expect(source.Client.Update(
		context.Background(), testbed.Registration(to.namespace, to.name, kubeconfig))).To(Succeed())
}

// apply creates a ManagedResource with manifests.
func (to *target) apply(t *testing.T, name string, manifests ...string) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	g.Expect(source.Client.Create(ctx, testbed.Content(to.namespace, name, "objects.yaml", manifests...))).To(Succeed())
	g.Expect(source.Client.Create(ctx, testbed.ManagedResource(to.namespace, name, name))).To(Succeed())
	t.Cleanup(func() { _ = source.Client.Delete(ctx, testbed.ManagedResource(to.namespace, name)) })
}

// applyAs creates a ManagedResource of a class.
func (to *target) applyAs(t *testing.T, class, name string, manifests ...string) {
	t.Helper()
	g, ctx := NewWithT(t), context.Background()
	mr := testbed.ManagedResource(to.namespace, name, name)
	mr.Spec.Class = &class
	g.Expect(source.Client.Create(ctx, testbed.Content(to.namespace, name, "objects.yaml", manifests...))).To(Succeed())
	g.Expect(source.Client.Create(ctx, mr)).To(Succeed())
	t.Cleanup(func() { _ = source.Client.Delete(ctx, testbed.ManagedResource(to.namespace, name)) })
}

// change changes what is in a ManagedResource.
func (to *target) change(t *testing.T, name string, manifests ...string) {
	t.Helper()
	NewWithT(t).Expect(source.Client.Update(
		context.Background(), testbed.Content(to.namespace, name, "objects.yaml", manifests...))).To(Succeed())
}

// alone registers a target that serves a class of its own, which is named after it: alerts that name only the class are
// then those of this target.
func alone(t *testing.T, class string) (to *target, labels map[string]string) {
	t.Helper()
	to = newTarget(t, class, long)
	to.serve(t, class)
	return to, map[string]string{"class": class}
}

// serve has the target serve another class.
func (to *target) serve(t *testing.T, class string) {
	t.Helper()
	patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, hubv1alpha1.ClassLabel, class))
	NewWithT(t).Expect(source.Client.Patch(context.Background(), testbed.Registration(to.namespace, to.name, nil),
		patch)).To(Succeed())
}

// limit limits the requests per second. Zero: as configured.
func (to *target) limit(t *testing.T, qps int) {
	t.Helper()
	spec := `{"spec":{"client":null}}`
	if qps > 0 {
		spec = fmt.Sprintf(`{"spec":{"client":{"qps":%[1]d,"burst":%[1]d}}}`, qps)
	}
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace, Name: to.name}}
	NewWithT(t).Eventually(func() error { // the hub creates it in a moment
		return source.Client.Patch(context.Background(), tc, client.RawPatch(client.Merge.Type(), []byte(spec)))
	}).Should(Succeed())
}

// remove deletes a ManagedResource.
func (to *target) remove(t *testing.T, name string) {
	t.Helper()
	NewWithT(t).Expect(source.Client.Delete(context.Background(), testbed.ManagedResource(to.namespace, name))).To(
		Succeed())
}

// configMaps are manifests of some, all in the namespace of the target.
func (to *target) configMaps(prefix string, n int) (manifests []string) {
	for i := range n {
		manifests = append(manifests, testbed.ConfigMap(to.namespace, fmt.Sprintf("%s-%d", prefix, i), "well"))
	}
	return manifests
}

// live reads a ConfigMap of the target.
func (to *target) live(name string) (*corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: to.namespace, Name: name}}
	return object, home.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
}

// disturb changes a ConfigMap as another client, unless it is changed already.
func (to *target) disturb(name string) {
	object, err := to.live(name)
	if err == nil && object.Data["key"] == "well" {
		patch := client.RawPatch(client.Merge.Type(), []byte(`{"data":{"key":"ill"}}`))
		_ = home.Client.Patch(context.Background(), object, patch, client.FieldOwner("another-client"))
	}
}

// value is the answer to a query with one sample.
func value(g Gomega, query string) float64 {
	answer, _, err := monitoring.API.Query(context.Background(), query, time.Now())
	g.ExpectWithOffset(1, err).NotTo(HaveOccurred(), query)
	samples := vector(answer)
	g.ExpectWithOffset(1, samples).To(HaveLen(1), query)
	return float64(samples[0].Value)
}

// chartFiles returns files of the chart.
func chartFiles(g Gomega, pattern string) (files []string) {
	root, err := controlplane.Root()
	g.Expect(err).NotTo(HaveOccurred())
	files, err = filepath.Glob(filepath.Join(root, "charts", "trellis", filepath.FromSlash(pattern)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	return files
}

// selector is a set of labels as a query has it.
func selector(labels map[string]string) string {
	var pairs []string
	for name, value := range labels {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, value))
	}
	return strings.Join(pairs, ",")
}
