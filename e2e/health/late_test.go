package health

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// relay is a proxy of an API server that can delay the events of watches of some resources. Everything else of the same
// connections is passed on: no probe fails.
type relay struct {
	server *httptest.Server

	mu   sync.Mutex
	held map[string]chan struct{} // by resource: closed when it is let go
}

// newRelay makes a relay to a cluster that ends with the test.
func newRelay(t *testing.T, cluster *testbed.Cluster) *relay {
	t.Helper()
	g := NewWithT(t)
	there, err := url.Parse(cluster.Host())
	g.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(cluster.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	r := &relay{held: map[string]chan struct{}{}}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(there)
			p.Out.Header.Del("Authorization") // the relay is an administrator
		},
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(answer *http.Response) error {
			if q := answer.Request.URL.Query(); q.Get("watch") == "true" || q.Get("watch") == "1" {
				parts := strings.Split(answer.Request.URL.Path, "/")
				answer.Body = r.slow(answer.Request.Context(), parts[len(parts)-1], answer.Body)
			}
			return nil
		},
	}
	r.server = httptest.NewUnstartedServer(proxy)
	r.server.EnableHTTP2 = true
	t.Cleanup(testbed.Serve(r.server))
	return r
}

// kubeconfig is the access to the relay.
func (r *relay) kubeconfig(cluster *testbed.Cluster) []byte {
	return testbed.Rewrite(cluster.Kubeconfig(), func(config *testbed.KubeConfig) {
		for _, c := range config.Clusters {
			c.Server = r.server.URL
			c.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
		}
		for _, user := range config.AuthInfos {
			user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, "anything"
		}
	})
}

// hold stops what watches of a resource deliver. The returned function lets it continue.
func (r *relay) hold(resource string) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gate := make(chan struct{})
	r.held[resource] = gate
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.held, resource)
		close(gate)
	})
}

func (r *relay) gate(resource string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[resource]
}

// slow passes on one event after the other.
func (r *relay) slow(ctx context.Context, resource string, body io.ReadCloser) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		events := bufio.NewReader(body)
		for {
			event, err := events.ReadBytes('\n')
			if gate := r.gate(resource); gate != nil {
				select {
				case <-gate:
				case <-ctx.Done():
				}
			}
			if _, failed := in.Write(event); failed != nil {
				err = failed
			}
			if err != nil {
				_ = in.CloseWithError(err)
				_ = body.Close()
				return
			}
		}
	}()
	return out
}

// No status of an object is reported before its watch has shown the last write, not even long after.
func TestWatchOfWorkloadsIsLate(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			way := newRelay(t, east)
			p := newPlaceIn(t, east, way.kubeconfig(east))
			obj := p.manage("mr", workload(kind, "app", image1, ""))[0]
			p.awaitReady("mr")
			release := way.hold(strings.ToLower(kind) + "s")
			t.Cleanup(release)
			r := p.roll("mr", workload(kind, "app", image2, noScheduler)) // which never becomes ready
			p.Eventually(func() string { return condition(p.mr("mr"), applied) + checksum(p.mr("mr")) }).Should(And(HavePrefix("True/"), Not(HaveSuffix(checksum(r.before)))))
			p.Eventually(func() bool {
				return len(p.pods(image2)) > 0 && number(p.live(obj), "status", "observedGeneration") == 2
			}).Should(BeTrue())
			// UnseenGrace and the look that follows it.
			time.Sleep(35 * time.Second)
			r.refute(saysHealthy, saysRolledOut, saysReady)
			release()
			p.await("mr", Or(Equal(isHealthy), Equal("False/"+kind+"Unhealthy")), Not(HavePrefix("Unknown/")))
			r.refute(saysReady)
			p.start(p.pods(image2)...)
			if kind != "DaemonSet" {
				p.start(p.awaitPods(image2, 2)...)
			}
			p.awaitReady("mr")
		})
	}
}

// A write that is no new content leaves the conditions as they are. That the watch does not show it for long is written
// nevertheless, however often the live object is found to be right; and meanwhile what is wrong with others is.
func TestWatchIsLateAfterACorrection(t *testing.T) {
	t.Parallel()
	way := newRelay(t, east)
	p := newPlaceIn(t, east, way.kubeconfig(east))
	objects := p.manage("mr", workload("Deployment", "app", image1, "")+"\n---\n"+workload("StatefulSet", "other", image1, ""))
	p.awaitReady("mr")
	release := way.hold("deployments")
	t.Cleanup(release)
	p.patch(objects[0], `{"spec":{"minReadySeconds":1}}`) // the watch is held and does not report it
	p.Expect(source.Client.Patch(p.ctx, p.mr("mr"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+resourcesv1alpha1.OperationAnnotation+`":"`+resourcesv1alpha1.OperationReconcile+`"}}}`)))).To(Succeed())
	p.Eventually(func() int { return number(p.live(objects[0]), "spec", "minReadySeconds") }).Should(BeZero())

	dying := p.podsOf("other", image1)[0]
	p.say(dying, running(dying, false, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}))
	p.awaitMessage("mr", healthy, "False/StatefulSetUnhealthy", Not(ContainSubstring("not shown")))
	p.start(dying)
	p.await("mr", "Unknown/ChecksPending", "Unknown/ChecksPending")
	p.Expect(message(p.mr("mr"), healthy)).To(ContainSubstring("Deployment.apps " + p.ns + "/app is not shown yet as it was written last."))
	release()
	p.awaitReady("mr")
}

// Pods are watched apart from what owns them. A Deployment that says that it is done is not rolled out before the watch
// of pods has shown its new ones, and the end of its old ones.
func TestWatchOfPodsIsLate(t *testing.T) {
	t.Parallel()
	way := newRelay(t, east)
	p := newPlaceIn(t, east, way.kubeconfig(east))
	d := p.manage("mr", workload("Deployment", "app", image1, ""))[0]
	p.awaitReady("mr")
	p.hold(p.pods(image1)...)
	old := p.pods(image1)
	release := way.hold("pods")
	t.Cleanup(release)
	r := p.roll("mr", workload("Deployment", "app", image2, ""))
	p.awaitPods(image2, 2)
	p.Eventually(func() string { return fmt.Sprint(p.live(d).Object["status"]) }).Should(And(ContainSubstring("NewReplicaSetAvailable"), ContainSubstring("observedGeneration:2")))
	p.await("mr", isHealthy, Not(BeEmpty()))
	p.Consistently(func() bool { return saysRolledOut(p.mr("mr")) }).WithTimeout(3*time.Second).Should(BeFalse(), "the old pods are still there")
	r.refute(saysRolledOut, saysReady)
	release()
	p.awaitMessage("mr", progressing, "True/DeploymentProgressing", ContainSubstring("old pods remain: there are 4 pods instead of 2"))
	r.refute(saysRolledOut, saysReady)
	p.release(old...)
	p.awaitReady("mr")
}
