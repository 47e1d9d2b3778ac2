package controlplane

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func TestAPIServerCanBeStoppedAndStartedAgain(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{})
	client := newClient(t, cp.RESTConfig())
	before := cp.Host()

	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	for _, end := range []func(){cp.StopAPIServer, cp.KillAPIServer} {
		end()
		_, err = client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
		g.Expect(err).To(MatchError(ContainSubstring("connection refused")))
		end() // nothing to do any longer

		g.Expect(cp.StartAPIServer(ctx)).To(Succeed())
		g.Expect(cp.StartAPIServer(ctx)).To(Succeed(), "does nothing while it is running")
		g.Expect(cp.Host()).To(Equal(before))
		_, err = client.CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestComponentsTakeTheirShare(t *testing.T) {
	for share, want := range map[Share][]string{
		{}:                                      {"go_gc_gogc_percent 100", "go_gc_gomemlimit_bytes 9.223372036854776e+18"},
		{HeapGrowth: 300, MemoryLimit: 5 << 30}: {"go_gc_gogc_percent 300", "go_gc_gomemlimit_bytes 5.36870912e+09"},
	} {
		g := NewWithT(t)
		cp := StartForTest(t, Options{Share: share})
		metrics, err := newClient(t, cp.RESTConfig()).CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		for _, line := range want {
			g.Expect(string(metrics)).To(ContainSubstring("\n" + line + "\n"))
		}
	}
}

func TestCollectionsAreTraced(t *testing.T) {
	g := NewWithT(t)
	began := time.Now()
	cp := StartForTest(t, Options{Share: Share{TraceCollections: true}})
	seen := func(g Gomega) []Collection {
		collections, err := cp.Collections(APIServer)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(collections).NotTo(BeEmpty())
		last := began
		for _, c := range collections {
			g.Expect(c.Began).To(BeTemporally(">=", last))
			g.Expect(c.Length).To(BeNumerically(">", 0))
			last = c.Began
		}
		g.Expect(last).To(BeTemporally("<", time.Now()))
		return collections
	}
	g.Eventually(seen).WithTimeout(time.Minute).ShouldNot(BeEmpty())

	cp.StopAPIServer()
	began = time.Now()
	g.Expect(cp.StartAPIServer(t.Context())).To(Succeed())
	g.Eventually(seen).WithTimeout(time.Minute).ShouldNot(BeEmpty()) // those of the process that was stopped are none of this one

	_, err := StartForTest(t, Options{}).Collections(APIServer)
	g.Expect(err).To(MatchError(ContainSubstring("not traced")))
}

func TestAPIServerIsNotStartedOnAPortThatIsTaken(t *testing.T) {
	g := NewWithT(t)
	cp := StartForTest(t, Options{})
	cp.StopAPIServer()

	listener, err := net.Listen("tcp", strings.TrimPrefix(cp.Host(), "https://"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cp.StartAPIServer(t.Context())).To(MatchError(errPortTaken))

	g.Expect(listener.Close()).To(Succeed())
	g.Expect(cp.StartAPIServer(t.Context())).To(Succeed())
}

func TestFrozenAPIServerHangsUntilItIsThawed(t *testing.T) {
	g := NewWithT(t)
	cp := StartForTest(t, Options{})
	config := cp.RESTConfig()
	config.Timeout = time.Second
	client := newClient(t, config)

	g.Expect(cp.Freeze()).To(Succeed())
	_, err := client.Discovery().ServerVersion()
	g.Expect(err).To(Or(MatchError(context.DeadlineExceeded), MatchError(ContainSubstring("Client.Timeout exceeded"))))

	g.Expect(cp.Thaw()).To(Succeed())
	g.Eventually(func() error {
		_, err := client.Discovery().ServerVersion()
		return err
	}).WithTimeout(2 * time.Minute).Should(Succeed())

	g.Expect(cp.Freeze()).To(Succeed())
	cp.KillAPIServer()
	g.Expect(cp.Thaw()).To(MatchError(ContainSubstring("not running")))
}

func TestDeploymentBecomesAvailableOnFakeNodes(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{ControllerManager: true, Scheduler: true, Nodes: 2})
	client := newClient(t, cp.RESTConfig())

	version, err := client.Discovery().ServerVersion()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(version.Major).To(Equal("1"))
	g.Expect(version.GitVersion).To(MatchRegexp(`^v1\.\d+\.\d+$`), "the version is stamped")

	labels := map[string]string{"app": "web"}
	_, err = client.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](3),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (int32, error) {
		deployment, err := client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return deployment.Status.AvailableReplicas, err
	}).WithTimeout(2 * time.Minute).Should(Equal(int32(3)))
}

func TestPodsNeedNoControllerManager(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	cp := StartForTest(t, Options{Scheduler: true, Nodes: 1})
	client := newClient(t, cp.RESTConfig())

	_, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "alone"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() (corev1.PodPhase, error) {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "alone", metav1.GetOptions{})
		return pod.Status.Phase, err
	}).WithTimeout(2 * time.Minute).Should(Equal(corev1.PodRunning))
}

func TestStopLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	cp := StartForTest(t, Options{ControllerManager: true, Scheduler: true, Kwok: true})
	pids := cp.pids()
	g.Expect(pids).To(HaveLen(5 + 1)) // and the guard
	g.Expect(pids).To(HaveEach(Satisfy(isAlive)))
	g.Expect(cp.dir).To(BeADirectory())

	g.Expect(cp.Freeze()).To(Succeed())
	cp.Stop()
	g.Expect(pids).NotTo(ContainElement(Satisfy(isAlive)))
	g.Expect(cp.dir).NotTo(BeAnExistingFile())

	cp.Stop()
	cp.StopAPIServer()
	g.Expect(cp.StartAPIServer(t.Context())).To(MatchError(ContainSubstring("has been stopped")))
}

func TestGivenDirectoryStays(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "kept")
	cp := StartForTest(t, Options{Dir: dir})
	cp.Stop()
	g.Expect(filepath.Join(dir, "kube-apiserver.log")).To(BeARegularFile())

	_, err := Start(t.Context(), Options{Dir: dir})
	g.Expect(err).To(MatchError(ContainSubstring("is not empty")))
}

func TestStartQuotesTheLogOfWhatFailed(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g := NewWithT(t)
	_, err := Start(t.Context(), Options{Name: "Broken one", ExtraAPIServerArgs: []string{"--no-such-flag"}})
	g.Expect(err).To(MatchError(And(
		ContainSubstring("cannot start broken-one: kube-apiserver ended"),
		ContainSubstring("unknown flag: --no-such-flag"),
	)))
}

func TestStartEndsWithItsContext(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := Start(ctx, Options{})
	g.Expect(err).To(MatchError(ContainSubstring("gave up waiting for")))
	g.Expect(time.Since(begin)).To(BeNumerically("<", startTimeout/2))
}

// newClient returns a client whose connections end with the test.
func newClient(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	g := NewWithT(t)
	httpClient, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) })
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	g.Expect(err).NotTo(HaveOccurred())
	return client
}

// pids returns those of all processes of the control plane.
func (cp *ControlPlane) pids() []int {
	pids := []int{cp.guard.group()}
	for _, p := range cp.processes {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// isAlive reports whether a process runs or is stopped. One that only waits to be collected by its parent is dead.
func isAlive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}
