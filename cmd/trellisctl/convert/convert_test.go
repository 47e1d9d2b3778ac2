package convert

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

var update = flag.Bool("update", false, "write what is printed into the golden files")

const (
	head = "apiVersion: resourcemanager.config.gardener.cloud/v1alpha1\nkind: ResourceManagerConfiguration\n"
	// ofShoot is a resource manager with another target than the source.
	ofShoot = head + "targetClientConnection: {kubeconfig: /kubeconfig}\n"
)

// said runs "config convert" with something on stdin, and returns what it prints.
func said(t *testing.T, stdin string, args ...string) (out, errOut string, err error) {
	t.Helper()
	streams, in, stdout, stderr := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	env := cli.NewEnv(streams)
	env.Flags.Namespace = ptr.To("shoot--foo--a")
	command := New(env)
	command.SetArgs(append([]string{"convert", "-f", "-"}, args...))
	command.SilenceErrors, command.SilenceUsage = true, true
	err = command.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestGardenersConfigurations(t *testing.T) {
	for name, test := range map[string]struct {
		input string
		args  []string
	}{
		"shoot":                  {"shoot.yaml", nil},
		"shoot-comments":         {"shoot.yaml", []string{"--comments"}},
		"shoot-standby-values":   {"shoot.yaml", []string{"--standby", "--values"}},
		"shoot-target":           {"shoot.yaml", []string{"--target-cluster", "shoot-a"}},
		"shoot-target-comments":  {"shoot.yaml", []string{"--target-cluster", "shoot-a", "--comments"}},
		"shoot-names":            {"shoot.yaml", []string{"-o", "name"}},
		"seed":                   {"seed.yaml", nil},
		"seed-comments":          {"seed.yaml", []string{"--comments"}},
		"seed-values-json":       {"seed.yaml", []string{"--values", "-o", "json"}},
		"seed-another-namespace": {"seed.yaml", []string{"--hub-namespace", "garden"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			input, err := os.ReadFile(filepath.Join("testdata", test.input))
			g.Expect(err).NotTo(HaveOccurred())
			out, errOut, err := said(t, string(input), test.args...)
			g.Expect(err).NotTo(HaveOccurred())
			got := "$ trellisctl config convert -f " + strings.Join(append([]string{test.input}, test.args...), " ") + "\n" +
				out +
				"--- stderr\n" + errOut
			file := filepath.Join("testdata", "golden", name+".txt")
			if *update {
				g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
				g.Expect(os.WriteFile(file, []byte(got), 0o644)).To(Succeed())
			}
			want, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(string(want)), "run the test with -update if this is meant")
		})
	}
}

// leaves are the paths of everything that a resource manager's configuration can say.
func leaves(of reflect.Type, path string, found map[string]reflect.Type) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[metav1.Duration]() {
		found[path] = of
		return
	}
	for f := range of.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if options == "inline" {
			leaves(f.Type, path, found)
			continue
		}
		if of.Name() == "LabelSelector" {
			found[path] = of
			return
		}
		leaves(f.Type, strings.TrimPrefix(path+"."+name, "."), found)
	}
}

// sample is a value that is not a default. Some can only be a few.
func sample(path string, of reflect.Type) any {
	switch path {
	case "logLevel":
		return "debug"
	case "logFormat":
		return "text"
	case "leaderElection.leaseDuration":
		return "30s"
	case "leaderElection.renewDeadline":
		return "11s"
	case "leaderElection.leaderElect":
		return false
	case "server.healthProbes.bindAddress", "server.metrics.bindAddress":
		return "127.0.0.1"
	case "webhooks.projectedTokenMount.expirationSeconds":
		return 7200
	}
	switch of {
	case reflect.TypeFor[metav1.Duration]():
		return "3s"
	case reflect.TypeFor[metav1.LabelSelector]():
		return map[string]any{"matchLabels": map[string]any{"app": "x"}}
	case reflect.TypeFor[[]metav1.LabelSelector]():
		return []any{map[string]any{"matchLabels": map[string]any{"app": "x"}}}
	case reflect.TypeFor[[]corev1.Toleration]():
		return []any{map[string]any{"key": "x"}}
	case reflect.TypeFor[[]string]():
		return []any{"one", "two"}
	case reflect.TypeFor[map[string]string]():
		return map[string]any{"a": "b"}
	}
	switch of.Kind() {
	case reflect.Bool:
		return true
	case reflect.String:
		return "value"
	default:
		return 33
	}
}

