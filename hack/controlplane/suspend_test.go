package controlplane

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPIServerWithoutEtcdFailsUntilItIsBack(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{})
	configMaps := newClient(t, cp.RESTConfig()).CoreV1().ConfigMaps("default")
	within := func(patience time.Duration, name string) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	create := func(name string) error { return within(time.Second, name) }
	// An attempt that was given up may have been written nevertheless.
	eventually := func(name string) {
		t.Helper()
		g.Eventually(within).WithArguments(10*time.Second, name).WithTimeout(time.Minute).Should(Or(Succeed(), Satisfy(apierrors.IsAlreadyExists)))
	}
	eventually("kept")

	g.Expect(cp.Suspend(Etcd)).To(Succeed())
	g.Expect(create("late")).To(MatchError(context.DeadlineExceeded))
	g.Expect(cp.Resume(Etcd)).To(Succeed())
	eventually("resumed")

	cp.KillEtcd()
	g.Expect(create("lost")).NotTo(Succeed())
	cp.KillEtcd() // nothing to do any longer
	g.Expect(cp.Suspend(Etcd)).To(MatchError(ContainSubstring("not running")))
	g.Expect(cp.StartEtcd(ctx)).To(Succeed())
	g.Expect(cp.StartEtcd(ctx)).To(Succeed(), "does nothing while it is running")
	for _, name := range []string{"kept", "resumed"} {
		g.Eventually(configMaps.Get).WithArguments(ctx, name, metav1.GetOptions{}).WithTimeout(time.Minute).ShouldNot(BeNil())
	}
	eventually("new")

	cp.Stop()
	g.Expect(cp.StartEtcd(ctx)).To(MatchError(ContainSubstring("has been stopped")))
}

func TestNoControllerObservesWhileTheControllerManagerIsSuspended(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{ControllerManager: true})
	client := newClient(t, cp.RESTConfig())
	account := func(namespace string) error {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
	g.Expect(cp.Suspend(ControllerManager)).To(Succeed())
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(account).WithArguments("new").WithTimeout(time.Second).ShouldNot(Succeed())
	g.Expect(cp.Resume(ControllerManager)).To(Succeed())
	g.Eventually(account).WithArguments("new").WithTimeout(2 * time.Minute).Should(Succeed())
}
