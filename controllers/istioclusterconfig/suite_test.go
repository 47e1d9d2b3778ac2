package istioclusterconfig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
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

// Two targets. The first one is the source, too.
var alpha, beta *site

// clusters has the connections to them, for all tests.
var clusters clustercache.ClusterCache

// tests counts the tests that were started, so that each has names of its own however often it runs.
var tests atomic.Int32

// site is a real control plane that is a target.
type site struct {
	*controlplane.ControlPlane
	client client.Client
	key    clustercache.ClusterKey
}

func startSite(ctx context.Context, name string) (*site, error) {
	s := &site{key: clustercache.ClusterKey{Namespace: "shoot-" + name, Name: name}}
	var err error
	if s.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{Name: name}); err != nil {
		return nil, err
	}
	s.client, err = client.New(s.RESTConfig(), client.Options{})
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

// bench is a test with a controller that works in targets.
type bench struct {
	*WithT
	t        *testing.T
	prefix   string // of the names of this test's namespaces
	targets  []*site
	bounds   bounds // zero: the default ones
	registry *prometheus.Registry
	events   *events.FakeRecorder
	stop     func()
}

// start starts a controller in targets, which have the kinds of Istio, until the test ends.
func start(t *testing.T, targets ...*site) *bench {
	t.Helper()
	b := prepared(t, targets...)
	for _, s := range targets {
		b.installIstio(s)
	}
	b.restart()
	return b
}

// prepared is a test without a controller yet.
func prepared(t *testing.T, targets ...*site) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	return &bench{
		WithT: NewWithT(t), t: t, targets: targets, events: events.NewFakeRecorder(1000),
		prefix: fmt.Sprintf("t%d-", tests.Add(1)),
	}
}