// with is a configuration with one more key.
func with(g *WithT, base, path string, value any) string {
	var tree map[string]any
	g.Expect(yaml.Unmarshal([]byte(base), &tree)).To(Succeed())
	at := tree
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		below, ok := at[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			at[name] = below
		}
		at = below
	}
	at[names[len(names)-1]] = value
	out, err := yaml.Marshal(tree)
	g.Expect(err).NotTo(HaveOccurred())
	return string(out)
}

// Every key that a resource manager knows is taken over, or a note says what became of it.
func TestNoKeyIsLostSilently(t *testing.T) {
	found := map[string]reflect.Type{}
	leaves(reflect.TypeFor[configuration](), "", found)
	NewWithT(t).Expect(len(found)).To(BeNumerically(">", 90))
	found["controllers.managedResources.syncPeriod"] = reflect.TypeFor[metav1.Duration]()
	for path, of := range found {
		if path == "apiVersion" || path == "kind" {
			continue
		}
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			base := ofShoot
			if strings.HasPrefix(path, "controllers.networkPolicy.ingressControllerSelector") {
				base = with(g, base, "controllers.networkPolicy.ingressControllerSelector",
					map[string]any{"namespace": "ingress", "podSelector": map[string]any{}})
			}
			if strings.HasPrefix(path, "webhooks.kubernetesServiceHost.") {
				base = with(g, base, "webhooks.kubernetesServiceHost.host", "api.example")
			}
			value := sample(path, of)
			if path == "controllers.garbageCollector.syncPeriod" ||
				path == "controllers.networkPolicy.ingressControllerSelector.namespace" {
				value = map[bool]any{true: "45s", false: "elsewhere"}[strings.HasSuffix(path, "syncPeriod")]
			}
			if block := parentOf(path); strings.Count(path, ".") > 1 && found[block+".enabled"] != nil &&
				!strings.HasSuffix(path, ".enabled") {
				base = with(g, base, block+".enabled", true)
			}
			if strings.Contains(path, "ingressControllerSelector") {
				base = with(g, base, "controllers.networkPolicy.enabled", true)
			}
			full := with(g, base, path, value)
			for _, o := range []options{
				{HubNamespace: "trellis"},
				{Namespace: "value", TargetCluster: "a"},
			} {
				before, err := convert([]byte(base), o)
				g.Expect(err).NotTo(HaveOccurred(), base)
				after, err := convert([]byte(full), o)
				g.Expect(err).NotTo(HaveOccurred(), full)
				if o.TargetCluster != "" && !strings.HasPrefix(path, "controllers.") &&
					!strings.HasPrefix(path, "webhooks.") {
					continue // it is about the hub
				}
				if o.TargetCluster != "" && found[parentOf(path)+".enabled"] == nil {
					continue
				}
				g.Expect(hasEffect(g, before, after, path)).To(BeTrue(), "%s\n%s\n%v", full, text(g, after), after.notes)
			}
			// A resource manager of a seed has no other target.
			_, err := convert([]byte(strings.ReplaceAll(full, "/kubeconfig", `""`)), options{HubNamespace: "trellis"})
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// hasEffect reports whether a key changed the result, or has a note.
func hasEffect(g *WithT, before, after *result, path string) bool {
	if text(g, before) != text(g, after) {
		return true
	}
	for _, n := range after.notes {
		if n.Key != "" && (n.Key == path || strings.HasPrefix(path, n.Key+".")) {
			return true
		}
	}
	return fmt.Sprint(before.notes) != fmt.Sprint(after.notes)
}

func text(g *WithT, r *result) string {
	out, err := r.YAML(nil)
	g.Expect(err).NotTo(HaveOccurred())
	return string(out)
}

func TestControllers(t *testing.T) {
	type c = hubv1alpha1.TargetControllers
	duration := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	on, off := ptr.To(true), ptr.To(false)
	shoot := []string{"gardener"}
	for name, test := range map[string]struct {
		controllers string
		class       c
		// target is what a TargetCluster says of the same controllers; all others are off.
		target c
		notes  []string
	}{
		"nothing": {controllers: "{}"},
		"one that is off is not mentioned in the class": {
			controllers: "{tokenRequestor: {enabled: false, concurrentSyncs: 7}}",
			notes:       []string{"tokenRequestor, "},
		},
		"the garbage collector": {
			controllers: "{garbageCollector: {enabled: true}}",
			class:       c{GarbageCollector: &hubv1alpha1.GarbageCollectorController{Enabled: on}},
			target: c{GarbageCollector: &hubv1alpha1.GarbageCollectorController{Enabled: on,
				SyncPeriod: duration(time.Hour)}},
		},
		"the garbage collector and its period": {
			controllers: "{garbageCollector: {enabled: true, syncPeriod: 12h}}",
			class: c{GarbageCollector: &hubv1alpha1.GarbageCollectorController{Enabled: on,
				SyncPeriod: duration(12 * time.Hour)}},
			target: c{GarbageCollector: &hubv1alpha1.GarbageCollectorController{Enabled: on,
				SyncPeriod: duration(12 * time.Hour)}},
		},
		"the token requestor": {
			controllers: "{tokenRequestor: {enabled: true}}",
			class:       c{TokenRequestor: &hubv1alpha1.TokenRequestorController{Enabled: on}},
			target: c{TokenRequestor: &hubv1alpha1.TokenRequestorController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](5), Class: ptr.To("shoot"), Audiences: shoot,
			}},
			notes: []string{"Secrets of the class shoot and tokens for the audience gardener"},
		},
		"more workers than a hub takes": {
			controllers: "{tokenRequestor: {enabled: true, concurrentSyncs: 500}}",
			class: c{TokenRequestor: &hubv1alpha1.TokenRequestorController{Enabled: on,
				ConcurrentSyncs: ptr.To[int32](100)}},
			target: c{TokenRequestor: &hubv1alpha1.TokenRequestorController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](100), Class: ptr.To("shoot"), Audiences: shoot,
			}},
			notes: []string{"500 there, and 100 are the most here"},
		},
		"the approver with Machines": {
			controllers: "{csrApprover: {enabled: true, concurrentSyncs: 2, machineNamespace: shoot--foo--a}}",
			class:       c{CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: on, ConcurrentSyncs: ptr.To[int32](2)}},
			target: c{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](2), MachineNamespace: ptr.To("shoot--foo--a"), WithoutMachines: off,
			}},
			notes: []string{"Machines are those of the namespace of the registration"},
		},
		"the approver without Machines": {
			controllers: "{csrApprover: {enabled: true}}",
			class:       c{CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: on, WithoutMachines: on}},
			target: c{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](1), WithoutMachines: on,
			}},
			notes: []string{"asks for no Machines; here that has to be said"},
		},
		"the approver by its old name always asks for Machines": {
			controllers: "{kubeletCSRApprover: {enabled: true}}",
			class:       c{CSRApprover: &hubv1alpha1.CSRApproverController{Enabled: on}},
			target: c{CSRApprover: &hubv1alpha1.CSRApproverController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](1), MachineNamespace: ptr.To("shoot--foo--a"), WithoutMachines: off,
			}},
			notes: []string{"controllers.kubeletCSRApprover (line 4): this is an old name"},
		},
		"critical components": {
			controllers: "{nodeCriticalComponents: {enabled: true, backoff: 30s}}",
			class: c{NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{
				Enabled: on, Backoff: duration(30 * time.Second),
			}},
			target: c{NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](5), Backoff: duration(30 * time.Second),
			}},
		},
		"critical components by their old name": {
			controllers: "{node: {enabled: true, backoff: 2h}}",
			class: c{NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{
				Enabled: on, Backoff: duration(time.Hour),
			}},
			target: c{NodeCriticalComponents: &hubv1alpha1.NodeCriticalComponentsController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](5), Backoff: duration(time.Hour),
			}},
			notes: []string{"controllers.node (line 4): this is an old name", "2h there, and here it is between 1s and 1h"},
		},
		"the delay of node agents": {
			controllers: "{nodeAgentReconciliationDelay: {enabled: true, minDelay: 40m, maxDelay: 50m}}",
			class: c{NodeAgentReconciliationDelay: &hubv1alpha1.NodeAgentReconciliationDelayController{
				Enabled: on, MinDelay: duration(30 * time.Minute), MaxDelay: duration(30 * time.Minute),
			}},
			target: c{NodeAgentReconciliationDelay: &hubv1alpha1.NodeAgentReconciliationDelayController{
				Enabled: on, MinDelay: duration(30 * time.Minute), MaxDelay: duration(30 * time.Minute),
			}},
			notes: []string{"50m there, and here it is between 0s and 30m"},
		},
		"network policies": {
			controllers: "{networkPolicy: {enabled: true, namespaceSelectors: [{matchLabels: {a: b}}], " +
				"ingressControllerSelector: {namespace: ingress, podSelector: {matchLabels: {app: nginx}}}}}",
			class: c{NetworkPolicy: &hubv1alpha1.NetworkPolicyController{
				Enabled: on, NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}},
				IngressControllerSelector: &hubv1alpha1.IngressControllerSelector{
					Namespace: "ingress", PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}},
				},
			}},
			target: c{NetworkPolicy: &hubv1alpha1.NetworkPolicyController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](5),
				NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}},
				IngressControllerSelector: &hubv1alpha1.IngressControllerSelector{
					Namespace: "ingress", PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "nginx"}},
				},
				OnlyWithClientPods: off,
			}},
			notes: []string{"onlyWithClientPods: true does"},
		},
		"the token invalidator": {
			controllers: "{tokenInvalidator: {enabled: true, concurrentSyncs: 3}}",
			class: c{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{Enabled: on,
				ConcurrentSyncs: ptr.To[int32](3)}},
			target: c{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{Enabled: on,
				ConcurrentSyncs: ptr.To[int32](3)}},
			notes: []string{"is the webhook of the same name"},
		},
		"D-1 the token invalidator by the name that documentation has": {
			controllers: "{tokenValidator: {enabled: true}}",
			class:       c{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{Enabled: on}},
			target: c{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{Enabled: on,
				ConcurrentSyncs: ptr.To[int32](5)}},
			notes: []string{"another name of tokenInvalidator"},
		},
		"D-1 both names of the token invalidator that say the same": {
			controllers: "{tokenValidator: {enabled: true}, tokenInvalidator: {enabled: true}}",
			class:       c{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{Enabled: on}},
			target: c{TokenInvalidator: &hubv1alpha1.TokenInvalidatorController{Enabled: on,
				ConcurrentSyncs: ptr.To[int32](5)}},
		},
		"Istio": {
			controllers: "{istioClusterConfiguration: {enabled: true}}",
			class:       c{IstioClusterConfiguration: &hubv1alpha1.IstioClusterConfigurationController{Enabled: on}},
			target: c{IstioClusterConfiguration: &hubv1alpha1.IstioClusterConfigurationController{
				Enabled: on, ConcurrentSyncs: ptr.To[int32](5),
			}},
		},
		"high availability follows the webhook": {
			controllers: "{}\nwebhooks: {highAvailabilityConfig: {enabled: true}}",
			class:       c{NodeHighAvailability: &hubv1alpha1.NodeHighAvailabilityController{Enabled: on}},
			target:      c{NodeHighAvailability: &hubv1alpha1.NodeHighAvailabilityController{Enabled: on}},
			notes:       []string{"has this controller, too, with its webhook"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			input := []byte(ofShoot + "controllers: " + test.controllers + "\n")
			made, err := convert(input, options{HubNamespace: "trellis"})
			g.Expect(err).NotTo(HaveOccurred())
			config := &configv1alpha1.HubConfiguration{}
			g.Expect(yaml.UnmarshalStrict([]byte(text(g, made)), config)).To(Succeed())
			g.Expect(config.Classes).To(HaveLen(1))
			g.Expect(config.Classes[0].Controllers).To(Equal(test.class))
			for _, note := range test.notes {
				g.Expect(made.notes).To(ContainElement(HaveField("String()", ContainSubstring(note))))
			}

			made, err = convert(input, options{Namespace: "shoot--foo--a", TargetCluster: "a"})
			g.Expect(err).NotTo(HaveOccurred())
			tc := &hubv1alpha1.TargetCluster{}
			g.Expect(yaml.UnmarshalStrict([]byte(text(g, made)), tc)).To(Succeed())
			g.Expect(json.Marshal(tc.Spec.Controllers)).To(MatchJSON(switchedOff(g, test.target)))
		})
	}
}

