package networkpolicy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// object reads one as a watch hands it out. Lines of more are added to it.
func object(t *testing.T, text string, more ...string) client.Object {
	t.Helper()
	obj := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text+strings.Join(more, "\n")), &obj.Object)).To(Succeed())
	return obj
}

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

const serviceText = `
metadata: {namespace: a, name: svc, uid: u, annotations: {other: x}}
spec: {selector: {foo: bar}, ports: [{port: 80, targetPort: http, protocol: UDP}], clusterIP: 1.2.3.4}
`

func TestNP48_WhatMattersOfServices(t *testing.T) {
	annotated := func(annotation string) string {
		return strings.Replace(serviceText, "{other: x}", "{"+annotation+`: "[]"}`, 1)
	}
	change := func(old, value string) string { return strings.Replace(serviceText, old, value, 1) }
	for name, test := range map[string]struct {
		changed string
		matters bool
	}{
		"the selector":            {change("foo: bar", "foo: baz"), true},
		"no selector":             {change("selector: {foo: bar}, ", ""), true},
		"a port":                  {change("port: 80", "port: 81"), true},
		"a target port":           {change("http", "https"), true},
		"a protocol":              {change("UDP", "TCP"), true},
		"that it is deleted":      {change("uid: u", "uid: u, deletionTimestamp: '2026-01-01T00:00:00Z'"), true},
		"selectors of namespaces": {annotated(AnnotationNamespaceSelectors), true},
		"an alias":                {annotated(AnnotationNamespaceAlias), true},
		"ports for the world":     {annotated(AnnotationFromWorld), true},
		"ports for an alias":      {annotated(AllowedPortsAnnotation("x")), true},
		"other annotations":       {change("other: x", "other: z"), false},
		"labels":                  {change("uid: u", "uid: u, labels: {a: b}"), false},
		"an address":              {change("1.2.3.4", "1.2.3.5"), false},
	} {
		t.Run("NP-48 "+name, func(t *testing.T) {
			g := NewWithT(t)
			old, value := serviceOf(object(t, serviceText)), serviceOf(object(t, test.changed))
			got := ofService(types.NamespacedName{Namespace: "a", Name: "svc"}, old, value)
			if test.matters {
				g.Expect(got).To(HaveLen(1))
			} else {
				g.Expect(got).To(BeEmpty())
			}
		})
	}
	g := NewWithT(t)
	kept := serviceOf(object(t, serviceText))
	g.Expect(ofService(name("a", "svc"), nil, kept)).To(ConsistOf(name("a", "svc")), "one that is new")
	g.Expect(ofService(name("a", "svc"), kept, nil)).To(ConsistOf(name("a", "svc")), "one that is gone")
}

func TestServicesAreBounded(t *testing.T) {
	g := NewWithT(t)
	var ports []string
	for i := range 10 * maxPorts {
		ports = append(ports, fmt.Sprintf("{port: %d}", i+1))
	}
	text := strings.Replace(serviceText, "{port: 80, targetPort: http, protocol: UDP}", strings.Join(ports, ","), 1)
	text = strings.Replace(text, "other: x", AnnotationFromWorld+": "+strings.Repeat("x", 10*maxAnnotation), 1)
	kept, is := serviceOf(object(t, text)).(*service)
	g.Expect(is).To(BeTrue())
	g.Expect(kept.ports).To(HaveLen(maxPorts + 1))
	g.Expect(kept.annotations[AnnotationFromWorld]).To(HaveLen(maxAnnotation + 1))

	g.Expect(kept.selector).To(Equal(map[string]string{"foo": "bar"}))

	for what, selector := range map[string]string{
		"many labels":  strings.Repeat("k%: v, ", maxLabels) + "foo: bar",
		"a long label": "foo: " + strings.Repeat("x", maxAnnotation),
	} {
		for i := range maxLabels {
			selector = strings.Replace(selector, "%", fmt.Sprint(i), 1)
		}
		text := strings.Replace(serviceText, "foo: bar", selector, 1)
		kept, is := serviceOf(object(t, text)).(*service)
		g.Expect(is).To(BeTrue(), what)
		g.Expect(kept.selector).To(BeNil(), what)
		g.Expect(kept.tooLarge).To(BeTrue(), what)
		_, err := (&run{}).desired(t.Context(), name("a", "svc"), kept)
		g.Expect(err).To(MatchError(ContainSubstring("has a selector with more than 100 labels")), what)
		g.Expect(gatewayOf(object(t, "spec: {selector: {"+selector+"}}"))).To(BeEmpty(), what)
	}

	strange, is := serviceOf(object(t, "metadata: {namespace: a, name: svc}\nspec: {selector: 7}")).(*service)
	g.Expect(is).To(BeTrue())
	g.Expect(strange.selector).To(BeEmpty(), "what cannot be read selects nothing")
}

