package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// pickTarget says for which of several targets the ManagedResource is.
func (e *env) pickTarget() {
	e.t.Helper()
	e.Expect(source.Client.Patch(e.ctx, testbed.ManagedResource(e.name, "mr", "mr"),
		client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"target"}}}`, hubv1alpha1.ClusterNameLabel)))).To(Succeed())
}

const debugTargets = "/debug/targets"

func TestDebugPageIsBehindASwitch(t *testing.T) {
	e := newEnv(t)
	_, port, set := e.ports()
	hub := e.startHub(set)
	e.Eventually(func() int { return e.code(port, "/metrics") }).Should(Equal(http.StatusOK))
	e.Expect(e.code(port, debugTargets)).To(Equal(http.StatusNotFound))
	e.stop(hub)
}

func TestDebugPageShowsConnectionsAndQueues(t *testing.T) {
	e := newEnv(t)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "faulty", []byte("no kubeconfig")))).To(Succeed())
	// What targets say of themselves is shown, and must not be taken for markup.
	fleet, err := fleetsim.Start(e.ctx, fleetsim.Options{Targets: 1, Prefix: "markup-", Version: "v1.36.3-<script>"})
	e.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(fleet.Stop)
	e.Expect(source.Client.Create(e.ctx, fleet.Targets()[0].Registration(e.name))).To(Succeed())
	e.pickTarget()
	_, port, set := e.ports()
	hub := e.startHub(set, func(c *configv1alpha1.HubConfiguration) { c.Server.EnableDebugHandlers = true })

	type page struct {
		Leading bool
		Targets []struct {
			Target, State, Reason, RoundTrip, UID, KubernetesVersion string
			Usable                                                   bool
			Connection                                               int64
			Watches                                                  []struct {
				Name    string
				Synced  bool
				Objects int
			}
		}
		Queues []struct{ Class string }
	}
	e.Eventually(func(g Gomega) {
		code, body := e.get(port, debugTargets+"?format=json")
		g.Expect(code).To(Equal(http.StatusOK))
		var p page
		g.Expect(json.Unmarshal([]byte(body), &p)).To(Succeed())
		g.Expect(p.Leading).To(BeTrue())
		g.Expect(p.Queues).To(ContainElement(HaveField("Class", "resources")))
		g.Expect(p.Targets).To(HaveLen(4))
		g.Expect(p.Targets[0]).To(And(HaveField("Target", "source"), HaveField("State", "Connected")))
		g.Expect(p.Targets[1]).To(And(HaveField("Target", e.name+"/faulty"), HaveField("State", "Refused"), HaveField("Usable", false)))
		g.Expect(p.Targets[2]).To(And(HaveField("Target", e.name+"/"+fleet.Targets()[0].Name()), HaveField("KubernetesVersion", "v1.36.3-<script>")))
		up := p.Targets[3]
		g.Expect(up).To(And(HaveField("Target", e.name+"/target"), HaveField("State", "Connected"),
			HaveField("Usable", true), HaveField("Connection", int64(1))))
		g.Expect(up.RoundTrip).NotTo(BeEmpty())
		g.Expect(up.UID).NotTo(BeEmpty())
		g.Expect(up.Watches).To(ContainElement(And(HaveField("Name", ContainSubstring("ConfigMap")), HaveField("Synced", true), HaveField("Objects", BeNumerically(">=", 1)))))
	}).Should(Succeed())

	code, body := e.get(port, debugTargets)
	e.Expect(code).To(Equal(http.StatusOK))
	e.Expect(body).To(And(ContainSubstring("<h1>Targets</h1>"), ContainSubstring(e.name+"/target"), ContainSubstring("Class resources"),
		ContainSubstring("v1.36.3-&lt;script&gt;"), Not(ContainSubstring("<script>"))))
	e.stop(hub)
}
