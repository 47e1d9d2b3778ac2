package app_test

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// freePort is controlplane.FreePort.
func (e *env) freePort() int32 {
	e.t.Helper()
	port, err := controlplane.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	return int32(port)
}

// get sends a request to a port of this machine. The code is 0 if no process listens on the port.
func (e *env) get(port int32, path string) (code int, body string) {
	e.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	c := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	response, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	e.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(content)
}

func (e *env) code(port int32, path string) int {
	e.t.Helper()
	code, _ := e.get(port, path)
	return code
}

// ports gives a hub ports that the test knows.
func (e *env) ports() (probes, metrics int32, set func(*configv1alpha1.HubConfiguration)) {
	e.t.Helper()
	probes, metrics = e.freePort(), e.freePort()
	return probes, metrics, func(c *configv1alpha1.HubConfiguration) {
		c.Server.HealthProbes.Port, c.Server.Metrics.Port = probes, metrics
	}
}

func TestProbesAnswer(t *testing.T) {
	e := newEnv(t)
	probes, _, set := e.ports()
	hub := e.startHub(set)
	e.Eventually(func() int { return e.code(probes, "/readyz") }).Should(Equal(http.StatusOK))
	e.Expect(e.code(probes, "/healthz")).To(Equal(http.StatusOK))
	e.stop(hub)
	e.Expect(e.code(probes, "/healthz")).To(BeZero(), "the port is closed")
}

// A hub is not ready to lead until it has listed every kind of the source.
func TestHubIsReadyWhenItKnowsTheSource(t *testing.T) {
	e := newEnv(t)
	probes, _, set := e.ports()
	secrets, give := make(chan struct{}), make(chan struct{})
	lists := slowLists{asked: func() {}, secrets: sync.OnceFunc(func() { close(secrets) }), give: give}
	type start struct {
		hub *testbed.Hub
		err error
	}
	started := make(chan start, 1)
	config := func(c *configv1alpha1.HubConfiguration) {
		quickElection(c)
		set(c)
	}
	go func() {
		hub, err := testbed.StartHub(e.ctx, source,
			testbed.HubOptions{Config: config, WrapSource: func(next http.RoundTripper) http.RoundTripper {
				slow := lists
				slow.next = next
				return slow
			}})
		started <- start{hub, err}
	}()
	ready := func() int { return e.code(probes, "/readyz") }
	e.Eventually(ready).Should(Equal(http.StatusInternalServerError))
	e.Eventually(secrets).Should(BeClosed(), "Secrets are known, and TargetClusters are not")
	e.Consistently(ready, 2*time.Second).Should(Equal(http.StatusInternalServerError))
	e.Expect(e.code(probes, "/healthz")).To(Equal(http.StatusOK), "a restart would not help")
	close(give)
	var s start
	e.Eventually(started).Should(Receive(&s))
	e.Expect(s.err).NotTo(HaveOccurred())
	t.Cleanup(s.hub.Stop)
	e.Eventually(ready).Should(Equal(http.StatusOK))
	e.stop(s.hub)
}

// MC-10: a hub without registered targets is ready.
func TestMC10_HubWithoutTargetsIsReady(t *testing.T) {
	e := newEnv(t)
	e.Expect(source.Client.DeleteAllOf(e.ctx, &corev1.Secret{}, client.InNamespace(e.name))).To(Succeed())
	probes, _, set := e.ports()
	hub := e.startHub(set)
	e.Eventually(func() int { return e.code(probes, "/readyz") }).Should(Equal(http.StatusOK))
	e.Expect(e.code(probes, "/healthz")).To(Equal(http.StatusOK))
	e.stop(hub)
}

func TestStandbyIsReady(t *testing.T) {
	e := newEnv(t)
	leader := e.startHub()
	e.expectWork()
	probes, _, set := e.ports()
	standby := e.startHub(set)
	e.Eventually(func() int { return e.code(probes, "/readyz") }).Should(Equal(http.StatusOK))
	e.stop(standby)
	e.stop(leader)
}

func TestHubIsAliveWhateverItsClustersDo(t *testing.T) {
	e := newEnv(t)
	probes, _, set := e.ports()
	hub := e.startHub(quickly, impatient, set)
	e.expectWork()
	t.Cleanup(func() {
		e.Expect(source.Thaw()).To(Succeed())
		e.Expect(target.Thaw()).To(Succeed())
	})
	e.Expect(source.Freeze()).To(Succeed())
	e.Expect(target.Freeze()).To(Succeed())
	e.Eventually(termGoroutines).Should(BeEmpty(), "the hub has noticed")
	// A loop that waited for a cluster would be stuck after two seconds, and five later the hub would be said to be dead.
	e.Consistently(func() int { return e.code(probes, "/healthz") }, 15*time.Second).WithPolling(time.Second).Should(Equal(http.StatusOK))
	e.Expect(source.Thaw()).To(Succeed())
	e.Expect(target.Thaw()).To(Succeed())
	e.expectWork()
	e.stop(hub)
}

func TestProfilesAreBehindASwitch(t *testing.T) {
	e := newEnv(t)
	_, metrics, set := e.ports()
	closed := e.startHub(set)
	e.Eventually(func() int { return e.code(metrics, "/metrics") }).Should(Equal(http.StatusOK))
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/cmdline"} {
		e.Expect(e.code(metrics, path)).To(Equal(http.StatusNotFound), path)
	}
	e.stop(closed)

	_, metrics, set = e.ports()
	open := e.startHub(set, func(c *configv1alpha1.HubConfiguration) { c.Debugging.EnableProfiling = true })
	e.Eventually(func() int { return e.code(metrics, "/debug/pprof/") }).Should(Equal(http.StatusOK))
	for _, path := range []string{"/debug/pprof/goroutine?debug=1", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/profile?seconds=1"} {
		e.Expect(e.code(metrics, path)).To(Equal(http.StatusOK), path)
	}
	e.stop(open)
}