// restart starts another controller.
func (b *bench) restart() {
	b.t.Helper()
	b.registry = prometheus.NewRegistry()
	runs, err := multicluster.NewMetrics(b.registry)
	b.Expect(err).NotTo(HaveOccurred())
	controller, err := New(Options{
		Environment: multicluster.Environment{Clusters: clusters, Events: b.events, Metrics: runs},
		Settings: func(status clustercache.Status) (Settings, bool) {
			for _, s := range b.targets {
				if s.key == status.Cluster {
					return Settings{ConcurrentSyncs: 5}, true
				}
			}
			return Settings{}, false
		},
		bounds: b.bounds,
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

// namespace creates a namespace with some labels, keys and values, and returns its name.
func (b *bench) namespace(s *site, name string, labels ...string) string {
	b.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.prefix + name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		namespace.Labels[labels[i]] = labels[i+1]
	}
	b.create(s, namespace)
	return namespace.Name
}

// ingress creates a namespace with ingress gateways.
func (b *bench) ingress(s *site, name string) string {
	b.t.Helper()
	return b.namespace(s, name, LabelRole, RoleIngress)
}

func (b *bench) create(s *site, obj client.Object) {
	b.t.Helper()
	b.Expect(s.client.Create(context.Background(), obj)).To(Succeed())
	b.t.Cleanup(func() { b.delete(s, obj) })
}

func (b *bench) delete(s *site, obj client.Object) {
	b.t.Helper()
	err := s.client.Delete(context.Background(), obj)
	b.Expect(err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err)).To(BeTrue(), "%v", err)
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

// service creates a Service that is exported to some namespaces, unless these are empty, with ports such as "grpc=90",
// or "grpc=90/http" with an appProtocol.
func (b *bench) service(s *site, namespace, name, exportTo string, ports ...string) *corev1.Service {
	b.t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if exportTo != "" {
		service.Annotations = map[string]string{AnnotationExportTo: exportTo}
	}
	for _, text := range ports {
		service.Spec.Ports = append(service.Spec.Ports, b.port(text))
	}
	b.create(s, service)
	return service
}

func (b *bench) port(text string) (p corev1.ServicePort) {
	b.t.Helper()
	text, appProtocol, said := strings.Cut(text, "/")
	if said {
		p.AppProtocol = ptr.To("kubernetes.io/h2c")
		if appProtocol != "h2c" {
			p.AppProtocol = &appProtocol
		}
	}
	name, number, _ := strings.Cut(text, "=")
	_, err := fmt.Sscan(number, &p.Port)
	b.Expect(err).NotTo(HaveOccurred())
	p.Name = name
	return p
}

// rule creates a DestinationRule. more is added to its spec, in YAML.
func (b *bench) rule(s *site, namespace, name, host, exportTo, more string) *unstructured.Unstructured {
	b.t.Helper()
	spec := "{host: " + host + ", exportTo: [" + exportTo + "]"
	if more != "" {
		spec += ", " + more
	}
	return b.istio(s, destinationRuleKind, namespace, name, spec+"}")
}

// istio creates an object of Istio.
func (b *bench) istio(
	s *site, kind schema.GroupVersionKind, namespace, name, spec string,
) *unstructured.Unstructured {
	b.t.Helper()
	obj := &unstructured.Unstructured{}
	b.Expect(yaml.Unmarshal([]byte("spec: "+spec), &obj.Object)).To(Succeed())
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	// Right after its kind was installed again, an API server may still answer for the one that was there before.
	b.Eventually(func() error { return s.client.Create(context.Background(), obj) }).Should(Succeed())
	b.t.Cleanup(func() { b.delete(s, obj) })
	return obj
}

// http is a trafficPolicy for all ports, with settings of connectionPool.http in YAML.
func http(settings string) string {
	return "trafficPolicy: {connectionPool: {http: {" + settings + "}}}"
}

// filter returns the EnvoyFilter of a source in a namespace, nil if there is none.
func (b *bench) filter(s *site, in, source string) *unstructured.Unstructured {
	b.t.Helper()
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(envoyFilterKind)
	err := s.client.Get(context.Background(), types.NamespacedName{
		Namespace: in, Name: source + "-cluster-configuration",
	}, found)
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.Expect(err).NotTo(HaveOccurred())
	return found
}

// patches are those of the EnvoyFilter of a source in a namespace: clusters and what is said about HTTP/2, such as
// "90 svc plain". Without namespaces, Services are those of the source.
func (b *bench) patches(s *site, in, source string) func() []string {
	return func() []string {
		found := b.filter(s, in, source)
		if found == nil {
			return nil
		}
		return b.patchesIn(found, source)
	}
}

func (b *bench) patchesIn(f *unstructured.Unstructured, source string) []string {
	names := []string{}
	list, _, err := unstructured.NestedSlice(f.Object, "spec", "configPatches")
	b.Expect(err).NotTo(HaveOccurred())
	for _, item := range list {
		content, is := item.(map[string]any)
		b.Expect(is).To(BeTrue())
		cluster, _, err := unstructured.NestedString(content, "match", "cluster", "name")
		b.Expect(err).NotTo(HaveOccurred())
		parts := strings.Split(cluster, "|")
		b.Expect(parts).To(HaveLen(4), cluster)
		host := strings.TrimSuffix(strings.TrimSuffix(parts[3], ".svc.cluster.local"), "."+source)
		what := "plain"
		options, _, err := unstructured.NestedMap(content, "patch", "value", "typed_extension_protocol_options",
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions")
		b.Expect(err).NotTo(HaveOccurred())
		for key, name := range map[string]string{
			"explicit_http_config": "http2", "use_downstream_protocol_config": "client",
		} {
			if options[key] != nil {
				what = name
			}
		}
		names = append(names, parts[1]+" "+host+" "+what)
	}
	return names
}

// warnings are the reasons and notes of the events about an object.
func (b *bench) warnings(s *site, about types.UID) func() []string {
	return func() (found []string) {
		list := &eventsv1.EventList{}
		b.Expect(s.client.List(context.Background(), list)).To(Succeed())
		for _, event := range list.Items {
			if event.Regarding.UID == about {
				found = append(found, event.Reason+": "+event.Note)
			}
		}
		return found
	}
}

func (b *bench) istioCRDs() (crds []*unstructured.Unstructured) {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "istio.yaml"))
	b.Expect(err).NotTo(HaveOccurred())
	for _, document := range strings.Split(string(content), "---\n") {
		crd := &unstructured.Unstructured{}
		b.Expect(yaml.Unmarshal([]byte(document), &crd.Object)).To(Succeed())
		crds = append(crds, crd)
	}
	return crds
}

// installIstio installs the kinds of Istio in a target, once.
func (b *bench) installIstio(s *site) {
	b.t.Helper()
	for _, crd := range b.istioCRDs() {
		err := s.client.Create(context.Background(), crd)
		b.Expect(err == nil || apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)
	}
	for _, kind := range []schema.GroupVersionKind{destinationRuleKind, envoyFilterKind} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		b.Eventually(func() error { return s.client.List(context.Background(), list) }).Should(Succeed())
	}
}

// removeIstio removes the kinds of Istio from a target, and waits for that.
func (b *bench) removeIstio(s *site) {
	b.t.Helper()
	for _, crd := range b.istioCRDs() {
		b.delete(s, crd)
		b.Eventually(func() bool {
			return apierrors.IsNotFound(s.client.Get(context.Background(), client.ObjectKeyFromObject(crd), crd))
		}).Should(BeTrue())
	}
}
