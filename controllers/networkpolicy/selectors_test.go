package networkpolicy

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// texts are ports in the form of descriptions.
func texts(ports []networkingv1.NetworkPolicyPort) (texts []string) {
	for _, port := range ports {
		texts = append(texts, portText(port))
	}
	return texts
}

func TestNP29_PortsInAnnotations(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  []string
	}{
		"NP-29 a number in quotes": {`[{"port":"10250","protocol":"TCP"}]`, []string{"TCP/10250"}},
		"a number and a name": {
			`[{"port":5678,"protocol":"TCP"},{"port":"name","protocol":"UDP"}]`, []string{"TCP/5678", "UDP/name"},
		},
		"TCP is the default":         {`[{"port":80}]`, []string{"TCP/80"}},
		"a range":                    {`[{"port":80,"endPort":90}]`, []string{"TCP/80-90"}},
		"all ports of a protocol":    {`[{"protocol":"SCTP"}]`, []string{"SCTP"}},
		"NP-54 each once":            {`[{"port":80},{"port":"80","protocol":"TCP"}]`, []string{"TCP/80"}},
		"NP-26 none":                 {`[]`, nil},
		"unknown fields are ignored": {`[{"port":80,"comment":"x"}]`, []string{"TCP/80"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ports, err := parsePorts("key", test.value)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(texts(ports)).To(Equal(test.want))
		})
	}
}

func TestNP53_AnnotationsThatCannotBe(t *testing.T) {
	many := func(entry string, count int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(entry+",", count), ",") + "]"
	}
	fromX := AllowedPortsAnnotation("x")
	aliases := map[string]string{}
	for i := range maxAliases + 1 {
		aliases[AllowedPortsAnnotation(fmt.Sprintf("a%02d", i))] = `[{"port":80}]`
	}
	unreadable := func(key string) string { return key + `: "foo" cannot be read as a JSON list` }
	const (
		selectors, world = AnnotationNamespaceSelectors, AnnotationFromWorld
		noList, badPort  = "cannot be read as a JSON list", "has a port that is not valid"
	)
	for _, test := range []struct{ name, key, value, problem string }{
		{"no JSON", selectors, `foo`, unreadable(selectors)},
		{"no list", selectors, `{}`, noList},
		{"null", selectors, `null`, "is not a JSON list"},
		{"something after it", selectors, `[] []`, noList},
		{"not valid", selectors, `[{"matchExpressions":[{"key":"a"}]}]`, "has a selector that is not valid"},
		{"too many", selectors, many("{}", 51), "has 51 entries, more than 50"},
		{"too deep", selectors, strings.Repeat("[", 100), "exceeds a bound"},
		{"too long", selectors, `["` + strings.Repeat("x", maxAnnotation) + `"]`, "exceeds a bound"},
		{"no JSON", fromX, `foo`, unreadable(fromX)},
		{"no port", fromX, `[{"protocol":"TCP"}]`, "has an entry without a port"},
		{"too many", fromX, many(`{"port":1}`, 101), "has 101 entries, more than 100"},
		{"too many annotations", "", "", "is one more than the 20 annotations"},
		{"no JSON", world, `foo`, unreadable(world)},
		{"null is not everything", world, `null`, "is not a JSON list"},
		{"port 0", world, `[{"port":0}]`, badPort},
		{"port 70000", world, `[{"port":"70000"}]`, badPort},
		{"huge port", world, `[{"port":"99999999999999999999"}]`, badPort},
		{"bad name", world, `[{"port":"no_name"}]`, badPort},
		{"empty name", world, `[{"port":""}]`, badPort},
		{"bad protocol", world, `[{"port":80,"protocol":"tcp"}]`, "has a protocol that is not TCP, UDP or SCTP"},
		{"range without port", world, `[{"endPort":80}]`, "has an endPort without a port"},
		{"range of a name", world, `[{"port":"http","endPort":80}]`, "has an endPort of a port with a name"},
		{"empty range", world, `[{"port":80,"endPort":79}]`, "has an endPort below its port"},
	} {
		t.Run("NP-53 "+test.key+" "+test.name, func(t *testing.T) {
			g := NewWithT(t)
			annotations := aliases
			if test.key != "" {
				annotations = map[string]string{test.key: test.value}
			}
			_, err := parse(annotations)
			var input *InputError
			g.Expect(err).To(BeAssignableToTypeOf(input))
			g.Expect(err).To(MatchError(ContainSubstring(test.problem)))
			g.Expect(len(err.Error())).To(BeNumerically("<=", 1024))
		})
	}
}

func TestNP16_SelectorsAreAlternatives(t *testing.T) {
	g := NewWithT(t)
	r, err := parse(map[string]string{
		AnnotationNamespaceSelectors: `[{"matchLabels":{"a":"1"}},{"matchExpressions":[{"key":"b","operator":"Exists"}]}]`,
		AnnotationNamespaceAlias:     "all",
		"unrelated":                  "not JSON",
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.alias).To(Equal("all"))
	g.Expect(r.fromWorld).To(BeFalse())
	for _, labelled := range []string{"a=1", "b=2", "a=1,b=2"} {
		set, err := labels.ConvertSelectorToLabelsMap(labelled)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(matchesAny(r.selectors, set)).To(BeTrue(), labelled)
	}
	g.Expect(matchesAny(r.selectors, map[string]string{"a": "2"})).To(BeFalse())
	g.Expect(matchesAny(nil, nil)).To(BeFalse())
}
