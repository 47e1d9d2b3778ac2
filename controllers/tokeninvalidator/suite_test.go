package tokeninvalidator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/hack/testbed/webhooks"
	"github.com/trellis-hub/trellis/webhooks/tokeninvalidator"
)

// shared are the targets of all tests, which run one after the other.
var shared *twins.Twins

func TestMain(m *testing.M) {
	twins.Main(m, func(t *twins.Twins) { shared = t })
}

// bench is a test with a namespace of its own in both targets.
type bench struct {
	*WithT
	t         *testing.T
	namespace string
	events    *events.FakeRecorder // those about objects of the source
	workers   int

	mu     sync.Mutex
	errors []string // that were logged
}

// newBench starts nothing.
func newBench(t *testing.T) *bench {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes, skipped by -short")
	}
	b := &bench{
		WithT: NewWithT(t), t: t, namespace: "ti-" + rand.String(8), events: events.NewFakeRecorder(1000), workers: 5,
	}
	for _, target := range []*twins.Target{shared.A, shared.B} {
		target.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}})
	}
	shared.Reset()
	return b
}

// start starts the controller, in some targets, until the test ends or the returned function is called.
func (b *bench) start(change func(*Options), targets ...clustercache.ClusterKey) (stop func()) {
	b.t.Helper()
	if len(targets) == 0 {
		targets = []clustercache.ClusterKey{shared.A.Key, shared.B.Key}
	}
	options := Options{
		Environment: multicluster.Environment{
			Clusters: shared.Clusters, Events: b.events,
			Logger: funcr.New(func(_, line string) {
				if !strings.Contains(line, `"error"=`) || strings.Contains(line, `"level"=`) {
					return
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				b.errors = append(b.errors, line)
			}, funcr.Options{}),
		},
		Settings: func(status clustercache.Status) (Settings, bool) {
			for _, target := range targets {
				if status.Cluster == target {
					return Settings{ConcurrentSyncs: b.workers}, true
				}
			}
			return Settings{}, false
		},
	}
	if change != nil {
		change(&options)
	}
	controller, err := New(options)
	b.Expect(err).NotTo(HaveOccurred())
	return twins.Run(b.t, controller.Start)
}

// failures are the errors that were logged and contain some text.
func (b *bench) failures(text string) func() []string {
	return func() (found []string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, line := range b.errors {
			if strings.Contains(line, text) {
				found = append(found, line)
			}
		}
		return found
	}
}

// account creates a ServiceAccount.
func (b *bench) account(in *twins.Target, name string, automount *bool, skips ...string) *corev1.ServiceAccount {
	b.t.Helper()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}, AutomountServiceAccountToken: automount,
	}
	for _, skip := range skips {
		account.Labels = map[string]string{SkipLabel: skip}
	}
	in.Create(b.t, account)
	return account
}

// secret creates the token of a ServiceAccount.
func (b *bench) secret(in *twins.Target, name, account string, labels ...string) *corev1.Secret {
	b.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: name,
			Annotations: map[string]string{corev1.ServiceAccountNameKey: account},
			Labels:      labelled(labels...),
		},
		Type: corev1.SecretTypeServiceAccountToken,
		Data: map[string][]byte{"token": []byte("valid"), "ca.crt": []byte("authority")},
	}
	in.Create(b.t, secret)
	return secret
}

// labelled are the labels with some keys and the values that the controller writes.
func labelled(keys ...string) map[string]string {
	if len(keys) == 0 {
		return nil
	}
	labels := map[string]string{}
	for _, key := range keys {
		labels[key] = "true"
		if key == PurposeLabel {
			labels[key] = Purpose
		}
	}
	return labels
}

// pod creates one with a Secret among its volumes.
func (b *bench) pod(in *twins.Target, name, secret string) *corev1.Pod {
	b.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				Secret: &corev1.SecretVolumeSource{SecretName: secret},
			}}},
		},
	}
	in.Create(b.t, pod)
	return pod
}

// labels are those of a Secret.
func (b *bench) labels(in *twins.Target, name string) func() map[string]string {
	return func() map[string]string { return b.read(in, name).Labels }
}

// token is that in a Secret; nil if there is none.
func (b *bench) token(in *twins.Target, name string) func() []byte {
	return func() []byte { return b.read(in, name).Data["token"] }
}

func (b *bench) read(in *twins.Target, name string) *corev1.Secret {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: b.namespace, Name: name}
	b.Expect(in.Client.Get(context.Background(), key, secret)).To(Succeed())
	return secret
}

// patch changes an object by a merge patch.
func (b *bench) patch(in *twins.Target, object client.Object, patch string) {
	b.t.Helper()
	raw := client.RawPatch(types.MergePatchType, []byte(patch))
	b.Expect(in.Client.Patch(context.Background(), object, raw)).To(Succeed())
}

// lists is how often pods of the namespace of the test were listed.
func (b *bench) lists(in *twins.Target) func() int {
	return func() int {
		return len(shared.Calls(in.Key, func(c twins.Call) bool {
			return c.Path == "/api/v1/namespaces/"+b.namespace+"/pods" && !strings.Contains(c.Query, "continue=")
		}))
	}
}

// writes are the patches of a Secret.
func (b *bench) writes(in *twins.Target, name string) []string {
	var bodies []string
	for _, call := range shared.Calls(in.Key, func(c twins.Call) bool {
		return c.Method == http.MethodPatch && c.Path == b.path(name)
	}) {
		bodies = append(bodies, call.Body)
	}
	return bodies
}

func (b *bench) path(secret string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/secrets/%s", b.namespace, secret)
}

// webhook serves the other half in a target until the test ends.
func (b *bench) webhook(in *twins.Target) {
	b.t.Helper()
	purpose := labelled(PurposeLabel)
	webhooks.Serve(b.t, in.Client, webhooks.Webhook{
		Name: "token-invalidator.resources.gardener.cloud",
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"},
		},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: purpose},
		Mutate: func(_ context.Context, object []byte) ([]byte, error) {
			secret := &corev1.Secret{}
			if err := json.Unmarshal(object, secret); err != nil {
				return nil, err
			}
			tokeninvalidator.Invalidate(secret)
			return json.Marshal(secret)
		},
		Probe: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, GenerateName: "probe-", Labels: purpose,
		}},
	})
}
