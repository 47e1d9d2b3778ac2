package networkpolicy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// patience is how long tests wait for what happens at once.
const patience = 2 * time.Minute

// testAgent is the user agent of the tests, and testLabel that of namespaces whose Services a test is about.
const testAgent, testLabel = "test", "np-test"

// Two targets. The first one is the source, too.
var alpha, beta *site

// clusters has the connections to them, for all tests.
var clusters clustercache.ClusterCache

// site is a real control plane that is a target.
type site struct {
	*controlplane.ControlPlane
	client client.Client
	key    clustercache.ClusterKey
}

func startSite(ctx context.Context, name string) (*site, error) {
	s := &site{key: clustercache.ClusterKey{Namespace: "shoot-" + name, Name: name}}
	var err error
	if s.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Name: name, Audit: true}); err != nil {
		return nil, err
	}
	config := s.RESTConfig()
	config.UserAgent = testAgent
	s.client, err = client.New(config, client.Options{})
	return s, err
}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	// This belongs to the logging of client-go and lives as long as the process.
	controlplane.Exit(code, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

func runTests(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultEventuallyTimeout(patience)
	if testing.Short() {
		return m.Run(), nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer func() {
		cancel()
		work.Wait()
	}()
	for name, s := range map[string]**site{"alpha": &alpha, "beta": &beta} {
		if *s, err = startSite(ctx, name); err != nil {
			return 1, err
		}
		defer (*s).Stop()
	}
	if err := prepare(ctx, &work); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// prepare registers the targets and starts the cluster cache.
func prepare(ctx context.Context, work *sync.WaitGroup) error {
	for _, s := range []*site{alpha, beta} {
		home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.key.Namespace}}
		registration := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.key.Namespace, Name: s.key.Name + "-kubeconfig",
				Labels: map[string]string{hubv1alpha1.ClusterNameLabel: s.key.Name},
			},
			Type: "cluster.x-k8s.io/secret",
			Data: map[string][]byte{"value": s.Kubeconfig()},
		}
		if err := errors.Join(alpha.client.Create(ctx, home), alpha.client.Create(ctx, registration)); err != nil {
			return err
		}
	}
	informers, err := ctrlcache.New(alpha.RESTConfig(), ctrlcache.Options{
		ByObject: map[client.Object]ctrlcache.ByObject{&corev1.Secret{}: clustercache.SecretCacheOptions()},
	})
	if err != nil {
		return err
	}
	cache, err := clustercache.New(clustercache.Options{
		Secrets: informers, Dial: clustercache.DialOptions{Addresses: addresses.Any(), RetryMax: time.Second},
	})
	if err != nil {
		return err
	}
	clusters = cache
	for _, start := range []func(context.Context) error{informers.Start, cache.Start} {
		work.Go(func() {
			if err := start(ctx); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	return nil
}

// bench is a test with a controller that works in targets, in the namespaces of the test only.
type bench struct {
	*WithT
	t        *testing.T
	label    string // of the test
	registry *prometheus.Registry
	events   *events.FakeRecorder
	stop     func()
}

// start starts a controller in targets until the test ends. change changes the settings, which say by default that the
// Services of all namespaces with the label of the test get policies.
func start(t *testing.T, change func(*Settings), targets ...*site) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	b := &bench{
		WithT: NewWithT(t), t: t, events: events.NewFakeRecorder(1000),
		label: strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-")),
	}
	b.label = strings.Trim(b.label[:min(len(b.label), 60)], "-")
	b.restart(change, targets...)
	return b
}

// restart starts another controller.
func (b *bench) restart(change func(*Settings), targets ...*site) {
	b.t.Helper()
	b.registry = prometheus.NewRegistry()
	runs, err := multicluster.NewMetrics(b.registry)
	b.Expect(err).NotTo(HaveOccurred())
	failing, err := NewMetrics(b.registry)
	b.Expect(err).NotTo(HaveOccurred())
	settings := Settings{
		ConcurrentSyncs:    5,
		NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{testLabel: b.label}}},
	}
	if change != nil {
		change(&settings)
	}
	controller, err := New(Options{
		Environment: multicluster.Environment{Clusters: clusters, Events: b.events, Metrics: runs},
		Metrics:     failing,
		Settings: func(status clustercache.Status) (Settings, bool) {
			for _, s := range targets {
				if s.key == status.Cluster {
					return settings, true
				}
			}
			return Settings{}, false
		},
	})
	b.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- controller.Start(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		b.Eventually(ended).Should(Receive(BeNil()))
	})
	b.t.Cleanup(b.stop)
}

// runs is how many runs of the controller had a result.
func (b *bench) runs(result string) func() float64 {
	return func() (sum float64) {
		families, err := b.registry.Gather()
		b.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() != "trellis_controller_reconciles_total" {
				continue
			}
			for _, series := range family.GetMetric() {
				for _, pair := range series.GetLabel() {
					if pair.GetName() == "result" && pair.GetValue() == result {
						sum += series.GetCounter().GetValue()
					}
				}
			}
		}
		return sum
	}
}

// namespace creates a namespace with the label of the test.
func (b *bench) namespace(s *site, name string) *corev1.Namespace {
	b.t.Helper()
	return b.foreign(s, name, testLabel, b.label)
}

// foreign creates a namespace with some labels: keys and values.
func (b *bench) foreign(s *site, name string, labels ...string) *corev1.Namespace {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		namespace.Labels[labels[i]] = labels[i+1]
	}
	b.create(s, namespace)
	return namespace
}

