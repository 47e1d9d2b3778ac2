package care

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
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
	// The mapper has to learn of the kind, and the API server has to serve it.
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

// bench is a test with the controller.
type bench struct {
	*WithT
	t      *testing.T
	events *events.FakeRecorder

	mu       sync.Mutex
	settings map[clustercache.ClusterKey]Settings
}

// often is the period of tests.
const often = 50 * time.Millisecond

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	shared.Reset()
	b := &bench{
		WithT: NewWithT(t), t: t, events: events.NewFakeRecorder(1000),
		settings: map[clustercache.ClusterKey]Settings{shared.B.Key: {SyncPeriod: often}},
	}
	for _, target := range []*twins.Target{shared.A, shared.B} {
		none := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"constraints":null,"conditions":null}}`))
		b.Expect(source.Status().Patch(t.Context(), b.targetCluster(target), none)).To(Succeed())
	}
	return b
}

// set changes the settings of a target; nil: it is switched off.
func (b *bench) set(in *twins.Target, settings *Settings) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.settings, in.Key)
	if settings != nil {
		b.settings[in.Key] = *settings
	}
}

// start runs the controller in the targets that have settings, until the test ends or the returned function is called.
func (b *bench) start(options Options) (stop func()) {
	b.t.Helper()
	informers, err := ctrlcache.New(shared.A.RESTConfig(), ctrlcache.Options{Scheme: scheme})
	b.Expect(err).NotTo(HaveOccurred())
	stopInformers := twins.Run(b.t, informers.Start)
	_, err = informers.GetInformer(b.t.Context(), &hubv1alpha1.TargetCluster{})
	b.Expect(err).NotTo(HaveOccurred())
	options.Environment.Clusters, options.Environment.Events = shared.Clusters, b.events
	options.Environment.Source, options.Source = informers, source
	options.sweepPeriod = often
	options.Settings = func(status clustercache.Status) (Settings, bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		settings, on := b.settings[status.Cluster]
		return settings, on
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
	b.Expect(source.Get(context.Background(), of.Key, tc)).To(Succeed())
	return tc
}

// constraint returns one of a target; the zero one if there is none.
func (b *bench) constraint(of *twins.Target, constraint string) func() metav1.Condition {
	return func() metav1.Condition {
		found := meta.FindStatusCondition(b.targetCluster(of).Status.Constraints, constraint)
		return ptr.Deref(found, metav1.Condition{})
	}
}

// Short names, and what is expected of a condition.
const (
	webhooks    = hubv1alpha1.ConstraintWebhooksUnproblematic
	authorities = hubv1alpha1.ConstraintCACertificateValiditiesAcceptable
	conversions = hubv1alpha1.ConstraintCRDsWithProblematicConversionWebhooks
)

func is(status metav1.ConditionStatus, reason string) OmegaMatcher {
	return And(HaveField("Status", status), HaveField("Reason", reason))
}

var isGood = is(metav1.ConditionTrue, hubv1alpha1.ReasonNoProblematicWebhooks)

// looks waits until a target was looked at as a whole after it was called.
func (b *bench) looks(in *twins.Target) {
	b.t.Helper()
	looks := func() int {
		return len(shared.Calls(in.Key, func(c twins.Call) bool {
			return c.Method == http.MethodGet && strings.HasSuffix(c.Path, "/mutatingwebhookconfigurations") &&
				!strings.Contains(c.Query, "continue=")
		}))
	}
	before := looks()
	b.Eventually(looks).Should(BeNumerically(">=", before+2))
}

// writes are the writes of the hub to a target.
func writes(in *twins.Target) []twins.Call {
	return shared.Calls(in.Key, func(c twins.Call) bool {
		return c.Method != http.MethodGet && !strings.HasSuffix(c.Path, "reviews")
	})
}

// Rules of webhooks.
func rule(group, version, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource},
		},
	}
}

// nowhere is the client configuration of a webhook that no server serves.
var nowhere = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://webhook.invalid/")}

// validating creates a configuration with one webhook until the test ends.
func (b *bench) validating(
	in *twins.Target, name string, change func(*admissionregistrationv1.ValidatingWebhookConfiguration),
) *admissionregistrationv1.ValidatingWebhookConfiguration {
	b.t.Helper()
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name + ".example.org", ClientConfig: nowhere,
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule("", "v1", "pods")},
		}},
	}
	if change != nil {
		change(c)
	}
	in.Create(b.t, c)
	return c
}

// mutating does the same for the other kind.
func (b *bench) mutating(
	in *twins.Target, name string, hooks ...admissionregistrationv1.MutatingWebhook,
) *admissionregistrationv1.MutatingWebhookConfiguration {
	b.t.Helper()
	for i := range hooks {
		hooks[i].ClientConfig, hooks[i].AdmissionReviewVersions = nowhere, []string{"v1"}
		hooks[i].SideEffects = ptr.To(admissionregistrationv1.SideEffectClassNone)
	}
	c := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: hooks,
	}
	in.Create(b.t, c)
	return c
}

// at has the controller use a clock.
func at(c clock.PassiveClock) Options {
	return Options{Environment: multicluster.Environment{Clock: c}}
}
