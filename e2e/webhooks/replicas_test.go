package webhooks

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// service is the address of a hub, with the replicas behind it.
type service struct {
	*WithT
	t        *testing.T
	mode     string
	listener net.Listener
	probes   *http.Client
	work     sync.WaitGroup

	mu       sync.Mutex
	replicas []*replica
	next     int
	open     map[net.Conn]struct{}
}

// newService listens for API servers until the test ends.
func newService(t *testing.T, mode string) *service {
	t.Helper()
	s := &service{WithT: NewWithT(t), t: t, mode: mode, open: map[net.Conn]struct{}{}}
	s.probes = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var err error
	s.listener, err = net.Listen("tcp", "127.0.0.1:0")
	s.Expect(err).NotTo(HaveOccurred())
	s.work.Go(s.accept)
	t.Cleanup(func() {
		_ = s.listener.Close()
		s.mu.Lock()
		for connection := range s.open {
			_ = connection.Close()
		}
		s.mu.Unlock()
		s.work.Wait()
	})
	return s
}

func (s *service) accept() {
	for {
		connection, err := s.listener.Accept()
		if err != nil {
			return // it is closed
		}
		s.work.Go(func() { s.pass(connection) })
	}
}

// pass passes a connection on to a replica that is ready, and waits for one.
func (s *service) pass(in net.Conn) {
	defer s.close(in)
	s.mu.Lock()
	s.open[in] = struct{}{}
	s.mu.Unlock()
	chosen := s.choose()
	for range 100 {
		if chosen != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
		chosen = s.choose()
	}
	if chosen == nil {
		return
	}
	out, err := net.Dial("tcp", chosen.webhooks)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	var answers sync.WaitGroup
	answers.Go(func() {
		_, _ = io.Copy(in, out)
		s.close(in)
	})
	_, _ = io.Copy(out, in)
	_ = out.Close()
	answers.Wait()
}

func (s *service) close(connection net.Conn) {
	_ = connection.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, connection)
}

// choose returns one replica after the other, of those that are ready.
func (s *service) choose() *replica {
	s.mu.Lock()
	all := slices.Clone(s.replicas)
	s.next++
	first := s.next
	s.mu.Unlock()
	for i := range all {
		if r := all[(first+i)%len(all)]; s.ready(r) {
			return r
		}
	}
	return nil
}

func (s *service) ready(r *replica) bool {
	response, err := s.probes.Get("http://" + r.health + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// replica is a hub in a process of its own.
type replica struct {
	command          *exec.Cmd
	input            io.Closer
	log              *bytes.Buffer // to be read when it has ended
	health, webhooks string        // host and port
	ended            sync.Once
	err              error // how it ended
}

const replicaConfig = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {resourceNamespace: trellis, leaseDuration: 60s, renewDeadline: 40s, retryPeriod: 500ms}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
  webhooks:
    enabled: true
    bindAddress: 127.0.0.1
    port: %d
    clientConfig: {url: "https://%s"}
    shutdownNotice: 5s
classes:
- name: ""
  target: {type: Namespace}
clusterCache: {allowedNetworks: [127.0.0.0/8]}
`

// start starts a replica, and waits until it is ready. It does not outlive the test.
func (s *service) start() *replica {
	s.t.Helper()
	kubeconfig, err := source.ServiceAccountKubeconfig(
		s.t.Context(), testbed.HubNamespace, chart.ServiceAccount, time.Hour)
	s.Expect(err).NotTo(HaveOccurred())
	var ports [3]int
	for i := range ports {
		ports[i], err = controlplane.FreePort()
		s.Expect(err).NotTo(HaveOccurred())
	}
	dir := s.t.TempDir()
	access, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	s.Expect(os.WriteFile(access, kubeconfig, 0o600)).To(Succeed())
	s.Expect(os.WriteFile(config, fmt.Appendf(nil, replicaConfig, access, ports[0], ports[1], ports[2],
		s.listener.Addr()), 0o600)).To(Succeed())
	executable, err := os.Executable()
	s.Expect(err).NotTo(HaveOccurred())
	r := &replica{
		command: exec.Command(executable, "--config", config), log: &bytes.Buffer{},
		health: fmt.Sprintf("127.0.0.1:%d", ports[0]), webhooks: fmt.Sprintf("127.0.0.1:%d", ports[2]),
	}
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") })
	r.command.Env = append(environment, replicaEnv+"="+s.mode)
	r.command.Stdout, r.command.Stderr = r.log, r.log
	r.input, err = r.command.StdinPipe()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(r.command.Start()).To(Succeed())
	s.t.Cleanup(func() {
		r.end()
		if s.t.Failed() {
			s.t.Logf("log of a replica:\n%s", r.log)
		}
	})
	s.Eventually(func() bool { return s.ready(r) }).Should(BeTrue())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = append(s.replicas, r)
	return r
}

// stop ends a replica in order. The Service learns of it as it does of everything, by its probes.
func (s *service) stop(r *replica) {
	s.t.Helper()
	r.end()
	s.Expect(r.err).NotTo(HaveOccurred(), "%s", r.log)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = slices.DeleteFunc(s.replicas, func(other *replica) bool { return other == r })
}

func (r *replica) end() {
	r.ended.Do(func() {
		_ = r.command.Process.Signal(syscall.SIGTERM) // if it has ended, Wait says how
		r.err = r.command.Wait()
		_ = r.input.Close()
	})
}