func (b *bench) create(s *site, obj client.Object) {
	b.t.Helper()
	b.Expect(s.client.Create(context.Background(), obj)).To(Succeed())
	b.t.Cleanup(func() { b.delete(s, obj) })
}

func (b *bench) delete(s *site, obj client.Object) {
	b.t.Helper()
	err := s.client.Delete(context.Background(), obj)
	b.Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}

// change changes an object, whatever it is like by now.
func change[T client.Object](b *bench, s *site, obj T, change func(T)) {
	b.t.Helper()
	b.Eventually(func() error {
		fresh, is := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(T)
		b.Expect(is).To(BeTrue())
		fresh.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
		if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(obj), fresh); err != nil {
			return err
		}
		change(fresh)
		return s.client.Update(context.Background(), fresh)
	}).Should(Succeed())
}

// service creates a Service with port 1234, which leads to 5678. change may be nil.
func (b *bench) service(s *site, namespace, name string, change func(*corev1.Service)) *corev1.Service {
	b.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"foo": "bar"},
			Ports:    []corev1.ServicePort{{Name: "first", Port: 1234, TargetPort: intstr.FromInt32(5678)}},
		},
	}
	if change != nil {
		change(service)
	}
	b.create(s, service)
	return service
}

// annotated sets an annotation of a new Service.
func annotated(annotations ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for i := 0; i < len(annotations); i += 2 {
			s.Annotations[annotations[i]] = annotations[i+1]
		}
	}
}

// selecting is the annotation for namespaces with a label.
func selecting(label, value string) string {
	return fmt.Sprintf(`[{"matchLabels":{%q:%q}}]`, label, value)
}

// pod creates one with a label of clients.
func (b *bench) pod(s *site, namespace, name string, labels map[string]string) *corev1.Pod {
	b.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
	b.create(s, pod)
	return pod
}

// specs are the specs of all policies in namespaces, in JSON.
func (b *bench) specs(s *site, namespaces ...string) func() map[string]string {
	return func() map[string]string {
		found := map[string]string{}
		for _, namespace := range namespaces {
			list := &networkingv1.NetworkPolicyList{}
			b.Expect(s.client.List(context.Background(), list, client.InNamespace(namespace))).To(Succeed())
			for i := range list.Items {
				found[namespace+"/"+list.Items[i].Name] = string(canonical(&list.Items[i].Spec))
			}
		}
		return found
	}
}

// policies are the names of all policies in namespaces, sorted.
func (b *bench) policies(s *site, namespaces ...string) func() []string {
	return func() []string {
		names := []string{}
		for name := range b.specs(s, namespaces...)() {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
}

// pairs are the names of policies in the namespace of a Service for clients in the same one, for ports such as
// "svc-tcp-5678".
func pairs(namespace string, ports ...string) (names []string) {
	for _, port := range ports {
		names = append(names, namespace+"/egress-to-"+port, namespace+"/ingress-to-"+port)
	}
	slices.Sort(names)
	return names
}

// with adds names.
func with(names []string, more ...string) []string {
	all := append(slices.Clone(names), more...)
	slices.Sort(all)
	return all
}

// warnings are the reasons and notes of the events about a Service.
func (b *bench) warnings(s *site, about *corev1.Service) func() []string {
	return func() (found []string) {
		list := &eventsv1.EventList{}
		b.Expect(s.client.List(context.Background(), list, client.InNamespace(about.Namespace))).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == about.UID && event.ReportingController == reporter { // the API server has some, too
				found = append(found, event.Reason+": "+event.Note)
			}
		}
		return found
	}
}

// writes are the calls that changed policies in a target so far, without those of tests. One that the watch does not
// show yet may be written twice, which changes nothing.
func (b *bench) writes(s *site, namespaces ...string) (found []string) {
	b.t.Helper()
	entries, err := s.AuditEntries()
	b.Expect(err).NotTo(HaveOccurred())
	for _, e := range entries {
		if e.Resource == "networkpolicies" && slices.Contains([]string{"create", "update", "patch", "delete"}, e.Verb) &&
			slices.Contains(namespaces, e.Namespace) && e.UserAgent != testAgent && e.Code < http.StatusBadRequest {
			found = append(found, e.String())
		}
	}
	return found
}

// installIstio installs the kinds of Istio in a target, once.
func (b *bench) installIstio(s *site) {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "istio.yaml"))
	b.Expect(err).NotTo(HaveOccurred())
	for _, document := range strings.Split(string(content), "---\n") {
		crd := &unstructured.Unstructured{}
		b.Expect(yaml.Unmarshal([]byte(document), &crd.Object)).To(Succeed())
		err := s.client.Create(context.Background(), crd)
		b.Expect(err == nil || apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)
	}
	for _, kind := range []string{"VirtualServiceList", "GatewayList"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(istio.WithKind(kind))
		b.Eventually(func() error { return s.client.List(context.Background(), list) }).Should(Succeed())
	}
}

// istioObject creates an object of Istio.
func (b *bench) istioObject(s *site, kind, namespace, name, spec string) *unstructured.Unstructured {
	b.t.Helper()
	obj := &unstructured.Unstructured{}
	b.Expect(yaml.Unmarshal([]byte("spec: "+spec), &obj.Object)).To(Succeed())
	obj.SetGroupVersionKind(istio.WithKind(kind))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	b.create(s, obj)
	return obj
}

// foreignPolicy is one that another client made, with the labels of a Service unless that has no name.
func foreignPolicy(namespace, name string, service types.NamespacedName) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}},
	}
	if service.Name != "" {
		policy.Labels = map[string]string{LabelServiceNamespace: service.Namespace, LabelServiceName: service.Name}
	}
	return policy
}
