package trellisctl

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diff"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// secret is the manifest of a Secret with one value.
func (p *place) secret(name, value string) string {
	return `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"` + p.name + `","name":"` + name + `"},"stringData":{"password":"` + value + `"}}`
}

// deployment is a manifest that no controller will ever roll out here.
func (p *place) deployment(name, image string) string {
	return `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"` + p.name + `","name":"` + name + `"},"spec":{"replicas":1,
"selector":{"matchLabels":{"app":"` + name + `"}},"template":{"metadata":{"labels":{"app":"` + name + `"}},"spec":{"containers":[{"name":"app","image":"` + image + `"}]}}}}`
}

func manifests(all ...string) string { return strings.Join(all, "\n---\n") }

// report reads what diff found out.
func (p *place) report(r result) diff.Report {
	p.t.Helper()
	report := diff.Report{}
	p.Expect(json.Unmarshal([]byte(r.out), &report)).To(Succeed(), r.out)
	return report
}

// of is what diff says of an object.
func of(report diff.Report, name string) diff.Difference {
	for _, d := range report.Differences {
		if strings.HasSuffix(d.Object, "/"+name) {
			return d
		}
	}
	return diff.Difference{}
}

func TestContentGoesRoundAndRound(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.apply("addons", manifests(p.configMap("a", "1"), p.secret("s", "geheim")), "--brotli", "--immutable")
	first := p.mr("addons").Spec.SecretRefs
	p.Expect(first).To(HaveLen(1))
	p.Expect(first[0].Name).To(MatchRegexp(`^managedresource-addons-[0-9a-f]{8}$`))

	r := p.succeeds("unpack", "mr", "addons")
	p.Expect(r.out).To(And(ContainSubstring("# document 2 of key data.yaml.br in Secret "+p.name+"/"+first[0].Name), ContainSubstring("password: (hidden, 6 bytes)")))
	p.Expect(r.out).NotTo(ContainSubstring("geheim"))
	p.Expect(p.succeeds("unpack", "mr/addons", "--show-secrets").out).To(ContainSubstring("geheim"))
	p.Expect(p.succeeds("unpack", "managedresource", "addons", "-o", "name").out).To(Equal("ConfigMap " + p.name + "/a\nSecret " + p.name + "/s\n"))

	// The same content has the same name; other content has another one, and the old Secret goes when it is not needed any
	// longer.
	p.apply("addons", manifests(p.secret("s", "geheim"), p.configMap("a", "1")), "--brotli", "--immutable")
	p.Expect(p.mr("addons").Spec.SecretRefs).To(Equal(first))
	next := p.succeeds("pack", "-f", p.file("next.yaml", p.configMap("a", "2")), "--name", "addons", "--brotli", "--immutable", "-o", "name").out
	r = p.succeeds("pack", "-f", p.file("next.yaml", p.configMap("a", "2")), "--name", "addons", "--brotli", "--immutable", "--apply", "--prune", "-o", "name")
	p.Expect(r.out).To(Equal(next), "nothing but what was applied")
	p.Expect(r.err).To(ContainSubstring("secret/" + first[0].Name + " deleted"))
	p.Expect(p.mr("addons").Spec.SecretRefs).NotTo(Equal(first))
	err := source.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: first[0].Name}, &corev1.Secret{})
	p.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	p.Eventually(func() bool {
		return apierrors.IsNotFound(target.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "s"}, &corev1.Secret{}))
	}).Should(BeTrue())

	p.fails(cli.ExitNotFound, "there is no ManagedResource other", "unpack", "mr", "other")
}

