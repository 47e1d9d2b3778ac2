package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// child is a hub in a process of its own.
type child struct {
	command *exec.Cmd
	input   io.Closer
	output  *output
	ended   sync.Once
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// childConfig is a configuration file whose Lease expires soon: a killed process cannot release it.
const childConfig = `
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
sourceClientConnection: {kubeconfig: %q}
leaderElection: {resourceNamespace: trellis, leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms}
server:
  healthProbes: {bindAddress: 127.0.0.1, port: %d}
  metrics: {bindAddress: 127.0.0.1, port: %d}
classes:
- name: ""
  target: {type: Namespace}
clusterCache: {allowedNetworks: [127.0.0.0/8]}
`

// startChild starts a hub in a process of its own that does not outlive the test.
func (s *space) startChild() *child {
	s.t.Helper()
	kubeconfig, err := source.ServiceAccountKubeconfig(s.ctx, testbed.HubNamespace, chart.ServiceAccount, time.Hour)
	s.Expect(err).NotTo(HaveOccurred())
	dir := s.t.TempDir()
	access, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "config.yaml")
	s.Expect(os.WriteFile(access, kubeconfig, 0o600)).To(Succeed())
	s.Expect(os.WriteFile(config, fmt.Appendf(nil, childConfig, access, freePort(s), freePort(s)), 0o600)).To(Succeed())

	executable, err := os.Executable()
	s.Expect(err).NotTo(HaveOccurred())
	c := &child{command: exec.Command(executable, "--config", config), output: &output{}}
	c.command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") }), childEnv+"=1")
	c.command.Stdout, c.command.Stderr = c.output, c.output
	c.input, err = c.command.StdinPipe()
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(c.command.Start()).To(Succeed())
	s.t.Cleanup(func() {
		c.kill()
		if s.t.Failed() {
			s.t.Logf("log of the hub:\n%s", c.output)
		}
	})
	return c
}

// kill ends the process without giving it a chance to do anything.
func (c *child) kill() {
	c.ended.Do(func() {
		_ = c.command.Process.Kill()
		_ = c.command.Wait() // it was killed
	})
}

// freePort is controlplane.FreePort.
func freePort(s *space) int {
	s.t.Helper()
	port, err := controlplane.FreePort()
	s.Expect(err).NotTo(HaveOccurred())
	return port
}

// generated is the content of a ManagedResource in one round: objects of several kinds in several stages. Most names
// are those of the round before, some are new, some are gone.
type generated struct {
	manifests  []string
	keys       []string // kind/name, sorted
	configMaps int
}

