package trellisctl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/cmd/trellisctl/check"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/fleet"
	"github.com/trellis-hub/trellis/cmd/trellisctl/rollout"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// TestAFleet has the commands about a fleet on a real API server, with its tables.
func TestAFleet(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.apply("well", p.configMap("a", "1"))
	for _, name := range []string{"bad-1", "bad-2"} {
		p.Expect(source.Client.Create(p.ctx, testbed.Content(p.name, name, "data.yaml",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"does-not-exist","name":"x"}}`))).
			To(Succeed())
		p.Expect(source.Client.Create(p.ctx, testbed.ManagedResource(p.name, name, name))).To(Succeed())
		p.eventually(name, "ResourcesApplied", "False", "ApplyFailed")
	}

	found := fleet.Problems{}
	p.Expect(json.Unmarshal([]byte(p.ctl("problems", "-o", "json").out), &found)).To(Succeed())
	p.Expect(found.Items).To(ConsistOf(HaveValue(And(HaveField("Kind", "ManagedResource"),
		HaveField("Cause.Reason", "ApplyFailed"),
		HaveField("Cause.Message", ContainSubstring(`namespaces "does-not-exist" not found`)),
		HaveField("Cause.Unblock", ContainSubstring("Create the namespace")),
		HaveField("For", Not(BeEmpty())), HaveField("Objects", ConsistOf(p.name+"/bad-1", p.name+"/bad-2"))))))
	r := p.ctl("problems", "-A", "-o", "name")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(r.out).To(ContainSubstring("managedresource.resources.gardener.cloud/" + p.name + "/bad-1\n"))

	// What it prints is what other commands take.
	r = p.ctl("why", "managedresource.resources.gardener.cloud/"+p.name+"/bad-1", "-n", "default", "-o", "json")
	p.Expect(r.out).To(ContainSubstring(`"reason": "ApplyFailed"`))

	overview := fleet.Overview{}
	p.Eventually(func() string { // other tests have clusters, too
		p.Expect(json.Unmarshal([]byte(p.ctl("status", "-o", "json").out), &overview)).To(Succeed())
		return overview.Hub.Leader
	}).ShouldNot(BeEmpty())
	p.Expect(overview.Hub.Working).To(BeTrue())
	p.Expect(overview.Hub.Version).NotTo(BeEmpty())
	p.Expect(overview.ManagedResources.Total).To(BeNumerically(">=", 3))

	r = p.succeeds("get", "mr")
	p.Expect(r.out).To(MatchRegexp(
		`(?s)NAME +CLASS +READY +REASON.*bad-1 .*False +ApplyFailed.*bad-2 .*well +- +True +Ready`))
	p.Expect(p.succeeds("get", "mr", "-A", "--not-ready").out).
		To(And(MatchRegexp(p.name+` +bad-1 `), Not(MatchRegexp(p.name+` +well `))))
	p.Expect(p.succeeds("get", "mr", "-o", "custom-columns=N:.metadata.name", "--no-headers", "--sort-by",
		".metadata.name").out).To(Equal("bad-1\nbad-2\nwell\n"))
	p.Expect(p.succeeds("get", "cluster", "-o", "jsonpath={.items[*].metadata.name}").out).To(Equal("shoot-a"))
	p.Expect(p.succeeds("top", "-o", "name").out).To(Equal("targetcluster.hub.gardener.cloud/shoot-a\n"))

	p.succeeds("wait", "mr", "well")
	p.fails(cli.ExitTimeout, "gave up after 1s: 0 of 2: "+p.name+"/bad-1: Ready is False, ApplyFailed", "wait", "mr",
		"bad-1", "bad-2", "--timeout", "1s")
	p.succeeds("wait", "mr", "bad-1", "--for", "condition=ResourcesApplied=False")
	p.Expect(source.Client.Delete(p.ctx, testbed.ManagedResource(p.name, "bad-2"))).To(Succeed())
	p.Expect(p.succeeds("wait", "mr", "bad-2", "--for", "delete", "--timeout", "90s").out).
		To(ContainSubstring("bad-2 deleted"))
	p.fails(cli.ExitNotFound, "there is no ManagedResource bad-3", "wait", "mr", "bad-3")
}

func TestRolloutStatus(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.apply("addons", p.configMap("a", "1"))
	p.Expect(p.succeeds("rollout", "status", "mr", "addons", "--watch").out).
		To(HavePrefix("1 of 1 ManagedResource have the change"))

	// What changes while it is suspended is not applied.
	p.succeeds("suspend", "mr", "addons", "--timeout", "90s")
	file := p.file("manifests.yaml", p.configMap("a", "2"))
	p.succeeds("pack", "-f", file, "--name", "addons", "--apply")
	progress := rollout.Progress{}
	r := p.ctl("rollout", "status", "mr", "addons", "-o", "json")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(json.Unmarshal([]byte(r.out), &progress)).To(Succeed())
	p.Expect(progress.Items).To(ConsistOf(And(HaveField("State", rollout.Pending),
		HaveField("Reason", "ManagedResourceIgnored"))))
	p.fails(cli.ExitTimeout, "gave up after 1s: 0 of 1 ManagedResource have the change: 1 pending", "rollout",
		"status", "mr", "addons", "--watch", "--timeout", "1s")

	p.succeeds("resume", "mr", "addons", "--timeout", "90s")
	p.succeeds("rollout", "status", "mr", "addons", "--watch", "--timeout", "90s")
	secrets := &corev1.SecretList{}
	p.Expect(source.Client.List(p.ctx, secrets, client.InNamespace(p.name),
		client.HasLabels{"trellisctl.hub.gardener.cloud/packed-for"})).To(Succeed())
	p.Expect(secrets.Items).NotTo(BeEmpty())
	p.Expect(p.succeeds("rollout", "status", "secret", secrets.Items[0].Name).out).
		To(HavePrefix("1 of 1 ManagedResource have the change"))
	p.fails(cli.ExitNotFound, "nothing is to have this change", "rollout", "status", "secret", "nothing")
}

func TestCheckAndVersion(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	results := struct{ Checks []check.Result }{}
	r := p.succeeds("check", "-o", "json", "--allow-network", "127.0.0.0/8")
	p.Expect(json.Unmarshal([]byte(r.out), &results)).To(Succeed())
	p.Expect(results.Checks).To(ContainElements(
		And(HaveField("Check", "hub"), HaveField("Outcome", "ok")),
		And(HaveField("Check", "versions"), HaveField("Outcome", "ok")),
		And(HaveField("Check", "CRD of ManagedResource"), HaveField("Outcome", "ok")),
		And(HaveField("Check", "clusters"), HaveField("Message", "1 of 1 answer"))))
	p.Expect(results.Checks).NotTo(ContainElement(HaveField("Check", "columns of ManagedResources")),
		"the CRD is that of the chart")

	r = p.ctl("check") // without --allow-network, the target is one that is not connected to
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(r.out).To(MatchRegexp(`failed +cluster ` + p.name + `/shoot-a: .*--allow-network`))

	raw, err := source.ClientCertKubeconfig("unprivileged", nil, time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	r = p.ctl("--kubeconfig", p.file("unprivileged", string(raw)), "check", "--targets=false")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(r.out).To(And(MatchRegexp(`failed +right to get, list targetclusters in namespace `+p.name),
		MatchRegexp(`warning +right to list events`)))

	r = p.succeeds("version")
	p.Expect(r.out).To(MatchRegexp(`trellisctl dev .*\nhub dev\nsource cluster v1\.`))
	p.Expect(p.ctl("version", "--hub-lease", "another").out).
		To(ContainSubstring("hub unknown (there is no Lease trellis/another)"))
}

// TestAccess runs with variables of its own, so not beside others.
func TestAccess(t *testing.T) {
	p := another(t)
	p.succeeds("cluster", "add", "shoot-a", "--from-kubeconfig", admin, "--create-service-account",
		"--service-account", p.name+"/trellis", "--wait", "--timeout", "90s")
	t.Setenv("TRELLISCTL_ALLOW_NETWORK", "127.0.0.0/8")

	// A token of the account of the registration, and of another one with fewer rights.
	streams := p.credential("kubeconfig", "shoot-a")
	p.Expect(streams.err).To(MatchRegexp(`A token of service account ` + p.name +
		`/trellis, which expires at .* \(in (14|15)m`))
	p.Expect(p.who(streams.out)).To(Equal("system:serviceaccount:" + p.name + ":trellis"))
	p.Expect(target.Client.Create(p.ctx, &corev1.ServiceAccount{ObjectMeta: metaOf(p.name, "viewer")})).To(Succeed())
	streams = p.credential("kubeconfig", p.name+"/shoot-a", "--service-account", p.name+"/viewer", "--duration",
		"10m", "-o", "json")
	p.Expect(p.who(streams.out)).To(Equal("system:serviceaccount:" + p.name + ":viewer"))
	p.Expect(p.credential("kubeconfig", "shoot-a", "--service-account", p.name+"/missing").code).
		To(Equal(cli.ExitNotFound))

	// kubectl gets it from memory, and its exit code is passed on.
	directory := t.TempDir()
	p.Expect(os.WriteFile(filepath.Join(directory, "kubectl"),
		fmt.Appendf(nil, "#!/bin/sh\ncat \"$KUBECONFIG\" > %s/seen\ncat \"$KUBECONFIG\" > /dev/null\n"+
			"echo \"$KUBECONFIG $*\"\nexit 9\n", directory), 0o700)).To(Succeed())
	t.Setenv("PATH", directory+":"+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", "/somewhere/else")
	r := p.ctl("kubectl", "shoot-a", "--", "get", "pods", "-n", "x")
	p.Expect(r.code).To(Equal(9))
	p.Expect(r.out).To(MatchRegexp(`^(/proc/self/fd/3|.*trellisctl-\S+) get pods -n x\n$`))
	seen, err := os.ReadFile(filepath.Join(directory, "seen"))
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(p.who(string(seen))).To(Equal("system:serviceaccount:" + p.name + ":trellis"))

	// A registration with the certificate of an administrator has no account.
	p.register("shoot-b")
	p.Expect(p.credential("kubeconfig", "shoot-b").err).To(ContainSubstring("--service-account"))
	t.Setenv("PATH", t.TempDir())
	p.fails(cli.ExitNotFound, "kubectl is not on the PATH", "kubectl", "shoot-a", "--", "get", "pods")
}

// who returns the name of the user of a kubeconfig in the target.
func (p *place) who(raw string) string {
	p.t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(raw))
	p.Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(config)
	p.Expect(err).NotTo(HaveOccurred())
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(p.ctx,
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	p.Expect(err).NotTo(HaveOccurred())
	return review.Status.UserInfo.Username
}

func TestSeveralAtOnce(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	for _, name := range []string{"one", "two"} {
		p.apply(name, p.configMap(name, "1"))
	}
	p.Expect(p.succeeds("suspend", "mr", "one", "two", "--timeout", "90s").out).
		To(Equal("managedresource/one suspended\nmanagedresource/two suspended\n"))
	p.Expect(source.Client.Patch(p.ctx, p.mr("one"), client.RawPatch("application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"group":"x"}}}`)))).To(Succeed())
	p.Expect(p.succeeds("resume", "mr", "-l", "group=x", "--timeout", "90s").out).
		To(Equal("managedresource/one resumed\n"))
	p.Expect(p.succeeds("resume", "mr", p.name+"/two", "-n", "default", "--timeout", "90s").out).
		To(Equal("managedresource/" + p.name + "/two resumed\n"))
	p.Expect(p.succeeds("reconcile", "mr/one", "mr/two", "--timeout", "90s", "-o", "name").out).
		To(HaveLen(2 * len("managedresource.resources.gardener.cloud/one\n")))
	r := p.succeeds("status", "mr", "one", "two", "-o", "json")
	reports := struct{ Items []struct{ Name string } }{}
	p.Expect(json.Unmarshal([]byte(r.out), &reports)).To(Succeed())
	p.Expect(reports.Items).To(HaveLen(2))
	p.Expect(p.succeeds("tree", "mr", "one", "two").out).To(And(ContainSubstring("/one (class"),
		ContainSubstring("/two (class")))
	r = p.fails(cli.ExitNotFound, "Error: mr "+p.name+"/three: there is no ManagedResource three", "status", "mr",
		"three", "one")
	p.Expect(r.out).To(ContainSubstring("/one (class"), "the others are shown")
}

