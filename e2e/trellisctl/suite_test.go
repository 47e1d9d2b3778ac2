package trellisctl

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// What all tests share.
var (
	source, target *testbed.Cluster
	hub            *testbed.Hub
	// kubeconfig is the file of the administrator of the source, admin that of the target.
	kubeconfig, admin string
)

func TestMain(m *testing.M) {
	testbed.Suite{Patience: 90 * time.Second, Poll: 100 * time.Millisecond, Parallel: 8}.Main(m, run)
}

func run(m *testing.M) int {
	ctx := context.Background()
	clusters, err := testbed.StartSource(ctx, controlplane.Options{Name: "source"}, controlplane.Options{Name: "target"})
	if err == nil {
		defer testbed.StopClusters(clusters...)
		source, target = clusters[0], clusters[1]
		for _, policy := range chart.DeletionGuard() {
			if err == nil {
				err = source.Client.Create(ctx, policy)
			}
		}
	}
	if err == nil {
		err = testbed.InstallSource(ctx, target.Client) // for who looks at it as another source, without a hub
	}
	directory := ""
	if err == nil {
		directory, err = os.MkdirTemp("", "trellisctl")
		defer func() { _ = os.RemoveAll(directory) }()
	}
	if err == nil {
		kubeconfig, admin = filepath.Join(directory, "source"), filepath.Join(directory, "target")
		err = os.WriteFile(kubeconfig, source.Kubeconfig(), 0o600)
	}
	if err == nil {
		err = os.WriteFile(admin, target.Kubeconfig(), 0o600)
	}
	if err == nil {
		hub, err = testbed.StartHub(ctx, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
			c.Controllers.TargetCluster.SyncPeriod.Duration = 2 * time.Second // how soon figures are reported
			c.ClusterCache.DrainTimeout.Duration = 10 * time.Second
		}})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return hub.RunTests(m)
}

// place is a namespace of one test, of the same name in both clusters.
type place struct {
	*WithT
	t    *testing.T
	ctx  context.Context
	name string
	// own is the file of an administrator of a cluster that no other test registers; empty for the target itself.
	own string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()
	return another(t)
}

// another makes one more place for a test.
func another(t *testing.T) *place {
	t.Helper()
	p := &place{WithT: NewWithT(t), t: t, ctx: context.Background(), name: testbed.Namespace(t, nil, source, target)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the hub:\n%s", hub.Log.About(p.name))
		}
	})
	return p
}

// result is what a command line came to.
type result struct {
	out, err string
	code     int
}

// ctl runs a command line in the namespace of the test.
func (p *place) ctl(args ...string) result {
	p.t.Helper()
	return p.with("", args...)
}

// with runs a command line with something on stdin.
func (p *place) with(stdin string, args ...string) result {
	p.t.Helper()
	r := p.run(stdin, args...)
	p.t.Logf("$ trellisctl %v\n%s%s(exit code %d)", args, r.out, r.err, r.code)
	p.Expect(credentials.FindString(r.out+r.err)).To(BeEmpty(), "a credential was printed")
	return r
}

// credential runs a command line that prints a credential, which is what it is for.
func (p *place) credential(args ...string) result {
	p.t.Helper()
	r := p.run("", args...)
	p.t.Logf("$ trellisctl %v\n(hidden) %s(exit code %d)", args, r.err, r.code)
	p.Expect(credentials.FindString(r.err)).To(BeEmpty(), "a credential was printed on stderr")
	return r
}

func (p *place) run(stdin string, args ...string) result {
	p.t.Helper()
	streams, in, out, err := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	line := append([]string{"--kubeconfig", kubeconfig, "-n", p.name}, args...)
	if connects(args) && args[0] != "__complete" && !slices.Contains(args, "--allow-network") {
		line = append(line, "--allow-network", "127.0.0.0/8")
	}
	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Minute)
	defer cancel()
	code := app.Run(ctx, cli.NewEnv(streams), app.Name, line)
	return result{out: out.String(), err: err.String(), code: code}
}

// connects reports whether a command line connects to targets, which are on this machine.
func connects(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "rollout":
			return false
		case "diff":
			return true
		case "status", "tree":
			return i+1 < len(args) && strings.HasPrefix(args[i+1], "m")
		case "why":
			return i+1 < len(args) && !slices.Contains([]string{"mr", "cluster"}, args[i+1])
		case "cluster":
			return i+1 < len(args) && slices.Contains([]string{"add", "rotate", "remove"}, args[i+1])
		}
	}
	return false
}

// credentials matches what no command may print: tokens, and private keys as they are or base64-encoded.
var credentials = regexp.MustCompile(`eyJhbGciOi[A-Za-z0-9_-]+|PRIVATE KEY|LS0tLS1CRUdJTi`)

// succeeds runs a command line that has to succeed.
func (p *place) succeeds(args ...string) result {
	p.t.Helper()
	r := p.ctl(args...)
	p.Expect(r.code).To(Equal(cli.ExitOK), "%s%s", r.out, r.err)
	return r
}

// fails runs a command line that has to end with an exit code and say something on stderr.
func (p *place) fails(code int, says string, args ...string) result {
	p.t.Helper()
	r := p.ctl(args...)
	p.Expect(r.code).To(Equal(code), "%s%s", r.out, r.err)
	p.Expect(r.err).To(ContainSubstring(says))
	return r
}

// file writes a file.
func (p *place) file(name, content string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), name)
	p.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

// register registers the target under a name, as the administrator.
func (p *place) register(name string) {
	p.t.Helper()
	file := admin
	if p.own != "" {
		file = p.own
	}
	p.succeeds("cluster", "add", name, "--from-kubeconfig", file, "--wait", "--timeout", "90s")
}

// newCluster is a place whose target is another cluster than those of all other tests: controllers work for one
// registration of a cluster only (MC-4).
func newCluster(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	alias, err := testbed.StartAlias(target.RESTConfig(), uuid.NewUUID())
	p.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(alias.Stop)
	access, err := target.ServiceAccountKubeconfig(p.ctx, p.name, "admin", 12*time.Hour) // an alias takes tokens alone
	p.Expect(err).NotTo(HaveOccurred())
	p.bind("admin")
	p.Eventually(func() bool { // rights are in force a moment after they are granted
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + p.name + ":admin",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		}}
		p.Expect(target.Client.Create(p.ctx, review)).To(Succeed())
		return review.Status.Allowed
	}).Should(BeTrue())
	p.own = p.file("admin", string(alias.Through(access)))
	return p
}

// apply packs and applies manifests and waits until they are ready.
func (p *place) apply(name, manifests string, flags ...string) {
	p.t.Helper()
	file := p.file("manifests.yaml", manifests)
	p.succeeds(append([]string{"pack", "-f", file, "--name", name, "--apply", "--wait", "--timeout", "90s"}, flags...)...)
}

// configMap is a manifest in the namespace of the test.
func (p *place) configMap(name, value string) string {
	return testbed.ConfigMap(p.name, name, value)
}

func (p *place) mr(name string) *resourcesv1alpha1.ManagedResource {
	p.t.Helper()
	mr := &resourcesv1alpha1.ManagedResource{}
	p.Expect(source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: name}, mr)).To(Succeed())
	return mr
}

// eventually waits for a condition of a ManagedResource.
func (p *place) eventually(name string, conditionType resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason string) {
	p.t.Helper()
	p.Eventually(func() string {
		c := resourcesv1alpha1.GetCondition(p.mr(name).Status.Conditions, conditionType)
		if c == nil {
			return ""
		}
		return string(c.Status) + "/" + c.Reason
	}).Should(Equal(string(status) + "/" + reason))
}