func generate(s *space, random *rand.Rand, round, size int) generated {
	var g generated
	add := func(kind, name, manifest string) {
		g.manifests, g.keys = append(g.manifests, manifest), append(g.keys, kind+"/"+name)
		if kind == "ConfigMap" {
			g.configMaps++
		}
	}
	marks := fmt.Sprintf(`"labels":{"round":"%d"}`, round)
	for i := range size {
		if random.IntN(4) == 0 {
			continue // this one is not wanted in this round
		}
		name := fmt.Sprint("object-", i)
		kind, rest := "ConfigMap", fmt.Sprintf(`"data":{"round":"%d"}`, round)
		apiVersion, metadata := "v1", fmt.Sprintf(`"namespace":%q,"name":%q,%s`, s.name, name, marks)
		switch i % 10 {
		case 1:
			kind, rest = "Secret", fmt.Sprintf(`"stringData":{"round":"%d"}`, round)
		case 2:
			kind, rest = "ServiceAccount", `"automountServiceAccountToken":false`
		case 3:
			kind, rest, apiVersion = "Role", `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`, "rbac.authorization.k8s.io/v1"
		case 4:
			kind, rest, apiVersion = "ClusterRole", `"rules":[]`, "rbac.authorization.k8s.io/v1"
			name = s.name + "-" + name
			metadata = fmt.Sprintf(`"name":%q,%s`, name, marks)
		}
		add(kind, name, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{%s},%s}`, apiVersion, kind, metadata, rest))
	}
	add("CustomResourceDefinition", "widgets."+s.name+".example.com", definition(s))
	if random.IntN(2) == 0 {
		add("Widget", "one", instance(s))
	}
	slices.Sort(g.keys)
	return g
}

// kindsOf are the kinds that generate makes.
func kindsOf(s *space) []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, {Group: s.name + ".example.com", Version: "v1", Kind: "Widget"},
	}
}

// existing lists what a ManagedResource has in a target, as kind/name, with the UIDs.
func existing(s *space, target client.Client, mr string) (map[string]types.UID, error) {
	found := map[string]types.UID{}
	for _, kind := range kindsOf(s) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := target.List(s.ctx, list, client.MatchingLabels{resourcesv1alpha1.ManagedByLabel: "gardener"})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for _, o := range list.Items {
			if o.Annotations[resourcesv1alpha1.OriginAnnotation] == s.name+"/"+mr {
				found[kind.Kind+"/"+o.Name] = o.UID
			}
		}
	}
	return found, nil
}

// existingKeys is existing without the UIDs, sorted.
func (s *space) existingKeys(target client.Client, mr string) []string {
	s.t.Helper()
	found, err := existing(s, target, mr)
	s.Expect(err).NotTo(HaveOccurred())
	return slices.Sorted(maps.Keys(found))
}

// written counts the ConfigMaps of a round that exist.
func (s *space) written(target client.Client, round int) int {
	s.t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	s.Expect(target.List(s.ctx, list, client.InNamespace(s.name), client.MatchingLabels{"round": fmt.Sprint(round)})).To(Succeed())
	return len(list.Items)
}

// inventoried lists the inventory of a ManagedResource, as kind/name, sorted.
func inventoried(mr *resourcesv1alpha1.ManagedResource) []string {
	keys := []string{}
	for _, ref := range mr.Status.Resources {
		keys = append(keys, ref.Kind+"/"+ref.Name)
	}
	slices.Sort(keys)
	return keys
}

// auditInventory compares target and inventory until the test ends, and then fails it if an object ever existed that
// was not in the inventory.
func (s *space) auditInventory(target client.Client, mr string) {
	s.t.Helper()
	stop, done := make(chan struct{}), make(chan error, 1)
	rounds := 0
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := s.auditOnce(target, mr); err != nil {
				done <- err
				return
			}
			rounds++
		}
	}()
	s.t.Cleanup(func() {
		close(stop)
		s.Expect(<-done).NotTo(HaveOccurred())
		s.t.Logf("target and inventory were compared %d times", rounds)
		s.Expect(rounds).To(BeNumerically(">", 10))
	})
}

// auditOnce returns an error if an object exists that is not in the inventory.
func (s *space) auditOnce(target client.Client, name string) error {
	before, err := existing(s, target, name)
	if err != nil {
		return err
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := source.Client.Get(s.ctx, s.key(name), mr); client.IgnoreNotFound(err) != nil {
		return err
	}
	for _, key := range inventoried(mr) {
		delete(before, key)
	}
	if len(before) == 0 {
		return nil
	}
	// What is left may have been deleted before the inventory was read.
	after, err := existing(s, target, name)
	if err != nil {
		return err
	}
	for key, uid := range before {
		if after[key] == uid {
			return fmt.Errorf("%s exists and is not in the inventory %v", key, inventoried(mr))
		}
	}
	return nil
}

func TestKilledHubLeavesNothingThatItsSuccessorDoesNotKnow(t *testing.T) {
	const rounds, size = 6, 220
	s := newSpace(t, nil)
	random := seeded(t)
	s.register("target", east)
	content := func(g generated) *corev1.Secret { return testbed.Content(s.name, "mr", "objects.yaml", g.manifests...) }
	wanted := generate(s, random, 0, size)
	s.manageWith(testbed.ManagedResource(s.name, "mr", "mr"), content(wanted))
	s.auditInventory(east.Client, "mr")

	inTheMiddle := 0
	for round := range rounds {
		hub := s.startChild()
		if round > 0 {
			// The successor is at the rest of the last round when the next content comes.
			wanted = generate(s, random, round, size)
			s.Expect(source.Client.Update(s.ctx, content(wanted))).To(Succeed())
		}
		after := random.IntN(wanted.configMaps + 1)
		s.Eventually(func() int { return s.written(east.Client, round) }, patience, time.Millisecond).Should(BeNumerically(">=", after))
		time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
		hub.kill()

		done, there := s.written(east.Client, round), s.existingKeys(east.Client, "mr")
		known := inventoried(s.mr("mr"))
		s.Expect(known).To(ContainElements(there), "round %d: what exists is in the inventory", round)
		t.Logf("round %d: killed with %d of %d ConfigMaps written; %d objects in the target, %d in the inventory, %d wanted",
			round, done, wanted.configMaps, len(there), len(known), len(wanted.keys))
		if done > 0 && done < wanted.configMaps || !slices.Equal(there, wanted.keys) {
			inTheMiddle++
		}
	}
	s.Expect(inTheMiddle).To(BeNumerically(">", 0), "kills in the middle of applying")

	// The successor deletes objects that are no longer in the Secret, from any round.
	few := generate(s, random, rounds, 12)
	s.Expect(source.Client.Update(s.ctx, content(few))).To(Succeed())
	s.startChild()
	s.Eventually(func() []string { return s.existingKeys(east.Client, "mr") }).Should(Equal(few.keys))
	s.eventuallyReady("mr")
	s.Expect(inventoried(s.mr("mr"))).To(Equal(few.keys))

	s.deleteMR("mr")
	s.eventuallyGone("mr")
	s.Expect(s.existingKeys(east.Client, "mr")).To(BeEmpty())
}

func TestSuccessorOfAKilledHubFinishesTheDeletion(t *testing.T) {
	const size = 220
	s := newSpace(t, nil)
	random := seeded(t)
	s.register("target", east)
	all := generate(s, random, 0, size)
	s.manageWith(testbed.ManagedResource(s.name, "mr", "mr"),
		testbed.Content(s.name, "mr", "objects.yaml", all.manifests...))
	hub := s.startChild()
	s.eventuallyReady("mr")
	s.Expect(s.existingKeys(east.Client, "mr")).To(Equal(all.keys))
	s.auditInventory(east.Client, "mr")

	s.deleteMR("mr")
	remaining := 1 + random.IntN(all.configMaps-1)
	s.Eventually(func() int { return s.written(east.Client, 0) }, patience, time.Millisecond).Should(BeNumerically("<=", remaining))
	hub.kill()
	left := s.existingKeys(east.Client, "mr")
	t.Logf("killed with %d of %d objects left", len(left), len(all.keys))
	s.startChild()
	s.eventuallyGone("mr")
	s.Expect(s.existingKeys(east.Client, "mr")).To(BeEmpty())
}

// seeded is a source of random numbers whose seed is in the log.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
