package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// creators is how many pods of a target may be under way at a time, and pause the time between two: 50 pods a second
// in all three targets.
const (
	creators = 10
	pause    = 60 * time.Millisecond
)

// load creates pods in all targets.
type load struct {
	*WithT
	t       *testing.T
	ctx     context.Context
	name    string // of the namespace with the registrations
	pod     corev1.PodSpec
	created atomic.Int64

	mu     sync.Mutex
	faults []string
}

// newLoad registers all targets.
func newLoad(t *testing.T) *load {
	t.Helper()
	l := &load{WithT: NewWithT(t), t: t, ctx: context.Background(), name: testbed.Namespace(t, nil, source),
		pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	t.Cleanup(l.clear)
	for name, cluster := range targets {
		l.Expect(source.Client.Create(l.ctx, testbed.Registration(l.name, name, cluster.Kubeconfig()))).To(Succeed())
		err := cluster.Client.Create(l.ctx, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "default"},
		})
		l.Expect(err).To(Or(BeNil(), Satisfy(apierrors.IsAlreadyExists)))
	}
	return l
}

// clear removes what would be worked on, or called, after the test.
func (l *load) clear() {
	for _, kind := range []client.Object{&corev1.Secret{}, &hubv1alpha1.TargetCluster{}} {
		l.Expect(source.Client.DeleteAllOf(l.ctx, kind, client.InNamespace(l.name))).To(Succeed())
	}
	material := metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: materialName}
	l.Expect(client.IgnoreNotFound(source.Client.Delete(l.ctx, &corev1.Secret{ObjectMeta: material}))).To(Succeed())
	for _, cluster := range targets {
		for _, kind := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{},
			&admissionregistrationv1.ValidatingWebhookConfiguration{},
		} {
			labelled := client.MatchingLabels{hubv1alpha1.WebhooksLabel: "true"}
			l.Expect(cluster.Client.DeleteAllOf(l.ctx, kind, labelled)).To(Succeed())
		}
	}
}

// materialName is that of the Secret with what calls are secured with.
const materialName = "trellis-webhooks"

// material is its content.
func (l *load) material() map[string][]byte {
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: testbed.HubNamespace, Name: materialName}
	l.Expect(source.Client.Get(l.ctx, key, secret)).To(Succeed())
	return secret.Data
}

// attach has the API servers of all targets call the hub for pods in kube-system, and refuse a pod if they cannot. A
// call may take half a minute: no pod is to be refused because this machine is busy. The two webhooks read nothing of
// the target, since they would wait for that for a second only. others are settings of more webhooks, in JSON.
func (l *load) attach(others ...string) {
	for name := range targets {
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: l.name, Name: name}}
		patch := fmt.Appendf(nil, `{"spec":{"webhooks":{"registration":{"timeoutSeconds":30,"combinePods":true},
			"podSchedulerName":{"enabled":true,"mode":"Webhook","failurePolicy":"Fail","schedulerName":%q},
			"seccompProfile":{"enabled":true,"mode":"Webhook","failurePolicy":"Fail"}%s}}}`,
			"packing-"+name, strings.Join(append([]string{""}, others...), ","))
		l.Eventually(func() error { // the hub makes it in a moment
			return source.Client.Patch(l.ctx, tc, client.RawPatch(types.MergePatchType, patch))
		}).Should(Succeed())
	}
	for name := range targets {
		l.Eventually(func() bool {
			tc := &hubv1alpha1.TargetCluster{}
			key := types.NamespacedName{Namespace: l.name, Name: name}
			l.Expect(source.Client.Get(l.ctx, key, tc)).To(Succeed())
			return meta.IsStatusConditionTrue(tc.Status.Conditions, hubv1alpha1.ConditionWebhooksRegistered)
		}).Should(BeTrue(), name)
	}
}

// begin creates pods until the function that it returns is called, which insists that none was refused.
func (l *load) begin() (end func()) {
	ctx, stop := context.WithCancel(l.ctx)
	var work sync.WaitGroup
	for name, cluster := range targets {
		slots := make(chan struct{})
		work.Go(func() {
			defer close(slots)
			ticker := time.NewTicker(pause)
			defer ticker.Stop()
			for ctx.Err() == nil {
				select {
				case <-ticker.C:
				case <-ctx.Done():
					return
				}
				select {
				case slots <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
		for range creators {
			work.Go(func() {
				for range slots {
					l.create(cluster, "packing-"+name)
				}
			})
		}
	}
	stopped := func() {
		stop()
		work.Wait()
	}
	l.t.Cleanup(stopped)
	return func() {
		stopped()
		l.mu.Lock()
		defer l.mu.Unlock()
		slices.Sort(l.faults)
		l.Expect(l.faults).To(BeEmpty(), "%d pods were created", l.created.Load())
	}
}

// create creates a pod, which has to become what the target's own settings say.
func (l *load) create(in *testbed.Cluster, scheduler string) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, GenerateName: "load-"},
		Spec:       *l.pod.DeepCopy(),
	}
	err := in.Client.Create(l.ctx, pod)
	if err == nil && (pod.Spec.SchedulerName != scheduler || pod.Spec.SecurityContext.SeccompProfile == nil) {
		err = fmt.Errorf("its scheduler is %q, and its security context %v",
			pod.Spec.SchedulerName, pod.Spec.SecurityContext)
	}
	if err == nil && l.pod.ServiceAccountName != "" && len(pod.Spec.Volumes) != 1 {
		err = fmt.Errorf("it has the volumes %v", pod.Spec.Volumes)
	}
	if err == nil {
		l.created.Add(1)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, scheduler+": "+err.Error())
}

// awaitPods waits for a second's worth of pods, or for the first one that is refused.
func (l *load) awaitPods() {
	before := l.created.Load()
	l.Eventually(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.faults) > 0 || l.created.Load() > before+50
	}).Should(BeTrue())
}

// HUB-20: no pod is refused while one replica after the other is replaced, whichever of them leads.
func TestRollingRestart(t *testing.T) { rollingRestart(newLoad(t)) }

func rollingRestart(l *load, others ...string) {
	s := newService(l.t, "command")
	one, two := s.start(), s.start()
	l.attach(others...)
	end := l.begin()
	l.awaitPods()
	s.start()
	s.stop(one) // it led
	l.awaitPods()
	s.start()
	s.stop(two)
	l.awaitPods()
	end()
}

// HUB-12: no pod is refused while certificate authority, certificate and paths are exchanged, twice.
func TestRotation(t *testing.T) {
	l, s := newLoad(t), newService(t, rotating)
	s.start()
	s.start()
	l.attach()
	end := l.begin()
	for range 2 {
		former := l.material()
		l.Eventually(func() bool {
			now := l.material()
			return string(now["path.key"]) != string(former["path.key"]) &&
				string(now["ca.crt"]) != string(former["ca.crt"])
		}).Should(BeTrue())
		l.awaitPods()
	}
	end()
}
