package stalepods

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
)

// shared are the targets of all tests, which run one after the other. The first one is the source, too.
var shared *twins.Twins

func TestMain(m *testing.M) {
	twins.Main(m, func(t *twins.Twins) { shared = t })
}

// bench is a test with a namespace of its own in both targets.
type bench struct {
	*WithT
	t         *testing.T
	events    *events.FakeRecorder
	namespace string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	shared.Reset()
	b := &bench{WithT: NewWithT(t), t: t, events: events.NewFakeRecorder(1000)}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	b.Expect(shared.A.Client.Create(t.Context(), namespace)).To(Succeed())
	b.namespace = namespace.Name
	b.Expect(shared.B.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}})).
		To(Succeed())
	return b
}

// often is the period of tests.
const often = 50 * time.Millisecond

// start runs the controller in a target until the test ends. Settings that are not set are those of the test's
// namespace.
func (b *bench) start(in *twins.Target, settings Settings, options Options) {
	b.t.Helper()
	settings.SyncPeriod = often
	if settings.Namespaces == nil {
		settings.Namespaces = []string{b.namespace}
	}
	options.Environment.Clusters, options.Environment.Events = shared.Clusters, b.events
	if options.Source == nil {
		options.Source = shared.A.Client
	}
	options.Settings = func(status clustercache.Status) (Settings, bool) { return settings, status.Cluster == in.Key }
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	twins.Run(b.t, controller.Start)
}

// later is an environment whose clock shows a time later than that of API servers.
func later(by time.Duration) Options {
	return Options{Environment: multicluster.Environment{Clock: clocktesting.NewFakePassiveClock(time.Now().Add(by))}}
}

// pod makes one that runs on a node.
func (b *bench) pod(in *twins.Target, namespace, name string) *corev1.Pod {
	b.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}},
		},
	}
	in.Create(b.t, pod)
	return pod
}

// ended makes a pod that ended in a phase, for a reason.
func (b *bench) ended(in *twins.Target, namespace, name string, phase corev1.PodPhase, reason string) *corev1.Pod {
	b.t.Helper()
	pod := b.pod(in, namespace, name)
	pod.Status = corev1.PodStatus{Phase: phase, Reason: reason}
	b.Expect(in.Client.Status().Update(b.t.Context(), pod)).To(Succeed())
	return pod
}

// terminating makes a pod that should have ended a second after it was asked to, and has not.
func (b *bench) terminating(in *twins.Target, namespace, name string) *corev1.Pod {
	b.t.Helper()
	pod := b.pod(in, namespace, name)
	b.Expect(in.Client.Delete(b.t.Context(), pod, client.GracePeriodSeconds(1))).To(Succeed())
	return pod
}

func (b *bench) exists(in *twins.Target, pod *corev1.Pod) func() bool {
	return func() bool {
		now := &corev1.Pod{}
		err := in.Client.Get(context.Background(), client.ObjectKeyFromObject(pod), now)
		b.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil && now.UID == pod.UID
	}
}

func (b *bench) gone(in *twins.Target, pods ...*corev1.Pod) {
	b.t.Helper()
	for _, pod := range pods {
		b.Eventually(b.exists(in, pod)).Should(BeFalse(), "%s is deleted", pod.Name)
	}
}

func (b *bench) stays(in *twins.Target, pods ...*corev1.Pod) {
	b.t.Helper()
	for _, pod := range pods {
		b.Expect(b.exists(in, pod)()).To(BeTrue(), "%s stays", pod.Name)
	}
}

// passes waits until a whole pass over a namespace has begun and ended.
func (b *bench) passes(in *twins.Target, namespace string) {
	b.t.Helper()
	looks := func() int {
		return len(shared.Calls(in.Key, func(c twins.Call) bool {
			return isList(c, namespace) && strings.Contains(c.Query, "Failed") && !strings.Contains(c.Query, "continue=")
		}))
	}
	before := looks()
	b.Eventually(looks).Should(BeNumerically(">=", before+2))
}

func isList(c twins.Call, namespace string) bool {
	return c.Method == http.MethodGet && c.Path == "/api/v1/namespaces/"+namespace+"/pods"
}

// deletions are the names of the pods that the controller tried to delete in a target.
func deletions(in *twins.Target) (names []string) {
	for _, c := range shared.Calls(in.Key, func(c twins.Call) bool { return c.Method == http.MethodDelete }) {
		names = append(names, c.Path[strings.LastIndex(c.Path, "/")+1:])
	}
	return names
}

// answer is one of an API server that fails.
func answer(code int, reason metav1.StatusReason) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)),
	}
}
