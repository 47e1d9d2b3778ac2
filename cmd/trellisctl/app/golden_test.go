package app_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

var update = flag.Bool("update", false, "write what commands print into the golden files")

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	g := NewWithT(t)
	file := filepath.Join("testdata", name)
	if *update {
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte(got), 0o644)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(string(want)), "run the test with -update if this is meant")
}

// now is the time of all commands here.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// run runs a command line against a source with some objects, and returns everything that it said.
func run(t *testing.T, name string, objects []client.Object, args ...string) string {
	t.Helper()
	return runAt(t, name, func() client.WithWatch { return sourceOf(objects) }, args...)
}

// sourceOf is a source with some objects.
func sourceOf(objects []client.Object) client.WithWatch {
	index := func(f func(*corev1.Event) string) client.IndexerFunc {
		return func(o client.Object) []string {
			e, _ := o.(*corev1.Event)
			return []string{f(e)}
		}
	}
	name := func(o client.Object) []string { return []string{o.GetName()} }
	return fake.NewClientBuilder().WithScheme(cli.Scheme()).WithObjects(objects...).
		WithStatusSubresource(&hubv1alpha1.TargetCluster{}, &resourcesv1alpha1.ManagedResource{}).
		WithIndex(&corev1.Event{}, "involvedObject.uid",
			index(func(e *corev1.Event) string { return string(e.InvolvedObject.UID) })).
		WithIndex(&corev1.Event{}, "involvedObject.name",
			index(func(e *corev1.Event) string { return e.InvolvedObject.Name })).
		WithIndex(&corev1.Event{}, "involvedObject.kind",
			index(func(e *corev1.Event) string { return e.InvolvedObject.Kind })).
		WithIndex(&resourcesv1alpha1.ManagedResource{}, metav1.ObjectNameField, name).
		WithIndex(&corev1.Secret{}, metav1.ObjectNameField, name).Build()
}

// runAt runs a command line against a source, and returns everything that it said.
func runAt(t *testing.T, name string, source func() client.WithWatch, args ...string) string {
	t.Helper()
	g := NewWithT(t)
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	in.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: motd, namespace: default}\ndata: {motd: hello}\n")
	env := cli.NewEnv(streams)
	env.Clock = clocktesting.NewFakeClock(now)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x","user":"x"}}],
