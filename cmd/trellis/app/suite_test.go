package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The control planes that the tests share, once one of them asked.
var (
	source, target *testbed.Cluster
	started        = sync.OnceValue(func() error {
		clusters, err := testbed.StartSource(context.Background(),
			controlplane.Options{Name: "source", Audit: true}, controlplane.Options{Name: "target", Audit: true})
		if err == nil {
			source, target = clusters[0], clusters[1]
		}
		return err
	})
)

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		os.Exit(beCommand())
	}
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	code := m.Run()
	testbed.StopClusters(source, target)
	os.Exit(code)
}

// env is a namespace of a test, with a registered target and a ManagedResource of one ConfigMap.
type env struct {
	*WithT
	t    *testing.T
	ctx  context.Context
	name string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	if testing.Short() {
		t.Skip("needs control planes")
	}
	e := &env{WithT: NewWithT(t), t: t, ctx: context.Background()}
	e.Expect(started()).To(Succeed())
	e.name = testbed.Namespace(t, nil, source, target)
	mr := testbed.ManagedResource(e.name, "mr", "mr")
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "target", target.Kubeconfig()))).To(Succeed())
	e.Expect(source.Client.Create(e.ctx, testbed.Content(
		e.name, "mr", "objects.yaml", testbed.ConfigMap(e.name, "one", "1")))).To(Succeed())
	e.Expect(source.Client.Create(e.ctx, mr)).To(Succeed())
	t.Cleanup(func() {
		// Nothing is left that the hub of the next test would work on.
		e.Expect(client.IgnoreNotFound(source.Client.Patch(e.ctx, mr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
		e.Expect(client.IgnoreNotFound(source.Client.Delete(e.ctx, mr))).To(Succeed())
		e.Expect(source.Client.DeleteAllOf(e.ctx, &corev1.Secret{}, client.InNamespace(e.name))).To(Succeed())
	})
	return e
}

// startHub starts a hub that looks for a lost Lease often, and waits long for that of another.
func (e *env) startHub(changes ...func(*configv1alpha1.HubConfiguration)) *testbed.Hub {
	e.t.Helper()
	return e.startHubWith(testbed.HubOptions{}, changes...)
}

func (e *env) startHubWith(o testbed.HubOptions, changes ...func(*configv1alpha1.HubConfiguration)) *testbed.Hub {
	e.t.Helper()
	o.Config = func(c *configv1alpha1.HubConfiguration) {
		quickElection(c)
		for _, change := range changes {
			change(c)
		}
	}
	return testbed.StartHubForTest(e.t, source, o)
}

func quickElection(c *configv1alpha1.HubConfiguration) {
	c.LeaderElection.LeaseDuration.Duration = 5 * time.Minute
	c.LeaderElection.RenewDeadline.Duration = 20 * time.Second // a busy machine is no reason to give it up
	c.LeaderElection.RetryPeriod.Duration = 300 * time.Millisecond
}

// impatient gives up a Lease soon that it cannot renew.
func impatient(c *configv1alpha1.HubConfiguration) {
	c.LeaderElection.RenewDeadline.Duration = 2 * time.Second
}

// stop ends a hub and insists that it ended in order.
func (e *env) stop(hub *testbed.Hub) {
	e.t.Helper()
	hub.Stop()
	e.Expect(hub.Err()).NotTo(HaveOccurred(), "%s", hub.Log)
}

// value is that of the ConfigMap in the target, empty if there is none.
func (e *env) value() string {
	e.t.Helper()
	cm := &corev1.ConfigMap{}
	e.Expect(client.IgnoreNotFound(target.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: "one"}, cm))).To(Succeed())
	return cm.Data["key"]
}

// edit changes the ConfigMap in the target behind the hub's back.
func (e *env) edit(value string) {
	e.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "one"}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"key":%q}}`, value))
	e.Expect(target.Client.Patch(e.ctx, cm, patch, client.FieldOwner("another-client"))).To(Succeed())
}

// expectWork insists that a hub is at work: it corrects drift.
func (e *env) expectWork() {
	e.t.Helper()
	e.eventuallyReady()
	e.edit("drift")
	e.Eventually(e.value).Should(Equal("1"))
}

func (e *env) eventuallyReady() {
	e.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	e.Eventually(func() bool {
		e.Expect(source.Client.Get(e.ctx, types.NamespacedName{Namespace: e.name, Name: "mr"}, mr)).To(Succeed())
		c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionReady)
		return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
	}).Should(BeTrue(), func() string { return fmt.Sprintf("%+v", mr.Status.Conditions) })
}

var leaseName = types.NamespacedName{Namespace: testbed.HubNamespace, Name: "trellis"}

// holder returns the holder of the Lease, empty if there is none.
func (e *env) holder() string {
	e.t.Helper()
	lease := &coordinationv1.Lease{}
	e.Expect(client.IgnoreNotFound(source.Client.Get(e.ctx, leaseName, lease))).To(Succeed())
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// takeLease gives the Lease to another client, for an hour.
func (e *env) takeLease() {
	e.t.Helper()
	e.Eventually(func() error {
		lease := &coordinationv1.Lease{}
		if err := source.Client.Get(e.ctx, leaseName, lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new("another-client"), new(int32(3600))
		lease.Spec.RenewTime = new(metav1.NowMicro())
		return source.Client.Update(e.ctx, lease)
	}).Should(Succeed())
}

// deleteLease deletes the Lease: the first replica that creates it leads.
func (e *env) deleteLease() {
	e.t.Helper()
	e.Expect(source.Client.Delete(e.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseName.Namespace, Name: leaseName.Name}})).To(Succeed())
}

// termGoroutines are the stacks of goroutines that only exist while a hub leads: those of controllers, and of the
// watches that they declared.
func termGoroutines() []string {
	var all bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2) // into memory
	var found []string
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		const module = "github.com/trellis-hub/trellis/"
		controllers := strings.Contains(strings.ReplaceAll(stack, module+"controllers/managedresource/source/secretindex", ""), module+"controllers/")
		if controllers || strings.Contains(stack, module+"engine/") || strings.Contains(stack, module+"clustercache/internal/watching") {
			found = append(found, stack)
		}
	}
	return found
}