const ingressText = `
metadata: {namespace: a, name: ingress}
spec:
  defaultBackend: {service: {name: default, port: {number: 1}}}
  rules:
  - http:
      paths:
      - {path: /, backend: {service: {name: svc, port: {number: 80}}}}
      - {path: /a, backend: {service: {name: svc, port: {name: web}}}}
      - {path: /b, backend: {service: {name: svc, port: {number: 80}}}}
      - {path: /c, backend: {resource: {kind: Bucket, name: b}}}
  - host: x
`

func TestNP49_NP52_WhatMattersOfIngresses(t *testing.T) {
	g := NewWithT(t)
	kept := ingressOf(object(t, ingressText))
	g.Expect(kept).To(Equal([]backend{
		{name("a", "svc"), PortReference{Number: 80}}, {name("a", "svc"), PortReference{Name: "web"}},
	}), "neither the default one nor a resource")
	g.Expect(ofIngress(name("a", "ingress"), nil, kept)).To(ConsistOf(name("a", "svc")))
	g.Expect(ofIngress(name("a", "ingress"), kept, nil)).To(ConsistOf(name("a", "svc")))
	g.Expect(ofIngress(name("a", "ingress"), kept, ingressOf(object(t, ingressText, "  tls: []")))).To(BeEmpty())
	other := ingressOf(object(t, strings.Replace(ingressText, "name: svc", "name: other", 1)))
	g.Expect(ofIngress(name("a", "ingress"), kept, other)).To(ConsistOf(name("a", "svc"), name("a", "other")))
}

const virtualServiceText = `
metadata: {namespace: a, name: vs}
spec:
  gateways: [own, i/other, mesh]
  hosts: [x.example.com]
  http:
  - match: [{uri: {prefix: /a}}]
    route: [{destination: {host: svc.a.svc.cluster.local, port: {number: 80}}}]
  tls:
  - match: [{sniHosts: [x]}]
    route: [{destination: {host: tls.a.svc.cluster.local, port: {number: 443}}}]
  tcp:
  - route:
    - {destination: {host: tcp.a.svc.cluster.local, port: {number: 1}}}
    - {destination: {host: svc, port: {number: 2}}}
    - {destination: {host: svc.a, port: {number: 3}}}
    - {destination: {host: example.com, port: {number: 4}}}
    - {destination: {host: x.svc.a.svc.cluster.local, port: {number: 5}}}
    - {destination: {host: svc.b.svc.cluster.local, port: {number: 6}}}
`

func TestNP39_NP40_NP49_NP52_WhatMattersOfVirtualServices(t *testing.T) {
	g := NewWithT(t)
	kept := virtualServiceOf(object(t, virtualServiceText))
	g.Expect(kept).To(Equal(&virtualService{
		gateways: []types.NamespacedName{name("a", "own"), name("i", "other")},
		backends: []backend{
			{name("a", "svc"), PortReference{Number: 80}},
			{name("a", "tcp"), PortReference{Number: 1}},
			{name("a", "tls"), PortReference{Number: 443}},
		},
	}), "full names of Services of its own namespace")
	all := []types.NamespacedName{name("a", "svc"), name("a", "tcp"), name("a", "tls")}
	g.Expect(ofVirtualService(name("a", "vs"), nil, kept)).To(Equal(all))
	g.Expect(ofVirtualService(name("a", "vs"), kept, nil)).To(Equal(all))
	// What matches requests does not matter, and may be anything.
	same := virtualServiceOf(object(t, strings.Replace(virtualServiceText, "prefix: /a", "regex: [1]", 1)))
	g.Expect(ofVirtualService(name("a", "vs"), kept, same)).To(BeEmpty())
	other := virtualServiceOf(object(t, strings.Replace(virtualServiceText, "mesh", "third", 1)))
	g.Expect(ofVirtualService(name("a", "vs"), kept, other)).To(Equal(all))

	for _, strange := range []string{
		"", "spec: 7", "spec: {gateways: x, http: x}", "spec: {http: [7, {route: 7}, {route: [7, {destination: 7}]}]}",
		"spec: {http: [{route: [{destination: {host: [], port: {number: x}}}]}]}",
	} {
		g.Expect(virtualServiceOf(object(t, "metadata: {namespace: a, name: vs}\n", strange))).To(
			Equal(&virtualService{}), strange)
	}
}

