package chart_test

import (
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/app"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/hack/helm"
)

// valuesOfGardener are those of a seed: as they are, and with the class that is left out in a comment.
func valuesOfGardener(t *testing.T) (values, withSeed string) {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile("values-gardener.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	values = string(content)
	before, class, found := strings.Cut(values, "#  - name: seed\n")
	g.Expect(found).To(BeTrue())
	class = "  - name: seed\n" + strings.ReplaceAll(strings.ReplaceAll("\n"+class, "\n#", "\n"), "\n\n", "\n")
	classes, rest, found := strings.Cut(before, "\n  controllers:\n")
	g.Expect(found).To(BeTrue())
	return values, classes + "\n" + class + "\n  controllers:\n" + rest
}

// gardenerWith are the values of a seed with others over them, a YAML document.
func gardenerWith(t *testing.T, more string) string {
	t.Helper()
	g := NewWithT(t)
	content, _ := valuesOfGardener(t)
	var values, over map[string]any
	g.Expect(yaml.Unmarshal([]byte(content), &values)).To(Succeed())
	g.Expect(yaml.Unmarshal([]byte(more), &over)).To(Succeed())
	var merge func(into, from map[string]any)
	merge = func(into, from map[string]any) {
		for key, value := range from {
			below, isMap := value.(map[string]any)
			if existing, ok := into[key].(map[string]any); isMap && ok {
				merge(existing, below)
			} else {
				into[key] = value
			}
		}
	}
	merge(values, over)
	return mustJSON(g, values)
}

func TestValuesForASeedOfGardener(t *testing.T) {
	g := NewWithT(t)
	values, withSeed := valuesOfGardener(t)
	objects := render(t, values)
	hub := config(t, objects)
	g.Expect(hub.Classes).To(HaveLen(1))
	shoots := hub.Classes[0]
	g.Expect(shoots.Name).To(BeEmpty())
	g.Expect(shoots.Target.Type).To(Equal(configv1alpha1.TargetNamespace))
	g.Expect(shoots.Controllers.Enabled()).To(ConsistOf(
		"garbageCollector", "csrApprover", "tokenRequestor", "nodeCriticalComponents", "nodeAgentReconciliationDelay"))
	g.Expect(shoots.Controllers.GarbageCollector.SyncPeriod.Duration).To(Equal(12 * time.Hour))
	g.Expect(shoots.Controllers.TokenRequestor.TokenAudiences()).To(Equal([]string{"gardener"}))
	g.Expect(shoots.Controllers.CSRApprover.WithoutMachines).To(BeNil())
	g.Expect(hub.Controllers.ClusterID).To(Equal(ptr.To(configv1alpha1.ClusterIDDefault)))
	g.Expect(objects).To(HaveKey("ValidatingAdmissionPolicy/trellis-secret-writes"))
	g.Expect(objects).NotTo(HaveKey("ServiceAccount/trellis-source"))

	objects = render(t, withSeed)
	hub = config(t, objects)
	g.Expect(hub.Classes).To(HaveLen(2))
	g.Expect(hub.Classes[0]).To(Equal(shoots))
	seed := hub.Classes[1]
	g.Expect(seed.Target.Type).To(Equal(configv1alpha1.TargetSource))
	g.Expect(seed.ClusterID).To(Equal(ptr.To("")))
	g.Expect(seed.Controllers.Enabled()).To(ConsistOf("garbageCollector", "networkPolicy"))
	g.Expect(seed.Controllers.NetworkPolicy.NamespaceSelectors).To(HaveLen(2))
	g.Expect(objects).To(HaveKey("ServiceAccount/trellis-source"))
}

func TestValuesForASeedOfGardenerAreLinted(t *testing.T) {
	values, withSeed := valuesOfGardener(t)
	for name, values := range map[string]string{"shoots": values, "and the seed": withSeed} {
		cli := helm.ForTest(t)
		_, err := cli.Run(t.Context(), values, "lint", "--strict", cli.Chart())
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), name)
	}
}

// What "trellisctl config convert" makes of the configurations that Gardener has are values of the chart, and those of
// shoots say the same as the values above, but for what belongs to a webhook.
func TestConvertedConfigurationsAreValues(t *testing.T) {
	const folder = "../../cmd/trellisctl/convert/testdata/"
	values, _ := valuesOfGardener(t)
	want := config(t, render(t, values)).Classes[0].Controllers
	for name, args := range map[string][]string{
		"shoot": {"-f", folder + "shoot.yaml"}, "shoot on standby": {"-f", folder + "shoot.yaml", "--standby"},
		"seed": {"-f", folder + "seed.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			streams, _, out, errOut := genericiooptions.NewTestIOStreams()
			args := append([]string{"config", "convert", "--values", "--hub-namespace", release}, args...)
			code := app.Run(t.Context(), cli.NewEnv(streams), app.Name, args)
			g.Expect(code).To(Equal(cli.ExitOK), "%s", errOut)
			converted := config(t, render(t, out.String()))
			g.Expect(converted.Classes).To(HaveLen(1))
			got := converted.Classes[0].Controllers
			switch name {
			case "shoot":
				got.NodeHighAvailability = nil
				want.TokenRequestor.Audiences = nil // the default
				g.Expect(got).To(Equal(want))
			case "shoot on standby":
				g.Expect(got.Enabled()).To(BeEmpty())
			}
		})
	}
}