func TestABrokenBundle(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.Expect(source.Client.Create(p.ctx, testbed.Content(
		p.name, "broken", "data.yaml", p.configMap("a", "1"), "{not: [yaml"))).To(Succeed())
	p.Expect(source.Client.Create(p.ctx, testbed.ManagedResource(p.name, "broken", "broken"))).To(Succeed())
	p.eventually("broken", resourcesv1alpha1.ConditionResourcesApplied, "False", "DecodingFailed")

	r := p.fails(cli.ExitFound, "document 2 of key data.yaml in Secret "+p.name+"/broken", "unpack", "mr", "broken")
	p.Expect(r.out).To(ContainSubstring("name: a"))
	r = p.ctl("diff", "mr", "broken", "-o", "json")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(p.report(r).Problems).To(ConsistOf(ContainSubstring("document 2")))
	r = p.ctl("why", "mr", "broken")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	p.Expect(r.out).To(And(ContainSubstring("DecodingFailed"), ContainSubstring("unpack mr broken")))

	p.Expect(source.Client.Create(p.ctx, testbed.ManagedResource(p.name, "lost", "does-not-exist"))).To(Succeed())
	p.eventually("lost", resourcesv1alpha1.ConditionResourcesApplied, "False", "CannotReadSecret")
	p.fails(cli.ExitNotFound, "refers to Secret does-not-exist, which does not exist", "unpack", "mr", "lost")
	p.Expect(p.ctl("why", "mr", "lost").out).To(ContainSubstring("Create the Secret of the message"))
}