func TestWhatMattersOfGateways(t *testing.T) {
	g := NewWithT(t)
	kept := gatewayOf(object(t, "spec: {selector: {istio: x}}"))
	g.Expect(kept).To(Equal(map[string]string{"istio": "x"}))
	g.Expect(ofGateway(name("i", "g"), nil, kept)).To(ConsistOf(name("", "gateway/i/g")))
	g.Expect(ofGateway(name("i", "g"), kept, kept)).To(BeEmpty())
	g.Expect(ofGateway(name("i", "g"), kept, nil)).To(HaveLen(1))
	g.Expect(ofGateway(name("i", "g"), kept, gatewayOf(object(t, "spec: {selector: 7}")))).To(HaveLen(1))
}

func TestNP50_WhatMattersOfNamespaces(t *testing.T) {
	g := NewWithT(t)
	const text = "metadata: {name: b, labels: {x: '1'}"
	kept := namespaceOf(object(t, text, "}"))
	g.Expect(ofNamespace(name("", "b"), nil, kept)).To(ConsistOf(name("", "namespace/b")))
	g.Expect(ofNamespace(name("", "b"), kept, nil)).To(HaveLen(1))
	g.Expect(ofNamespace(name("", "b"), kept, namespaceOf(object(t, text, ", annotations: {a: b}}")))).To(BeEmpty())
	other := namespaceOf(object(t, "metadata: {name: b, labels: {x: '2'}}"))
	g.Expect(ofNamespace(name("", "b"), kept, other)).To(HaveLen(1))
	g.Expect(ofNamespace(name("", "b"), kept,
		namespaceOf(object(t, text, ", deletionTimestamp: '2026-01-01T00:00:00Z'}")))).To(HaveLen(1))
}

func TestNP45_NP51_WhatMattersOfPods(t *testing.T) {
	pod := func(labels string) any {
		return clientKeysOf(object(t, "metadata: {namespace: a, name: p, labels: {"+labels+"}}"))
	}
	client := clientLabelPrefix + "svc-tcp-80"
	g := NewWithT(t)
	plain, known := pod("x: v"), pod(client+": allowed, x: v")
	g.Expect(known).To(Equal([]string{client}))
	g.Expect(pod(client+": denied")).To(BeEmpty(), "NP-45")
	g.Expect(ofPod(name("a", "p"), nil, plain)).To(BeEmpty(), "one that is no client")
	g.Expect(ofPod(name("a", "p"), plain, nil)).To(BeEmpty())
	g.Expect(ofPod(name("a", "p"), nil, known)).To(ConsistOf(name("", "pods/a")))
	g.Expect(ofPod(name("a", "p"), known, nil)).To(ConsistOf(name("", "pods/a")))
	g.Expect(ofPod(name("a", "p"), known, pod(client+": allowed, x: z"))).To(BeEmpty())
	g.Expect(ofPod(name("a", "p"), known, pod(client+": denied"))).To(HaveLen(1))
	g.Expect(ofPod(name("a", "p"), known, pod(client+"80: allowed"))).To(HaveLen(1))

	// Services are reconciled when the labels of clients in a namespace are others than before, with each change.
	m := newMemory()
	g.Expect(m.changed("a", []string{client})).To(BeTrue())
	g.Expect(m.changed("a", []string{client})).To(BeFalse(), "another pod with the same label")
	g.Expect(m.changed("a", nil)).To(BeTrue(), "the last one is gone")
	g.Expect(m.changed("a", []string{client})).To(BeTrue(), "there is one again")
	g.Expect(m.changed("b", nil)).To(BeFalse())
}