"clusters":[{"name":"x","cluster":{"server":"https://source.invalid"}}],"users":[{"name":"x","user":{"token":"x"}}]}`), 0o600)).To(Succeed())
	line := append([]string{"--kubeconfig", kubeconfig, "--namespace", "shoot--foo--a"}, args...)
	env.NewTables = nil
	env.NewClient = func(*rest.Config) (client.WithWatch, error) { return source(), nil }
	code := app.Run(context.Background(), env, name, line)
	said := out.String()
	if errOut.Len() > 0 {
		said += "--- stderr\n" + errOut.String()
	}
	return said + "--- exit code " + string(rune('0'+code)) + "\n"
}

func TestHelp(t *testing.T) {
	for _, name := range []string{app.Name, "kubectl-trellis"} {
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		var walk func(*cobra.Command, []string)
		walk = func(c *cobra.Command, path []string) {
			if !c.IsAvailableCommand() && len(path) > 0 || c.Name() == "completion" {
				return
			}
			if name == app.Name || len(path) == 0 || c.Name() == "add" {
				file := strings.Join(append([]string{"help", name}, path...), "-") + ".txt"
				t.Run(file, func(t *testing.T) {
					golden(t, file, run(t, name, nil, append(path[:len(path):len(path)], "--help")...))
				})
			}
			for _, sub := range c.Commands() {
				walk(sub, append(path[:len(path):len(path)], sub.Name()))
			}
		}
		walk(app.New(cli.NewEnv(streams), name), nil)
	}
}

// read reads the objects of a golden test.
func read(t *testing.T, file string) []client.Object {
	t.Helper()
	g := NewWithT(t)
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	g.Expect(err).NotTo(HaveOccurred())
	kinds := map[string]func() client.Object{
		"Secret": func() client.Object { return &corev1.Secret{} }, "Event": func() client.Object { return &corev1.Event{} },
		"Lease": func() client.Object { return &coordinationv1.Lease{} }, "TargetCluster": func() client.Object { return &hubv1alpha1.TargetCluster{} },
		"ManagedResource": func() client.Object { return &resourcesv1alpha1.ManagedResource{} },
	}
	var objects []client.Object
	for _, document := range strings.Split(string(raw), "\n---\n") {
		head := metav1.TypeMeta{}
		g.Expect(yaml.Unmarshal([]byte(document), &head)).To(Succeed())
		obj := kinds[head.Kind]()
		g.Expect(yaml.UnmarshalStrict([]byte(document), obj)).To(Succeed(), document)
		objects = append(objects, obj)
	}
	return objects
}

func TestOutput(t *testing.T) {
	for name, args := range map[string]string{
		"cluster-list":          "cluster list",
		"cluster-list-all-wide": "cluster list -A -o wide",
		"cluster-list-yaml":     "cluster list -o yaml -l hub.gardener.cloud/status=unhealthy",
		"cluster-list-name":     "cluster list -o name",
		"cluster-list-none":     "cluster list -n nothing",
		"cluster-list-labels":   "cluster list -l ===",
		"cluster-describe":      "cluster describe shoot-a",
		"cluster-describe-down": "cluster describe shoot-b",
		"cluster-describe-wide": "cluster describe shoot-a -o wide",
		"cluster-describe-none": "cluster describe shoot-x",
		"cluster-remove-needed": "cluster remove shoot-a",
		"why-mr":                "why mr addons",
		"why-mr-json":           "why mr addons -o json",
		"why-mr-well":           "why mr/well",
		"why-mr-target":         "why mr stuck",
		"why-cluster":           "why cluster shoot-b",
		"why-mr-wide":           "why mr addons -o wide",
		"why-mr-name":           "why mr/addons -o name",
		"why-nothing":           "why mr nothing",
		"events":                "events mr addons",
		"events-wide":           "events mr addons -o wide",
		"events-warnings-json":  "events mr addons --warnings -o json",
		"events-none":           "events mr well",
		"events-name":           "events mr addons -o name",
		"events-deleted":        "events mr deleted",
		"events-typo":           "events mr addonz",
		"reconcile-asked":       "reconcile mr well --wait=false -o yaml",
		"unpack":                "unpack mr addons",
		"unpack-show-secrets":   "unpack mr addons --show-secrets -o json",
		"unpack-name":           "unpack mr addons -o name",
		"pack":                  "pack -f - --name motd --class seed --keep-objects --for-cluster shoot-a --inject-labels a=b --immutable",
		"pack-name":             "pack -f - --name motd --brotli -o name",
		"pack-bad":              "pack -f - --name Motd",
		"status-unreachable":    "status mr addons --connect-timeout 1s --allow-network 127.0.0.0/8",
		"status-refused":        "status mr addons",
		"status-no-target":      "status mr strange",
		"suspended-reconcile":   "reconcile mr suspended",
		"config-convert-bad":    "config convert -f -",
		"config-typo":           "config covert",
		"options":               "options",
		"typo":                  "stats mr addons",
		"typo-below":            "cluster lst",
		"version":               "version",
		"version-client-name":   "version --client -o name",
		"why-several":           "why mr addons well cluster/shoot-b",
		"why-several-kinds":     "why mr/addons cluster/shoot-b",
		"why-all-json":          "why mr -A -o json",
		"why-elsewhere":         "why mr shoot--foo--a/addons -n other",
		"why-labels-none":       "why mr -l a=b",
		"why-names-and-all":     "why mr addons -A",
		"events-several":        "events mr addons shoot--foo--a/well",
		"get-mr":                "get mr",
		"get-mr-wide":           "get mr -A -o wide",
		"get-mr-named-yaml":     "get mr well -o yaml",
		"get-mr-jsonpath":       "get mr -o jsonpath={.items[*].metadata.name}",
		"get-mr-columns":        "get mr -A -o custom-columns=NAME:.metadata.name,CLASS:.spec.class --no-headers",
		"get-mr-sorted":         "get mr --sort-by .metadata.creationTimestamp",
		"get-mr-sorted-by-none": "get mr --sort-by .spec.nothing",
		"get-mr-missing":        "get mr nothing",
		"get-mr-none":           "get mr -n nothing --not-ready",
		"get-mr-named-none":     "get mr well --not-ready -o jsonpath={.items}",
		"why-selected-one-json": "why mr -l app=x -o json",
		"get-cluster":           "get cluster -A",
		"get-cluster-name":      "get cluster -A -o name --not-ready",
		"get-format":            "get mr -o xml",
		"get-pods":              "get pods",
		"top":                   "top",
		"top-drift":             "top -A --sort-by drift --count 1 -o name",
		"top-typo":              "top --sort-by size",
		"wait-ready":            "wait mr well -o name",
		"wait-for-typo":         "wait mr well --for ready",
		"rollout-none":          "rollout status mr nothing",
		"rollout-unnamed":       "rollout status mr -A",
		"kubeconfig-refused":    "kubeconfig shoot-a",
		"kubeconfig-none":       "kubeconfig shoot-x",
		"kubeconfig-duration":   "kubeconfig shoot-a --duration 1m",
		"kubectl-no-dash":       "kubectl shoot-a get pods",
		"describe-nothing":      "cluster describe",
		"add-no-file":           "cluster add shoot-x --from-kubeconfig testdata/does-not-exist",
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join("output", name+".txt"), "$ trellisctl "+args+"\n"+run(t, app.Name, read(t, "source.yaml"), strings.Fields(args)...))
		})
	}
}

// TestOutputWithASelectorOfRegistrations: the hub leaves shoot-a out, uses shoot-b, and knows no cluster shoot-d.
func TestOutputWithASelectorOfRegistrations(t *testing.T) {
	objects := append(read(t, "source.yaml"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot--foo--a"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot--foo--a",
			Name: "shoot-d-kubeconfig", Labels: map[string]string{hubv1alpha1.ClusterNameLabel: "shoot-d"}}})
	for _, o := range objects {
		if o.GetName() == "shoot-b-kubeconfig" {
			o.GetLabels()["tier"] = "prod"
		}
		if lease, ok := o.(*coordinationv1.Lease); ok {
			lease.Annotations = map[string]string{
				hubv1alpha1.RegistrationSelectorAnnotation: "example.com/hub!=no,tier in (prod,test)"}
		}
	}
	kubeconfig := filepath.Join("testdata", "target.kubeconfig")
	for name, args := range map[string]string{
		"selector-describe":         "cluster describe shoot-a",
		"selector-describe-used":    "cluster describe shoot-b",
		"selector-describe-unknown": "cluster describe shoot-d",
		"selector-list":             "cluster list",
		"selector-why":              "why cluster shoot-a",
		"selector-why-used":         "why cluster shoot-b",
		"selector-why-unknown":      "why cluster shoot-d",
		"selector-add":              "cluster add shoot-x --from-kubeconfig " + kubeconfig,
		"selector-add-others":       "cluster add shoot-x --labels tier=dev --from-kubeconfig " + kubeconfig,
		"selector-add-reserved": "cluster add shoot-x --labels cluster.x-k8s.io/cluster-name=a --from-kubeconfig " +
			kubeconfig,
		"selector-add-faulty": "cluster add shoot-x --labels a=.b --from-kubeconfig " + kubeconfig,
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, filepath.Join("output", name+".txt"),
				"$ trellisctl "+args+"\n"+run(t, app.Name, objects, strings.Fields(args)...))
		})
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"why |":                       "mr cluster access csr node service configmap secret",
		"why mr |":                    "addons strange stuck suspended well",
		"why ManagedResource |":       "addons strange stuck suspended well",
		"why cluster |":               "shoot-a shoot-b",
		"why mr addons |":             "strange stuck suspended well",
		"get |":                       "mr cluster",
		"get cluster |":               "shoot-a shoot-b",
		"wait mr |":                   "addons strange stuck suspended well",
		"kubeconfig |":                "shoot-a shoot-b",
		"top --sort-by |":             "objects drift managedresources notready nodes rtt",
		"why pods |":                  "",
		"why mr/|":                    "mr/addons mr/strange mr/stuck mr/suspended mr/well",
		"status |":                    "mr",
		"status cluster |":            "",
		"status mr addons --target |": "shoot-a shoot-b source",
		"status mr addons -o |":       "json yaml wide name",
		"diff -f - --name |":          "addons strange stuck suspended well",
		"pack -f - --name addons --for-cluster |": "shoot-a shoot-b",
		"pack |":                            "",
		"config |":                          "convert",
		"config convert --target-cluster |": "shoot-a shoot-b",
		"cluster |":                         "add describe list remove rotate",
		"cluster add |":                     "",
		"cluster add x --from-kubeconfig x --wait |": "",
		"cluster describe |":                         "shoot-a shoot-b",
		"cluster rotate shoot-a |":                   "",
		"cluster list |":                             "",
		"--context |":                                "x",
		"--namespace |":                              "shoot--foo--a",
	} {
		t.Run(line, func(t *testing.T) {
			g := NewWithT(t)
			before, word, _ := strings.Cut(strings.TrimSuffix(line, "|"), "mr/")
			args := append([]string{"__completeNoDesc"}, strings.Fields(before)...)
			if strings.Contains(line, "mr/") {
				word = "mr/" + word
			}
			objects := append(read(t, "source.yaml"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shoot--foo--a"}})
			said, _, _ := strings.Cut(run(t, app.Name, objects, append(args, word)...), "---")
			var offered []string
			directive := ""
			for line := range strings.Lines(said) {
				if d, is := strings.CutPrefix(strings.TrimSpace(line), ":"); is {
					directive = d
				} else {
					offered = append(offered, strings.TrimSpace(line))
				}
			}
			g.Expect(strings.Join(offered, " ")).To(Equal(want))
			g.Expect(directive).To(Equal("4"), "and no names of files")
		})
	}
}

func TestKubectlAsksForCompletions(t *testing.T) {
	g := NewWithT(t)
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	g.Expect(app.Main(context.Background(), []string{"/usr/bin/kubectl_complete-trellis", "why", ""}, streams)).To(Equal(cli.ExitOK))
	g.Expect(out.String()).To(Equal(
		"mr\ncluster\naccess\ncsr\nnode\nservice\nconfigmap\nsecret\n:4\n"))
}

func TestThePluginSpeaksOfItself(t *testing.T) {
	for name, command := range map[string]string{app.Name: "trellisctl", "kubectl-trellis": "kubectl trellis"} {
		g := NewWithT(t)
		g.Expect(run(t, name, read(t, "source.yaml"), "why", "mr", "suspended")).To(ContainSubstring("Unblock:  " + command + " -n shoot--foo--a resume mr suspended\n"))
		g.Expect(run(t, name, nil, "why")).To(ContainSubstring("See '" + command + " why --help'."))
	}
}

func TestAHubThatDoesNotWorkIsTheCauseOfEverything(t *testing.T) {
	objects := read(t, "source.yaml")
	for _, o := range objects {
		if lease, ok := o.(*coordinationv1.Lease); ok {
			lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(-time.Hour)))
		}
	}
	for _, subject := range []string{"mr addons", "mr well", "cluster shoot-a"} {
		NewWithT(t).Expect(run(t, app.Name, objects, strings.Fields("why "+subject)...)).To(ContainSubstring("NoHubWorks"))
	}
}

func TestEveryCommandHasTheFormatsForPrograms(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	looked := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		without := []string{"options", "completion", "help", "kubectl"}
		if c.HasSubCommands() || !c.IsAvailableCommand() || slices.Contains(without, c.Name()) ||
			c.Parent().Name() == "completion" {
			return
		}
		looked++
		flag := c.Flags().Lookup("output")
		g := NewWithT(t)
		g.Expect(flag).NotTo(BeNil(), c.CommandPath())
		for _, format := range []string{"json", "yaml", "name"} {
			g.Expect(flag.Usage).To(ContainSubstring(format), c.CommandPath())
		}
	}
	walk(app.New(cli.NewEnv(streams), app.Name))
	NewWithT(t).Expect(looked).To(Equal(25))
}

func TestTheReferenceIsComplete(t *testing.T) {
	g := NewWithT(t)
	page := string(app.Reference())
	for _, command := range []string{"cluster add", "cluster remove", "pack", "unpack", "status", "tree", "diff", "why",
		"events", "reconcile", "suspend", "resume", "config convert", "problems", "top", "get", "wait", "check",
		"version",
		"kubeconfig", "kubectl", "rollout status"} {
		g.Expect(page).To(ContainSubstring("\n## " + command + "\n"))
	}
	g.Expect(page).NotTo(ContainSubstring(os.Getenv("HOME") + "/"))
}
