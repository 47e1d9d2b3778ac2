package pods_test

import (
	"errors"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

// balancing is a target with a gateway in a namespace; without hosts it has no ConfigMap.
func balancing(t testing.TB, gateway, hosts string) reviews.Target {
	t.Helper()
	c := reviews.Target{
		Settings:  reviews.Webhooks(t, "registration: {scope: Runtime}, podKubeAPIServerLoadBalancing: {enabled: true}"),
		Namespace: "shoot--a--b", Labels: map[string]string{"gardener.cloud/role": "shoot"},
		State: &reviews.State{Services: []corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: gateway, Name: "istio-ingressgateway-internal"},
			Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1", "fd00::1"}},
		}}},
	}
	if hosts != "none" {
		c.State.ConfigMaps = []corev1.ConfigMap{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--a--b", Name: "istio-internal-load-balancing"},
			Data:       map[string]string{"hosts": hosts, "istio-namespace": gateway},
		}}
	}
	return c
}

const (
	plainSecret     = `volumes: [{name: a, secret: {secretName: generic-token-kubeconfig-1a2b}}]`
	projectedSecret = `volumes: [{name: a, projected: {sources: [{configMap: {name: x}},
		{secret: {name: generic-token-kubeconfig}}]}}]`
	otherVolumes = `volumes: [{name: a, secret: {secretName: my-generic-token-kubeconfig}}, {name: b,
		projected: {sources: [{secret: {name: x}}]}}]`
	allowedLabel = `networking.resources.gardener.cloud/to-istio-ingress-istio-ingressgateway-internal-tcp-9443: allowed`
)

func TestPLB_PodsThatStayAsTheyAre(t *testing.T) {
	for name, spec := range map[string]string{"PLB-1 with a kubeconfig": plainSecret, "PLB-1 without": otherVolumes} {
		t.Run(name, func(t *testing.T) {
			unchanged(t, balancing(t, "istio-ingress", "none"), pods.LoadBalancing(), pod(``, spec))
		})
	}
	t.Run("PLB-2 no generic kubeconfig", func(t *testing.T) {
		c := balancing(t, "istio-ingress", "a,b")
		unchanged(t, c, pods.LoadBalancing(), pod(``, otherVolumes))
		NewWithT(t).Expect(c.State.Calls).To(BeEmpty())
	})
	t.Run("another namespace", func(t *testing.T) {
		c := balancing(t, "istio-ingress", "a,b")
		c.Labels = nil
		NewWithT(t).Expect(c.Send(t, pods.LoadBalancing(), pod(``, plainSecret)).Called).To(BeFalse())
	})
}

// PLB-5, PLB-6 and PLB-10 are part of the first cases.
func TestPLB_PodsOfControlPlanes(t *testing.T) {
	const aliases = `hostAliases: [{ip: 10.0.0.1, hostnames: [a, b]}, {ip: "fd00::1", hostnames: [a, b]}]`
	for name, spec := range map[string]string{
		"PLB-3 a projected Secret":          projectedSecret,
		"PLB-4 PLB-5 PLB-6 PLB-10 a Secret": plainSecret,
	} {
		t.Run(name, func(t *testing.T) {
			changed(t, balancing(t, "istio-ingress", "a,b"), pods.LoadBalancing(), pod(``, spec),
				pod(`labels: {`+allowedLabel+`}`, spec+`, `+aliases))
		})
	}
	t.Run("PLB-11 what is there stays, and is not added again", func(t *testing.T) {
		changed(t, balancing(t, "istio-ingress", "a,b"), pods.LoadBalancing(),
			pod(`labels: {x: z}`, plainSecret+`, hostAliases: [{ip: 10.0.0.1, hostnames: [b, c, a]}, {ip: "fd00::1",
				hostnames: [a]}]`),
			pod(`labels: {x: z, `+allowedLabel+`}`, plainSecret+`, hostAliases: [{ip: 10.0.0.1, hostnames: [b, c, a]},
				{ip: "fd00::1", hostnames: [a]}, {ip: "fd00::1", hostnames: [a, b]}]`))
	})
	t.Run("PLB-9 a long namespace", func(t *testing.T) {
		c := balancing(t, "istio-ingress-handler-of-a-region", "a")
		answer := c.Send(t, pods.LoadBalancing(), pod(``, plainSecret))
		labels, is := value(t, answer.Object, "metadata", "labels").(map[string]any)
		g := NewWithT(t)
		g.Expect(is).To(BeTrue())
		g.Expect(labels).To(HaveLen(1))
		for key := range labels {
			_, name, _ := strings.Cut(key, "/")
			g.Expect(name).To(HaveLen(63))
			g.Expect(name).To(MatchRegexp("^to-istio-ingress-handler-of-a-region-istio-ingressgateway-[0-9a-f]{5}$"))
		}
	})
}

func TestPLB_Errors(t *testing.T) {
	t.Run("PLB-7 no gateway", func(t *testing.T) {
		c := balancing(t, "istio-ingress", "a")
		c.State.Services = nil
		answer := c.Send(t, pods.LoadBalancing(), pod(``, plainSecret))
		g := NewWithT(t)
		g.Expect(apierrors.IsNotFound(answer.Err)).To(BeTrue())
		g.Expect(answer.Err).To(MatchError(ContainSubstring(`"istio-ingressgateway-internal" not found`)))
	})
	t.Run("PLB-8 no hosts", func(t *testing.T) {
		refused(t, balancing(t, "istio-ingress", "").Send(t, pods.LoadBalancing(), pod(``, plainSecret)), 403, "hosts")
	})
	t.Run("too many hosts", func(t *testing.T) {
		c := balancing(t, "istio-ingress", strings.Repeat("a,", 100))
		refused(t, c.Send(t, pods.LoadBalancing(), pod(``, plainSecret)), 403, "more than 100")
	})
	t.Run("nothing can be read", func(t *testing.T) {
		c := balancing(t, "istio-ingress", "a")
		c.State.Err = errors.New("no")
		NewWithT(t).Expect(c.Send(t, pods.LoadBalancing(), pod(``, plainSecret)).Err).To(MatchError(ContainSubstring("no")))
	})
}

func TestPLB12_TheVirtualGarden(t *testing.T) {
	c := balancing(t, "istio-ingress", "a,b")
	c.Settings = reviews.Webhooks(t,
		"registration: {scope: Runtime}, podKubeAPIServerLoadBalancing: {enabled: true, virtualGarden: true}")
	c.Namespace, c.Labels, c.State.ConfigMaps[0].Namespace = "garden", nil, "garden"
	g := NewWithT(t)
	g.Expect(c.Send(t, pods.LoadBalancing(), pod(``, plainSecret)).Patch).NotTo(BeEmpty())
	g.Expect(c.Send(t, pods.LoadBalancing(), pod(`labels: {app: gardener-resource-manager}`,
		plainSecret)).Called).To(BeFalse())
}
