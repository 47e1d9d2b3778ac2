package webhookregistration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
	"github.com/trellis-hub/trellis/webhooks/state"
)

var (
	// shared are the targets of all tests, which run one after the other. The first one is the source, too.
	shared *twins.Twins
	// source calls the source as its administrator.
	source client.Client
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	twins.Main(m, func(t *twins.Twins) {
		shared = t
		if err := prepare(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

// prepare has the source know TargetClusters, one for each target.
func prepare(ctx context.Context) error {
	err := errors.Join(
		clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), hubv1alpha1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if source, err = client.New(shared.A.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	for _, crd := range chart.CRDs() {
		if err := source.Create(ctx, crd); err != nil {
			return err
		}
	}
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secretName.Namespace}}
	if err := source.Create(ctx, home); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for _, target := range []*twins.Target{shared.A, shared.B} {
		for {
			tc := &hubv1alpha1.TargetCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: target.Key.Namespace, Name: target.Key.Name},
			}
			if err = source.Create(ctx, tc); err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("creating a TargetCluster: %w", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

var secretName = types.NamespacedName{Namespace: "trellis", Name: "trellis-webhooks"}

// bench is a test with the controller, and with the server and what calls are secured with. Its webhooks are about
// ConfigMaps of kube-system: one adds the host of the target's settings, and has the policy Fail; another one adds a
// mark, and has the policy Ignore.
type bench struct {
	*WithT
	t        *testing.T
	ctx      context.Context
	events   *events.FakeRecorder
	listener net.Listener
	store    *certificates.Store
	// unserved is why the hub does not serve; nil if it does.
	unserved atomic.Pointer[error]
	// others are webhooks in the place of those two; nil: there are these.
	others []admission.Webhook

	mu       sync.Mutex
	settings map[clustercache.ClusterKey]hubv1alpha1.TargetWebhooks
	follow   []func(clustercache.ClusterKey)
}

// often is the period of tests.
const often = 300 * time.Millisecond

func newBench(t *testing.T, change func(*certificates.Options)) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	shared.Reset()
	b := &bench{
		WithT: NewWithT(t), t: t, ctx: context.Background(), events: events.NewFakeRecorder(10_000),
		settings: map[clustercache.ClusterKey]hubv1alpha1.TargetWebhooks{},
	}
	for _, target := range []*twins.Target{shared.A, shared.B} {
		none := client.RawPatch(types.MergePatchType,
			[]byte(`{"status":{"conditions":null},"spec":{"paused":false}}`))
		b.Expect(source.Status().Patch(b.ctx, b.targetCluster(target), none)).To(Succeed())
		b.Expect(source.Patch(b.ctx, b.targetCluster(target), none)).To(Succeed())
		for _, kind := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
			&admissionregistrationv1.MutatingAdmissionPolicyBinding{},
			&admissionregistrationv1.MutatingAdmissionPolicy{},
			&admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
			&admissionregistrationv1.ValidatingAdmissionPolicy{},
		} {
			b.Expect(target.Client.DeleteAllOf(b.ctx, kind)).To(Succeed())
		}
		b.Expect(target.Client.DeleteAllOf(b.ctx, &corev1.ConfigMap{}, client.InNamespace("kube-system"),
			client.HasLabels{"test"})).To(Succeed())
	}
	b.Expect(client.IgnoreNotFound(source.Delete(b.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: secretName.Name},
	}))).To(Succeed())
	options := certificates.Options{
		Secret: secretName, Names: []string{"127.0.0.1"}, Client: source, Poll: 100 * time.Millisecond,
	}
	if change != nil {
		change(&options)
	}
	var err error
	b.store, err = certificates.New(options)
	b.Expect(err).NotTo(HaveOccurred())
	twins.Run(t, b.store.Follow)
	b.Eventually(b.store.Known()).Should(BeClosed())
	b.listener, err = net.Listen("tcp", "127.0.0.1:0")
	b.Expect(err).NotTo(HaveOccurred())
	return b
}

// serve starts a server behind the listener, or another one.
func (b *bench) serve(listener net.Listener) (s *server.Server, stop func()) {
	b.t.Helper()
	s, err := server.New(server.Options{
		Listener: listener, Webhooks: b.webhooks(), Find: b.find, Keys: b.store.Keys, Certificate: b.store.Certificate,
		State: state.New(shared.Clusters, nil).Of, Notice: time.Second,
	})
	b.Expect(err).NotTo(HaveOccurred())
	stop = twins.Run(b.t, s.Start)
	b.Eventually(func() error { return s.Ready(nil) }).Should(Succeed())
	return s, stop
}

func (b *bench) find(key clustercache.ClusterKey) (server.Target, bool) {
	status, registered := shared.Clusters.GetStatus(key)
	return server.Target{UID: status.UID, Settings: b.of(status)}, registered
}

func (b *bench) of(status clustercache.Status) hubv1alpha1.TargetWebhooks {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settings[status.Cluster]
}

// switchOn has the webhooks add a host to ConfigMaps of a target; switchOff has them off.
func (b *bench) switchOn(in *twins.Target, host string) {
	on := hubv1alpha1.Webhook{Enabled: ptr.To(true)}
	b.set(in, hubv1alpha1.TargetWebhooks{
		KubernetesServiceHost: &hubv1alpha1.KubernetesServiceHostWebhook{
			WebhookOrPolicy: hubv1alpha1.WebhookOrPolicy{Webhook: on}, Host: &host,
		},
	})
}

func (b *bench) switchOff(in *twins.Target) { b.set(in, hubv1alpha1.TargetWebhooks{}) }

func (b *bench) set(in *twins.Target, settings hubv1alpha1.TargetWebhooks) {
	b.mu.Lock()
	b.settings[in.Key] = settings
	follow := b.follow
	b.mu.Unlock()
	for _, changed := range follow {
		changed(in.Key)
	}
}

func (b *bench) webhooks() []admission.Webhook {
	if b.others != nil {
		return b.others
	}
	settings := func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
		if w.KubernetesServiceHost == nil {
			return nil
		}
		return &w.KubernetesServiceHost.Webhook
	}
	entry := func(
		name string, policy admissionregistrationv1.FailurePolicyType,
	) func(*hubv1alpha1.TargetWebhooks) []admission.Entry {
		return func(*hubv1alpha1.TargetWebhooks) []admission.Entry {
			return []admission.Entry{{
				Name: name, FailurePolicy: policy, MatchPolicy: admissionregistrationv1.Exact, TimeoutSeconds: 10,
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
					},
				}},
				NamespaceSelector: metav1.LabelSelector{
					MatchLabels: map[string]string{corev1.LabelMetadataName: "kube-system"},
				},
				ObjectSelector: metav1.LabelSelector{MatchLabels: map[string]string{"test": ""}},
			}}
		}
	}
	adds := func(key string, value func(*admission.Request) string) admission.Handler {
		return admission.HandlerFunc(func(_ context.Context, r *admission.Request) (admission.Response, error) {
			patch, err := json.Marshal([]map[string]string{{"op": "add", "path": "/data/" + key, "value": value(r)}})
			return admission.Response{Patch: patch}, err
		})
	}
	return []admission.Webhook{
		{
			Name: "host", Path: "host", Settings: settings, Registration: entry("host", admissionregistrationv1.Fail),
			Handler: adds("host", func(r *admission.Request) string { return *r.Settings.KubernetesServiceHost.Host }),
		},
		{
			Name: "mark", Path: "mark", Settings: settings, Registration: entry("mark", admissionregistrationv1.Ignore),
			Handler: adds("mark", func(r *admission.Request) string { return r.Target.Name }),
		},
	}
}