// TestWhoMayOnlyReadANamespace: status without arguments shows what may be seen.
func TestWhoMayOnlyReadANamespace(t *testing.T) {
	p := newPlace(t)
	raw, err := source.ClientCertKubeconfig("tenant-"+p.name, nil, time.Hour)
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(source.Client.Create(p.ctx, &rbacv1.Role{ObjectMeta: metaOf(p.name, "tenant"),
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"},
			Verbs: []string{"get", "list"}}}})).To(Succeed())
	p.Expect(source.Client.Create(p.ctx, &rbacv1.RoleBinding{ObjectMeta: metaOf(p.name, "tenant"),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "tenant-" + p.name}}})).To(Succeed())
	tenant := p.file("tenant", string(raw))
	p.Eventually(func() int { return p.ctl("--kubeconfig", tenant, "status").code }).Should(Equal(cli.ExitOK))
	r := p.succeeds("--kubeconfig", tenant, "status")
	p.Expect(r.err).To(ContainSubstring("Only namespace " + p.name + " is shown"))
	p.Expect(r.out).To(ContainSubstring("ManagedResources:  0"))
	p.fails(cli.ExitRefused, "is forbidden", "--kubeconfig", tenant, "status", "-A")
	p.fails(cli.ExitRefused, "is forbidden", "--kubeconfig", tenant, "problems", "-A")
}