func TestDiffRehearsesWhatTheHubDoes(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	content := manifests(p.configMap("a", "1"), p.configMap("b", "1"), p.secret("s", "geheim"), p.deployment("web", "web:1"))
	file := p.file("manifests.yaml", content)
	p.succeeds("pack", "-f", file, "--name", "addons", "--apply")
	p.eventually("addons", resourcesv1alpha1.ConditionResourcesApplied, "True", "ApplySucceeded")
	r := p.succeeds("diff", "mr", "addons")
	p.Expect(r.out).To(And(ContainSubstring("4 unchanged"), Not(ContainSubstring("ConfigMap "+p.name+"/a"))))
	p.Expect(p.succeeds("diff", "mr", "addons", "-o", "wide").out).To(ContainSubstring("ConfigMap " + p.name + "/a\n"))

	// Changes while the ManagedResource is suspended.
	p.succeeds("suspend", "mr", "addons", "--timeout", "90s")
	edit := func(kind, name, patch string) {
		t.Helper()
		obj := map[string]client.Object{"cm": &corev1.ConfigMap{}, "secret": &corev1.Secret{}, "deployment": &appsv1.Deployment{}}[kind]
		obj.SetNamespace(p.name)
		obj.SetName(name)
		p.Expect(target.Client.Patch(p.ctx, obj, client.RawPatch(types.StrategicMergePatchType, []byte(patch)),
			client.FieldOwner("another-client"))).To(Succeed())
	}
	edit("cm", "a", `{"data":{"key":"2","foreign":"x"},"metadata":{"labels":{"theirs":"stays"}}}`)
	edit("deployment", "web", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5,"containers":[{"name":"app","image":"web:2","env":[{"name":"FOREIGN","value":"1"}]}]}}}}`)
	edit("secret", "s", `{"stringData":{"password":"somethingelse"}}`)
	p.Expect(target.Client.Delete(p.ctx, &corev1.ConfigMap{ObjectMeta: metaOf(p.name, "b")})).To(Succeed())
	r = p.ctl("diff", "mr", "addons", "-o", "json")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	report := p.report(r)
	p.Expect(of(report, "a").Fields).To(ConsistOf(
		diff.Field{Path: "data.foreign", From: "x"}, diff.Field{Path: "data.key", From: "2", To: "1"}))
	p.Expect(of(report, "a").Notes).To(ConsistOf("taken back from another-client: .data.foreign"))
	p.Expect(of(report, "b").Action).To(Equal(diff.Create))
	p.Expect(of(report, "s").Fields).To(ConsistOf(diff.Field{Path: "data.password", From: "(hidden, 13 bytes)", To: "(hidden, 6 bytes)"}))
	p.Expect(of(report, "web").Fields).To(ConsistOf(
		diff.Field{Path: "spec.template.spec.containers[app].image", From: "web:2", To: "web:1"},
		HaveField("Path", "spec.template.spec.containers[app].env"),
		// The server's defaults replace what others set.
		diff.Field{Path: "spec.template.spec.terminationGracePeriodSeconds", From: 5.0, To: 30.0}))
	r = p.ctl("diff", "mr", "addons")
	p.Expect(r.out).To(And(ContainSubstring(`~ data.key: "2" -> "1"`), ContainSubstring("+ ConfigMap "+p.name+"/b"), Not(ContainSubstring("geheim"))))

	// The apply does the same.
	p.ctl("resume", "mr", "addons", "--timeout", "90s")
	p.Eventually(func() map[string]string {
		cm := &corev1.ConfigMap{}
		p.Expect(target.Client.Get(p.ctx, client.ObjectKey{Namespace: p.name, Name: "a"}, cm)).To(Succeed())
		return cm.Data
	}).Should(Equal(map[string]string{"key": "1"}))
	p.Eventually(func() int { return p.ctl("diff", "mr", "addons").code }).Should(Equal(cli.ExitOK))
}

func TestDiffShowsNoSecrets(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	head := func(name string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"` + p.name + `","name":"` + name + `"},`
	}
	// All of them have the same value, and servers and decoders have reasons to quote it.
	p.apply("addons", manifests(p.secret("changed", "other"), p.secret("removed", "geheim")))
	file := p.file("next.yaml", manifests(p.secret("changed", "geheim"), p.secret("new", "geheim"),
		head("no-base64")+`"data":{"password":"geheim!"}}`, head("no-string")+`"data":{"password":{"geheim":"geheim"}}}`, head("no-map")+`"data":"geheim"}`,
		head("no-type")+`"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"Z2VoZWlt"}}`,
		head("applied")+`"data":{"password":"Z2VoZWlt"},"unknown":"geheim"}`))
	discreet := func(r result) {
		t.Helper()
		p.Expect(r.out + r.err).NotTo(Or(ContainSubstring("geheim"), ContainSubstring("Z2VoZWlt")))
	}
	for _, format := range []string{"", "json", "yaml", "name"} {
		r := p.ctl("diff", "-f", file, "--name", "addons", "-o", format)
		p.Expect(r.code).To(Equal(cli.ExitFound), r.err)
		discreet(r)
	}
	report := p.report(p.ctl("diff", "-f", file, "--name", "addons", "-o", "json"))
	p.Expect(of(report, "changed").Fields).To(ConsistOf(diff.Field{Path: "data.password", From: "(hidden, 5 bytes)", To: "(hidden, 6 bytes)"}))
	p.Expect(of(report, "new").New).To(HaveKeyWithValue("data", map[string]any{"password": "(hidden, 6 bytes)"}))
	p.Expect(of(report, "no-base64").Action).To(Equal(diff.Fail))
	p.Expect(of(report, "no-type").Action).To(Equal(diff.Fail))
	p.Expect(report.Problems).To(ConsistOf(ContainSubstring("data.password of the Secret is not a string"), ContainSubstring("data of the Secret is not a map")))

	// Neither does what the hub then says of it.
	discreet(p.succeeds("pack", "-f", file, "--name", "addons", "--apply"))
	p.Eventually(func() string { return p.ctl("why", "mr", "addons").out }).Should(Or(ContainSubstring("ApplyFailed"), ContainSubstring("DecodingFailed")))
	for _, command := range []string{"why mr addons -o yaml", "events mr addons -o json", "status mr addons -o json", "tree mr addons", "unpack mr addons", "diff mr addons"} {
		discreet(p.ctl(strings.Fields(command)...))
	}
}