// switchedOff switches everything off that controllers do not say anything about and that a resource manager has.
func switchedOff(g *WithT, some hubv1alpha1.TargetControllers) []byte {
	off := ptr.To(false)
	all := hubv1alpha1.TargetControllers{
		GarbageCollector:             &hubv1alpha1.GarbageCollectorController{Enabled: off},
		CSRApprover:                  &hubv1alpha1.CSRApproverController{Enabled: off},
		TokenRequestor:               &hubv1alpha1.TokenRequestorController{Enabled: off},
		NodeCriticalComponents:       &hubv1alpha1.NodeCriticalComponentsController{Enabled: off},
		NodeAgentReconciliationDelay: &hubv1alpha1.NodeAgentReconciliationDelayController{Enabled: off},
		NetworkPolicy:                &hubv1alpha1.NetworkPolicyController{Enabled: off},
		TokenInvalidator:             &hubv1alpha1.TokenInvalidatorController{Enabled: off},
		NodeHighAvailability:         &hubv1alpha1.NodeHighAvailabilityController{Enabled: off},
		IstioClusterConfiguration:    &hubv1alpha1.IstioClusterConfigurationController{Enabled: off},
	}
	merged := all.Merge(&some)
	out, err := json.Marshal(merged)
	g.Expect(err).NotTo(HaveOccurred())
	return out
}

