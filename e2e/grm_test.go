//go:build grm

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// grmVariable names the binary of a Gardener resource manager; "make e2e-grm" sets it. Its definition of
// ManagedResources and its example of a configuration lie beside it.
const grmVariable = "TRELLIS_E2E_GRM"

// grmConfig is that of the instance of a shoot, but that its Lease and its health checks are faster.
const grmConfig = `
apiVersion: resourcemanager.config.gardener.cloud/v1alpha1
kind: ResourceManagerConfiguration
sourceClientConnection:
  kubeconfig: %[1]q
  namespaces: [%[2]q]
targetClientConnection:
  kubeconfig: %[3]q
leaderElection:
  leaderElect: true
  resourceNamespace: %[2]q
  resourceName: %[4]s
  leaseDuration: 6s
  renewDeadline: 4s
  retryPeriod: 1s
server:
  webhooks: {bindAddress: 127.0.0.1, port: %[6]d, tls: {serverCertDir: %[9]q}}
  healthProbes: {bindAddress: 127.0.0.1, port: %[7]d}
  metrics: {bindAddress: 127.0.0.1, port: %[8]d}
logLevel: info
logFormat: text
controllers:
  resourceClass: %[5]q
  managedResource: {concurrentSyncs: 20, syncPeriod: 1m, alwaysUpdate: true}
  health: {concurrentSyncs: 10, syncPeriod: 15s}
%[10]s`

// The Lease by which a resource manager holds a namespace against the hub, and one that holds nothing.
const (
	grmLease      = "gardener-resource-manager"
	grmOtherLease = "gardener-resource-manager-of-another-class"
)

// grm is a Gardener resource manager in a process of its own. It ends with the control planes at the latest, because it
// ends when it cannot renew its Lease.
type grm struct {
	command *exec.Cmd
	output  *output
	ended   sync.Once
	// config is the path of its configuration.
	config string
}

// theirDefinition replaces the hub's definition of ManagedResources by theirs, which is what a seed has.
var theirDefinition sync.Once

// startGRM starts a resource manager of a class that serves the space's namespace and applies to a target, and waits
// until it leads. Other controllers than those of ManagedResources are lines of its configuration.
func (s *space) startGRM(class, lease string, target *testbed.Cluster, controllers ...string) *grm {
	s.t.Helper()
	s.takeTheirDefinition()
	dir := s.t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		s.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
		return path
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	s.Expect(err).NotTo(HaveOccurred())
	write("tls.crt", certificate)
	write("tls.key", key)
	probes := freePort(s)
	config := write("config.yaml", fmt.Appendf(nil, grmConfig, write("source", source.Kubeconfig()), s.name, write("target", target.Kubeconfig()),
		lease, class, freePort(s), probes, freePort(s), dir, below(controllers)))

	m := &grm{command: exec.Command(grmBinary(s), "--config", config), output: &output{}, config: config}
	m.command.Stdout, m.command.Stderr = m.output, m.output
	s.Expect(m.command.Start()).To(Succeed())
	s.t.Cleanup(func() {
		m.kill()
		if s.t.Failed() {
			log := m.output.String()
			s.t.Logf("end of the log of the resource manager of class %s:\n%s", class, log[max(0, len(log)-4000):])
		}
	})
	s.Eventually(func() error {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/readyz", probes))
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", answer.Status)
		}
		return nil
	}).Should(Succeed(), func() string { return m.output.String() })
	s.Eventually(func() string { return s.holder(lease) }).ShouldNot(BeEmpty(), func() string { return m.output.String() })
	return m
}

// below indents lines, to be put below a key.
func below(lines []string) (text string) {
	for _, line := range lines {
		text += "  " + line + "\n"
	}
	return text
}

// grmBinary is the path of a resource manager.
func grmBinary(s *space) string {
	s.t.Helper()
	path := os.Getenv(grmVariable)
	s.Expect(path).NotTo(BeEmpty(), "$%s names no binary: run \"make e2e-grm\"", grmVariable)
	return path
}

// takeTheirDefinition gives the source the definition of ManagedResources that comes with the resource manager, once
// for all tests: watches end when it changes.
func (s *space) takeTheirDefinition() {
	s.t.Helper()
	theirDefinition.Do(func() {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(grmBinary(s)), "crd.yaml"))
		s.Expect(err).NotTo(HaveOccurred())
		theirs, installed := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
		s.Expect(yaml.Unmarshal(text, theirs)).To(Succeed())
		s.Expect(source.Client.Get(s.ctx, client.ObjectKeyFromObject(theirs), installed)).To(Succeed())
		theirs.ResourceVersion = installed.ResourceVersion
		s.Expect(source.Client.Update(s.ctx, theirs)).To(Succeed())
	})
}

// holder is who holds a Lease in the space's namespace, empty if it is free.
func (s *space) holder(lease string) string {
	l := &coordinationv1.Lease{}
	s.Expect(client.IgnoreNotFound(source.Client.Get(s.ctx, s.key(lease), l))).To(Succeed())
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// stop ends the resource manager in order: it gives its Lease back.
func (m *grm) stop(s *space) {
	s.t.Helper()
	m.ended.Do(func() {
		s.Expect(m.command.Process.Signal(syscall.SIGTERM)).To(Succeed())
		_ = m.command.Wait() // it says that its leadership was lost
	})
}

// kill ends it without giving it a chance to do anything.
func (m *grm) kill() {
	m.ended.Do(func() {
		_ = m.command.Process.Kill()
		_ = m.command.Wait() // it was killed
	})
}

// writesToMRs are the requests that change the space's ManagedResources.
func (s *space) writesToMRs(entries []request) []request {
	return without(entries, func(e request) bool { return !isWrite(e) || e.Resource != "managedresources" || e.Namespace != s.name })
}

// eventuallyGood waits until ManagedResources are what consumers call good: observed, applied, healthy, rolled out.
func (s *space) eventuallyGood(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.Eventually(func() string { return s.goodness(name) }, 2*patience).Should(Equal(good), func() string { return fmt.Sprintf("%s: %+v", name, s.mr(name).Status.Conditions) })
	}
}

const good = "True/ApplySucceeded True/ResourcesHealthy False/ResourcesRolledOut"

func (s *space) goodness(name string) string {
	mr := s.mr(name)
	if mr.Status.ObservedGeneration != mr.Generation {
		return "an older generation is observed"
	}
	return strings.Join([]string{conditionOf(mr, applied), conditionOf(mr, healthy), conditionOf(mr, progressing)}, " ")
}