const policyText = `
metadata:
  namespace: b
  name: egress
  uid: u
  labels:
    networking.resources.gardener.cloud/service-name: svc
    networking.resources.gardener.cloud/service-namespace: a
spec: {podSelector: {}, policyTypes: [Ingress]}
`

func TestNP52_WhatMattersOfPolicies(t *testing.T) {
	g := NewWithT(t)
	kept := policyOf(object(t, policyText))
	g.Expect(ofPolicy(name("b", "egress"), nil, kept)).To(ConsistOf(name("a", "svc")))
	g.Expect(ofPolicy(name("b", "egress"), kept, nil)).To(ConsistOf(name("a", "svc")))
	g.Expect(ofPolicy(name("b", "egress"), kept, policyOf(object(t, policyText)))).To(BeEmpty())
	edited := policyOf(object(t, strings.Replace(policyText, "Ingress", "Egress", 1)))
	g.Expect(ofPolicy(name("b", "egress"), kept, edited)).To(ConsistOf(name("a", "svc")))
	moved := policyOf(object(t, strings.Replace(policyText, ": svc", ": other", 1)))
	g.Expect(ofPolicy(name("b", "egress"), kept, moved)).To(ConsistOf(name("a", "svc"), name("a", "other")))
	without := policyOf(object(t, strings.Replace(policyText, "service-name:", "x:", 1)))
	g.Expect(ofPolicy(name("b", "egress"), nil, without)).To(BeEmpty(), "without labels")
}

func TestWhatIsSaidIsSaidOnce(t *testing.T) {
	g := NewWithT(t)
	m := newMemory()
	about := subject{name("a", "svc"), reasonInvalid}
	g.Expect(m.say(about, "")).To(BeFalse())
	g.Expect(m.say(about, "x")).To(BeTrue())
	g.Expect(m.say(about, "x")).To(BeFalse())
	g.Expect(m.say(about, "y")).To(BeTrue())
	g.Expect(m.say(about, "")).To(BeFalse())
	g.Expect(m.say(about, "y")).To(BeTrue(), "again")
	for i := range 2 * maxSaid {
		m.say(subject{name("a", fmt.Sprint(i)), reasonInvalid}, "x")
	}
	g.Expect(m.said).To(HaveLen(maxSaid))
	m.forget(name("a", "svc"))
	g.Expect(m.said).To(HaveLen(maxSaid - 1))
}

func TestPoliciesAreNotWrittenWithoutEnd(t *testing.T) {
	g := NewWithT(t)
	m := newMemory()
	now := time.Now()
	for range runBurst {
		g.Expect(m.pause(name("a", "svc"), now)).To(BeZero())
	}
	g.Expect(m.pause(name("a", "svc"), now)).To(Equal(runPeriod))
	g.Expect(m.pause(name("a", "svc"), now)).To(Equal(runPeriod), "asking does not count")
	g.Expect(m.pause(name("a", "other"), now)).To(BeZero())
	g.Expect(m.pause(name("a", "svc"), now.Add(runPeriod))).To(BeZero())
	m.forget(name("a", "svc"))
	g.Expect(m.runs).To(HaveLen(1))
}

func TestPoliciesOfATargetAreWrittenAtABoundedRate(t *testing.T) {
	g := NewWithT(t)
	m := newMemory()
	now := time.Now()
	g.Expect(m.writable(10, now)).To(Equal(10))
	g.Expect(m.writable(2*writeBurst, now)).To(Equal(writeBurst-10), "the others have to wait")
	g.Expect(m.writable(1, now)).To(BeZero())
	g.Expect(m.writable(2*writeBurst, now.Add(runPeriod))).To(BeNumerically("~", writeRate*runPeriod.Seconds(), 1))
	g.Expect(newMemory().writable(1, now)).To(Equal(1), "another target does not")
}

func TestWhatIsComputedIsUsedUntilSomethingChanges(t *testing.T) {
	g := NewWithT(t)
	var c cached[int]
	computed := 0
	get := func(changes int64, certain bool) int {
		value, _ := c.get(changes, func() (int, bool) {
			computed++
			return computed, certain
		})
		return value
	}
	g.Expect(get(0, false)).To(Equal(1))
	g.Expect(get(0, true)).To(Equal(2), "it was not certain")
	g.Expect(get(0, true)).To(Equal(2))
	g.Expect(get(1, true)).To(Equal(3))
}