func TestOnStandbyNothingWorks(t *testing.T) {
	g := NewWithT(t)
	input, err := os.ReadFile("testdata/shoot.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	made, err := convert(input, options{HubNamespace: "trellis", Standby: true})
	g.Expect(err).NotTo(HaveOccurred())
	config, err := configv1alpha1.Load([]byte(text(g, made)))
	g.Expect(err).NotTo(HaveOccurred())
	class := config.Classes[0].Controllers
	g.Expect(class.Enabled()).To(BeEmpty())
	g.Expect(class.TokenRequestor).NotTo(BeNil(), "the rights of the hub follow from what is mentioned")

	made, err = convert(input, options{Namespace: "shoot--foo--a", TargetCluster: "shoot-a"})
	g.Expect(err).NotTo(HaveOccurred())
	tc := &hubv1alpha1.TargetCluster{}
	g.Expect(yaml.UnmarshalStrict([]byte(text(g, made)), tc)).To(Succeed())
	merged, webhooks := class.Merge(tc.Spec.Controllers), config.Classes[0].Webhooks.Merge(tc.Spec.Webhooks)
	enabled := merged.Enabled()
	for _, name := range webhooks.Enabled() {
		enabled = append(enabled, "webhooks."+name)
	}
	g.Expect(enabled).To(ConsistOf(made.enabled))
	g.Expect(merged.Faults("shoot--foo--a", nil)).To(BeEmpty())
	g.Expect(webhooks.Faults("shoot--foo--a", nil)).To(BeEmpty())
}

func TestClasses(t *testing.T) {
	for name, test := range map[string]struct {
		input string
		want  func(g *WithT, config *configv1alpha1.HubConfiguration)
		note  string
	}{
		"the default class": {ofShoot, func(g *WithT, config *configv1alpha1.HubConfiguration) {
			g.Expect(config.Classes[0].Name).To(BeEmpty())
			g.Expect(config.Classes[0].Target).To(Equal(configv1alpha1.ClassTarget{Type: configv1alpha1.TargetNamespace}))
			g.Expect(config.Classes[0].ConcurrentSyncs).To(Equal(20))
			g.Expect(config.SourceIdentity).To(BeNil())
		}, ""},
		"the default class by its name": {
			ofShoot + "controllers: {resourceClass: resources}", func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].Name).To(BeEmpty())
			}, "the default class has the empty name here",
		},
		"all classes": {
			ofShoot + `controllers: {resourceClass: "*"}`, func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes).To(HaveLen(1))
				g.Expect(config.Classes[0].Name).To(BeEmpty())
			}, "a hub has no class for all classes",
		},
		"a class of the source": {
			head + "controllers: {resourceClass: seed}", func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].Name).To(Equal("seed"))
				g.Expect(config.Classes[0].Target.Type).To(Equal(configv1alpha1.TargetSource))
				g.Expect(config.Classes[0].NamespaceSelector).To(Equal(&metav1.LabelSelector{}))
				g.Expect(config.Classes[0].ConcurrentSyncs).To(Equal(5))
				g.Expect(config.SourceIdentity.ServiceAccount).To(
					Equal(configv1alpha1.ServiceAccount{Namespace: "trellis", Name: "trellis-source"}))
			}, "ManagedResources of all namespaces are applied to the source",
		},
		"a class of the source and its namespace": {
			head + "sourceClientConnection: {namespace: garden}", func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].NamespaceSelector.MatchLabels).To(
					Equal(map[string]string{"kubernetes.io/metadata.name": "garden"}))
			}, "",
		},
		"a class of the source and its namespaces": {
			head + "sourceClientConnection: {namespaces: [garden, b]}\ntargetClientConnection: {}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].NamespaceSelector.MatchExpressions[0].Values).To(Equal([]string{"garden", "b"}))
			}, "without a kubeconfig, the target is the source",
		},
		"the source requests no tokens": {
			head + "controllers: {tokenRequestor: {enabled: true}, csrApprover: {enabled: true, machineNamespace: a}}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].Controllers).To(Equal(hubv1alpha1.TargetControllers{}))
			}, "tokens are requested of targets with a registration",
		},
		"certificates of nodes of the source": {
			head + "controllers: {csrApprover: {enabled: true}}", func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(*config.Classes[0].Controllers.CSRApprover.WithoutMachines).To(BeTrue())
			}, "here that has to be said",
		},
		"fewer workers than a class has": {
			ofShoot + "controllers: {managedResource: {concurrentSyncs: 5}}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].ConcurrentSyncs).To(Equal(20))
			}, "controllers.managedResource.concurrentSyncs (line 4): there, the workers are for one target",
		},
		"more workers than a class has": {
			ofShoot + "controllers: {managedResources: {concurrentSyncs: 50}}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Classes[0].ConcurrentSyncs).To(Equal(50))
			}, "controllers.managedResources.concurrentSyncs (line 4): there",
		},
		"what drift costs": {
			ofShoot + "controllers: {managedResource: {alwaysUpdate: true, syncPeriod: 1m, managedByLabelValue: x}, " +
				"clusterID: <default>}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Controllers.ManagedResource.AlwaysUpdate).To(BeFalse())
				g.Expect(config.Controllers.ManagedResource.SyncPeriod.Duration).To(Equal(10 * time.Minute))
				g.Expect(config.Controllers.ManagedResource.ManagedByLabelValue).To(Equal("x"))
				g.Expect(*config.Controllers.ClusterID).To(Equal("<default>"))
			}, "what differs is written at once here",
		},
		"the limits of the target": {
			head + "targetClientConnection: {kubeconfig: x, qps: 12.5, burst: 20}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.TargetClientConnection.QPS).To(BeEquivalentTo(12.5))
				g.Expect(config.TargetClientConnection.Burst).To(BeEquivalentTo(20))
			}, "",
		},
		"no limit": {
			head + "targetClientConnection: {kubeconfig: x, qps: -1}", func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.TargetClientConnection.QPS).To(BeEquivalentTo(500))
			}, "no target is called without a limit",
		},
		"the process": {
			ofShoot + "server: {healthProbes: {port: 1}, metrics: {bindAddress: 127.0.0.1, port: 2}}\nlogLevel: " +
				"error\nlogFormat: text\n" +
				"leaderElection: {leaderElect: false, leaseDuration: 40s, resourceName: x, resourceLock: endpointsleases}\n" +
				"debugging: {enableProfiling: true, enableContentionProfiling: true}",
			func(g *WithT, config *configv1alpha1.HubConfiguration) {
				g.Expect(config.Server.HealthProbes.Port).To(BeEquivalentTo(1))
				g.Expect(config.Server.Metrics).To(Equal(configv1alpha1.Endpoint{BindAddress: "127.0.0.1", Port: 2}))
				g.Expect(config.LogLevel).To(Equal("error"))
				g.Expect(config.LogFormat).To(Equal("text"))
				g.Expect(config.Debugging).To(Equal(
					configv1alpha1.Debugging{EnableProfiling: true, EnableContentionProfiling: true}))
				g.Expect(config.LeaderElection.Enabled()).To(BeTrue())
				g.Expect(config.LeaderElection.LeaseDuration.Duration).To(Equal(40 * time.Second))
				g.Expect(config.LeaderElection.ResourceName).To(Equal("trellis"))
				g.Expect(config.LeaderElection.ResourceNamespace).To(Equal("trellis"))
			}, "the hub knows leases only",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			made, err := convert([]byte(test.input), options{HubNamespace: "trellis"})
			g.Expect(err).NotTo(HaveOccurred())
			config, err := configv1alpha1.Load([]byte(text(g, made)))
			g.Expect(err).NotTo(HaveOccurred(), text(g, made))
			test.want(g, config)
			if test.note != "" {
				g.Expect(made.notes).To(ContainElement(HaveField("String()", ContainSubstring(test.note))))
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	big := strings.Repeat("x", 2000)
	for name, test := range map[string]struct {
		input string
		args  []string
		code  int
		says  []string
	}{
		"nothing":       {"", nil, cli.ExitRefused, []string{"cannot be read: it is empty"}},
		"no YAML":       {"a: [", nil, cli.ExitRefused, []string{"cannot be read: yaml: line 1"}},
		"a list":        {"[]", nil, cli.ExitRefused, []string{"has to be a mapping"}},
		"two documents": {ofShoot + "---\n" + ofShoot, nil, cli.ExitRefused, []string{"more than one document"}},
		"too much":      {head + "#" + strings.Repeat("x", 1<<20), nil, cli.ExitRefused, []string{"has more than 1 MiB"}},
		"a hub's": {"apiVersion: config.hub.gardener.cloud/v1alpha1\nkind: HubConfiguration", nil, cli.ExitRefused,
			[]string{"a hub already"}},
		"a ConfigMap": {"apiVersion: v1\nkind: ConfigMap\ndata: {config.yaml: a}", nil, cli.ExitRefused,
			[]string{"the configuration is in it"}},
		"something else": {"apiVersion: " + big + "\nkind: x", nil, cli.ExitRefused,
			[]string{`no configuration of a resource manager: apiVersion is "xxx`, `kind is "x"`}},
		"without a kind": {"controllers: {}", nil, cli.ExitRefused, []string{"no configuration of a resource manager"}},
		"an anchor": {ofShoot + "controllers: &a {}", nil, cli.ExitRefused,
			[]string{"controllers: Forbidden: anchors and aliases are not supported (line 4)"}},
		"an unknown key": {
			ofShoot + "controllers:\n  tokenRequester: {enabled: true}\n", nil, cli.ExitRefused,
			[]string{`controllers.tokenRequester: Forbidden: unknown key (line 5); the nearest known one is "tokenRequestor"`},
		},
		"a value of another type": {
			ofShoot + "controllers:\n  csrApprover: {enabled: sometimes, concurrentSyncs: " + big + "}", nil, cli.ExitRefused,
			[]string{
				`controllers.csrApprover.enabled: Invalid value: "sometimes": must be true or false (line 5)`,
				`controllers.csrApprover.concurrentSyncs: Invalid value: "xxx`,
			},
		},
		"a key twice": {
			ofShoot + "logLevel: info\nlogLevel: info\n", nil, cli.ExitRefused,
			[]string{`logLevel: Duplicate value: "logLevel": the key is there more than once (line 5)`},
		},
		"what a hub refuses": {
			ofShoot + "controllers:\n  garbageCollector:\n    enabled: true\n    syncPeriod: 5s\n  managedResource:\n    " +
				"concurrentSyncs: -1\n" +
				"  resourceClass: " + `"a/b"` + "\nlogLevel: warn\n", nil, cli.ExitRefused,
			[]string{
				`controllers.garbageCollector.syncPeriod: Invalid value: "5s": must be at least 15s (line 7)`,
				`controllers.managedResource.concurrentSyncs: Invalid value: -1: must be at least 1 (line 9)`,
				`controllers.resourceClass: Invalid value: "a/b"`, `(line 10)`,
				`logLevel: Unsupported value: "warn": supported values: "debug", "info", "error" (line 11)`,
			},
		},
		"what a hub refuses on standby": {
			ofShoot + "controllers: {garbageCollector: {enabled: true, syncPeriod: 5s}}", []string{"--standby"}, cli.ExitRefused,
			[]string{`controllers.garbageCollector.syncPeriod: Invalid value: "5s": must be at least 15s (line 4)`},
		},
		"what a hub refuses of a TargetCluster": {
			ofShoot + "controllers: {node: {enabled: true, concurrentSyncs: 0}}", []string{"--target-cluster", "a"},
			cli.ExitRefused,
			[]string{`controllers.node.concurrentSyncs: Invalid value: 0: must be between 1 and 100 (line 4)`},
		},
		"Machines of another namespace": {
			ofShoot + "controllers: {csrApprover: {enabled: true, machineNamespace: b}}", []string{"--target-cluster", "a"},
			cli.ExitRefused,
			[]string{`controllers.csrApprover.machineNamespace: Invalid value: "b": must be that of the target's ` +
				`registration (shoot--foo--a), or empty (line 4)`},
		},
		"Machines of no namespace": {
			ofShoot + `controllers: {csrApprover: {enabled: true, machineNamespace: ""}}`, nil, cli.ExitRefused,
			[]string{`controllers.csrApprover.machineNamespace: Forbidden: must not be empty`, "(line 4)"},
		},
		"an old and a new name": {
			ofShoot + "controllers:\n  node: {}\n  nodeCriticalComponents: {}\n  kubeletCSRApprover: {}\n  csrApprover: {}", nil,
			cli.ExitRefused,
			[]string{
				"controllers.node: Forbidden: this is the old name of controllers.nodeCriticalComponents", "(line 5)",
				"controllers.kubeletCSRApprover: Forbidden: this is the old name of controllers.csrApprover", "(line 7)",
			},
		},
		"D-1 both names of the token invalidator that differ": {
			ofShoot + "controllers: {tokenInvalidator: {enabled: true}, tokenValidator: {enabled: false}}", nil, cli.ExitRefused,
			[]string{"controllers.tokenValidator: Forbidden: this is another name of controllers.tokenInvalidator, which " +
				"has another value (line 4)"},
		},
		"a selector that cannot be": {
			ofShoot + "controllers:\n  networkPolicy:\n    enabled: true\n    namespaceSelectors:\n    - matchExpressions: " +
				"[{key: a, operator: Like}]", nil,
			cli.ExitRefused, []string{"controllers.networkPolicy.namespaceSelectors: Invalid value:", "(line 7)"},
		},
		"a TargetCluster of the source": {head, []string{"--target-cluster", "a"}, cli.ExitRefused,
			[]string{"that is no TargetCluster"}},
		"the source on standby": {head, []string{"--standby"}, cli.ExitRefused, []string{"leave --standby out"}},
		"no file":               {"", []string{"-f", ""}, cli.ExitUsage, []string{"--filename is required"}},
		"a file that is not there": {"", []string{"-f", "testdata/none.yaml"}, cli.ExitFailed,
			[]string{"testdata/none.yaml: no such file"}},
		"standby of a TargetCluster": {ofShoot, []string{"--target-cluster", "a", "--standby"}, cli.ExitUsage,
			[]string{"--target-cluster is not"}},
		"comments in JSON": {ofShoot, []string{"--comments", "-o", "json"}, cli.ExitUsage,
			[]string{"--comments goes with YAML"}},
		"a name that cannot be": {ofShoot, []string{"--target-cluster", "A_"}, cli.ExitUsage,
			[]string{`--target-cluster "A_"`}},
		"no namespace of the hub": {ofShoot, []string{"--hub-namespace", ""}, cli.ExitUsage,
			[]string{"--hub-namespace must not be empty"}},
		"a format that there is not": {ofShoot, []string{"-o", "xml"}, cli.ExitUsage,
			[]string{"must be one of yaml, json, name"}},
		"a thousand faults": {
			ofShoot + "webhooks: {" + strings.Join(thousand(), ", ") + "}", nil, cli.ExitRefused, []string{"and 980 more"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, errOut, err := said(t, test.input, test.args...)
			g.Expect(err).To(HaveOccurred())
			for _, text := range test.says {
				g.Expect(err.Error()).To(ContainSubstring(text))
			}
			g.Expect(cli.ExitCode(err)).To(Equal(test.code))
			g.Expect(len(err.Error())).To(BeNumerically("<", 10_000))
			g.Expect(out).To(BeEmpty())
			g.Expect(errOut).To(BeEmpty())
		})
	}
}

func thousand() (keys []string) {
	for i := range 1000 {
		keys = append(keys, fmt.Sprintf("key%d: {}", i))
	}
	return keys
}

// FuzzConvert shows that no input makes it panic or hang, and that a hub accepts what it returns.
func FuzzConvert(f *testing.F) {
	for _, file := range []string{"testdata/shoot.yaml", "testdata/seed.yaml"} {
		seed, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte(ofShoot +
		"controllers: {node: {enabled: true}, networkPolicy: {enabled: true, namespaceSelectors: [{}]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range []options{
			{HubNamespace: "trellis"}, {HubNamespace: "trellis", Standby: true}, {Namespace: "a", TargetCluster: "b"},
		} {
			made, err := convert(data, o)
			if err != nil || o.TargetCluster != "" {
				continue
			}
			written, err := made.YAML(nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := configv1alpha1.Load(written); err != nil {
				t.Fatalf("a hub refuses it: %v\n%s", err, written)
			}
		}
	})
}