func TestDiffReportsRecreationsAndFailures(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	immutable := func(value string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"` + p.name + `","name":"immutable"},"immutable":true,"data":{"key":"` + value + `"}}`
	}
	kept := func(value string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"` + p.name + `","name":"kept","annotations":{"resources.gardener.cloud/keep-object":"true"}},"data":{"key":"` + value + `"}}`
	}
	other := p.deployment("other", "web:1")
	p.succeeds("pack", "-f", p.file("1.yaml", manifests(immutable("1"), kept("1"), other)), "--name", "addons", "--apply")
	p.eventually("addons", resourcesv1alpha1.ConditionResourcesApplied, "True", "ApplySucceeded")

	next := p.file("2.yaml", manifests(immutable("2"), strings.ReplaceAll(other, `"app":"other"`, `"app":"changed"`),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"`+p.name+`","name":"unknown"},"data":{"key":"1"},"strange":true}`,
		`{"apiVersion":"does.not/v1","kind":"Exist","metadata":{"namespace":"`+p.name+`","name":"x"}}`))
	r := p.ctl("diff", "-f", next, "--name", "addons", "-o", "json")
	report := p.report(r)
	p.Expect(of(report, "immutable").Action).To(Equal(diff.Recreate))
	p.Expect(of(report, "other").Action).To(Equal(diff.Fail), "a selector is immutable")
	p.Expect(of(report, "unknown").Action).To(Equal(diff.Create))
	p.Expect(of(report, "unknown").Notes).To(ConsistOf("the target does not know the field .strange: it is left out"))
	p.Expect(of(report, "x").Action).To(Equal(diff.Fail))
	p.Expect(of(report, "kept").Action).To(Equal(diff.Keep))
	p.Expect(report.Problems).To(ConsistOf(ContainSubstring("does not serve Exist.does.not")))
	p.Expect(of(report, "kept").Notes).To(ConsistOf("nothing is deleted while documents cannot be read or applied"))

	report = p.report(p.ctl("diff", "-f", p.file("3.yaml", immutable("1")), "--name", "addons", "-o", "json"))
	p.Expect(of(report, "kept").Notes).To(ConsistOf(ContainSubstring("keep-object")))
	p.Expect(of(report, "other").Action).To(Equal(diff.Delete))
}

func TestDiffBeforeAnythingIsStored(t *testing.T) {
	p := newPlace(t)
	p.register("shoot-a")
	p.apply("addons", manifests(p.configMap("a", "1"), p.configMap("b", "1")))
	next := p.file("next.yaml", manifests(p.configMap("a", "2"), p.configMap("c", "1"),
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+p.name+`-new"}}`,
		testbed.ConfigMap(p.name+"-new", "d", "1"),
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"`+p.name+`","name":"e"},"data":"no map"}`))
	r := p.ctl("diff", "-f", next, "--name", "addons", "-o", "json")
	p.Expect(r.code).To(Equal(cli.ExitFound))
	report := p.report(r)
	actions := map[string]diff.Action{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		actions[name] = of(report, name).Action
	}
	p.Expect(actions).To(Equal(map[string]diff.Action{"a": diff.Change, "b": diff.Delete, "c": diff.Create, "d": diff.Create, "e": diff.Fail}))
	p.Expect(of(report, "d").Notes).To(ConsistOf("no dry run: its namespace is created by the same ManagedResource"))

	// What pack prints can be compared as it is, by name and for a ManagedResource that does not exist yet.
	packed := p.succeeds("pack", "-f", next, "--name", "addons")
	again := p.with(packed.out, "diff", "-f", "-", "-o", "json")
	p.Expect(again.code).To(Equal(cli.ExitFound))
	p.Expect(p.report(again).Summary).To(Equal(report.Summary))
	fresh := p.ctl("diff", "-f", next, "--name", "fresh", "-o", "json")
	p.Expect(p.report(fresh).Summary).NotTo(HaveKey(diff.Delete))

	p.fails(cli.ExitUsage, "say with --name", "diff", "-f", next)
	p.fails(cli.ExitUsage, "give mr NAME, or --filename", "diff")
	p.fails(cli.ExitUsage, "exclude each other", "diff", "mr", "addons", "-f", next)
	p.Expect(p.mr("addons").Status.Resources).To(HaveLen(2), "a diff changes nothing")
}