// start runs the controller until the test ends or the returned function is called.
func (b *bench) start(change func(*Options)) (stop func()) {
	b.t.Helper()
	informers, err := ctrlcache.New(shared.A.RESTConfig(), ctrlcache.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	stopInformers := twins.Run(b.t, informers.Start)
	_, err = informers.GetInformer(b.ctx, &hubv1alpha1.TargetCluster{})
	b.Expect(err).NotTo(HaveOccurred())
	options := Options{
		Environment: multicluster.Environment{Clusters: shared.Clusters, Events: b.events, Source: informers},
		Source:      source, ID: "this-hub", Settings: b.of, Webhooks: b.webhooks(), Store: b.store,
		Endpoint: Endpoint{URL: "https://" + b.listener.Addr().String()},
		Served: func(context.Context, routes.Route, *certificates.Material) error {
			if err := b.unserved.Load(); err != nil {
				return *err
			}
			return nil
		},
		Follow: func(ctx context.Context, _ *sync.WaitGroup, changed func(clustercache.ClusterKey)) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.follow = append(b.follow, changed)
			return nil
		},
		period: often,
	}
	if change != nil {
		change(&options)
	}
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	stopController := twins.Run(b.t, controller.Start)
	return func() {
		stopController()
		stopInformers()
	}
}

func (b *bench) targetCluster(of *twins.Target) *hubv1alpha1.TargetCluster {
	b.t.Helper()
	tc := &hubv1alpha1.TargetCluster{}
	b.Expect(source.Get(b.ctx, of.Key, tc)).To(Succeed())
	return tc
}

// condition returns the status and the reason of the condition; empty if there is none.
func (b *bench) condition(of *twins.Target) func() string {
	return func() string {
		c := meta.FindStatusCondition(b.targetCluster(of).Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
}

const registered = "True WebhooksRegistered"

// names are those of the entries of the hub in a target.
func (b *bench) names(in *twins.Target) (mutating, validating []string) {
	b.t.Helper()
	m := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	v := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
	b.Expect(in.Client.List(b.ctx, m, labelled)).To(Succeed())
	b.Expect(in.Client.List(b.ctx, v, labelled)).To(Succeed())
	for _, c := range m.Items {
		for _, w := range c.Webhooks {
			mutating = append(mutating, w.Name)
		}
	}
	for _, c := range v.Items {
		for _, w := range c.Webhooks {
			validating = append(validating, w.Name)
		}
	}
	return mutating, validating
}

// user returns a client of a target with another user than the hub's.
func (b *bench) user(in *twins.Target) client.Client {
	b.t.Helper()
	config := rest.CopyConfig(in.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: "user", Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{})
	b.Expect(err).NotTo(HaveOccurred())
	return c
}

// create creates a ConfigMap that webhooks are for, and returns what came of it.
func create(ctx context.Context, c client.Client, labels ...string) (map[string]string, error) {
	all := map[string]string{"test": ""}
	for _, label := range labels {
		all[label] = ""
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", GenerateName: "test-", Labels: all},
		Data:       map[string]string{"own": "x"},
	}
	err := c.Create(ctx, cm)
	return cm.Data, err
}
