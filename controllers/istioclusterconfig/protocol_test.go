package istioclusterconfig

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// ruleFrom reads a DestinationRule of namespace ns.
func ruleFrom(g *WithT, spec string) any {
	obj := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte("spec: "+spec), &obj.Object)).To(Succeed())
	obj.SetNamespace("ns")
	return ruleOf(obj)
}

func TestIST3_IST4_ProtocolOfARule(t *testing.T) {
	const upgrade = "connectionPool: {http: {h2UpgradePolicy: UPGRADE}}"
	const client = "connectionPool: {http: {useClientProtocol: true}}"
	level := func(port, settings string) string {
		return "portLevelSettings: [{port: {number: " + port + "}, " + settings + "}]"
	}
	for _, row := range []struct {
		name, policy string
		says         port
		want         protocol
	}{
		{"IST-2 upgrade", upgrade, port{80, other}, http2},
		{"IST-2 nothing said", "", port{80, http2}, http2},
		{"IST-3 client", client, port{80, other}, asClient},
		{"IST-3 client and upgrade", "connectionPool: {http: {useClientProtocol: true, h2UpgradePolicy: UPGRADE}}",
			port{80, other}, asClient},
		{"IST-3 not the client", "connectionPool: {http: {useClientProtocol: false}}", port{80, other}, other},
		{"IST-4 port before all", client + ", " + level("80", upgrade), port{80, other}, http2},
		{"IST-4 another port", client + ", " + level("81", upgrade), port{80, other}, asClient},
		{"IST-4 empty port", client + ", " + level("80", "connectionPool: {}"), port{80, other}, asClient},
		{"IST-4 empty all", "connectionPool: {http: {}}, " + level("80", "tls: {}"), port{80, http2}, http2},
		{"IST-4 no upgrade falls through", "connectionPool: {http: {h2UpgradePolicy: DO_NOT_UPGRADE}}",
			port{80, http2}, http2},
		{"first of two for a port", "portLevelSettings: [{port: {number: 80}, " + client + "}, {port: {number: 80}, " +
			upgrade + "}]", port{80, other}, asClient},
		{"numbers that are none", "portLevelSettings: [{port: {number: 1e30}, " + client + "}, {port: {number: -1}, " +
			client + "}, {port: {number: x}, " + client + "}, {port: 80, " + client + "}, 80]", port{80, other}, other},
		{"what no schema allows", "connectionPool: {http: [1]}, portLevelSettings: {a: b}", port{80, http2}, http2},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			kept, is := ruleFrom(g, "{host: svc, exportTo: ['*'], trafficPolicy: {"+row.policy+"}}").(*rule)
			g.Expect(is).To(BeTrue())
			g.Expect(kept.fault).To(BeEmpty())
			g.Expect(kept.of(row.says)).To(Equal(row.want))
		})
	}
}

func TestIST2_IST5_IST6_ProtocolOfAPort(t *testing.T) {
	for _, row := range []struct {
		name, port  string
		appProtocol *string
		want        protocol
	}{
		{"IST-2 grpc", "grpc-api", nil, http2},
		{"IST-2 only grpc", "grpc", nil, http2},
		{"IST-2 http2", "http2-api", nil, http2},
		{"IST-2 h2c", "tcp", ptr.To("kubernetes.io/h2c"), http2},
		{"IST-2 appProtocol grpc", "tcp", ptr.To("grpc"), http2},
		{"IST-2 appProtocol in capitals", "tcp", ptr.To("GRPC-Web"), http2},
		{"IST-5 appProtocol http", "grpc-api", ptr.To("http"), other},
		{"IST-5 appProtocol tcp", "grpc-api", ptr.To("tcp"), other},
		{"IST-6 grpc-web in capitals", "GRPC-WEB", nil, http2},
		{"IST-6 grpc-web-extra", "grpc-web-extra", nil, http2},
		{"IST-6 grpc-webinar", "grpc-webinar", nil, http2},
		{"IST-6 tcp", "tcp-main", nil, other},
		{"IST-6 http", "http-server", nil, other},
		{"IST-6 https", "https-main", nil, other},
		{"IST-6 no name", "", nil, other},
		{"a longer word", "grpcs", nil, other},
	} {
		t.Run(row.name, func(t *testing.T) {
			NewWithT(t).Expect(ofPort(row.port, row.appProtocol)).To(Equal(row.want))
		})
	}
}

func TestIST9_IST10_HostsOfRules(t *testing.T) {
	for host, want := range map[string]types.NamespacedName{
		"svc":                           {Namespace: "own", Name: "svc"},
		"svc.ns.svc.cluster.local":      {Namespace: "ns", Name: "svc"},
		"svc.ns":                        {},
		"svc.ns.svc":                    {},
		"example.org":                   {},
		"*.ns.svc.cluster.local":        {Namespace: "ns", Name: "*"},
		"a.b.c.svc.cluster.local":       {},
		".ns.svc.cluster.local":         {},
		"svc..svc.cluster.local":        {},
		".svc.cluster.local":            {},
		"":                              {},
		strings.Repeat("a", 64):         {},
		"a." + strings.Repeat("b", 1e6): {},
		strings.Repeat("a", 1e6) + ".ns.svc.cluster.local": {},
	} {
		t.Run(host[:min(len(host), 30)], func(t *testing.T) {
			g := NewWithT(t)
			service, is := serviceOfHost(host, "own")
			g.Expect(service).To(Equal(want))
			g.Expect(is).To(Equal(want.Name != ""))
		})
	}
}

func TestIST11_IST13_WhereExportsGo(t *testing.T) {
	for _, row := range []struct {
		name    string
		entries []string
		want    map[string]bool
	}{
		{"IST-11 none", nil, nil},
		{"IST-11 all", []string{"a", "*"}, map[string]bool{"own": true, "a": true, "b": true}},
		{"IST-11 names", []string{"b", "a"}, map[string]bool{"a": true, "b": true}},
		{"IST-11 own", []string{"."}, map[string]bool{"own": true}},
		{"IST-13 nowhere", []string{"~"}, nil},
		{"IST-13 blanks", []string{" a", "", " \t", " . "}, map[string]bool{"own": true, "a": true}},
		{"no name of a namespace", []string{strings.Repeat("a", 64)}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			e := exportsOf(row.entries, "own")
			for _, name := range []string{"own", "a", "b", "c", strings.Repeat("a", 64)} {
				g.Expect(e.to(name)).To(Equal(row.want[name] || e.all), name)
			}
			g.Expect(e.nowhere()).To(Equal(len(row.want) == 0))
		})
	}
}

func TestIST17_OnlyWhatMattersIsKept(t *testing.T) {
	g := NewWithT(t)
	for _, spec := range []string{
		"{}", "7", "{host: 7}", "{host: example.org, exportTo: ['*']}", "{host: svc}", "{host: svc, exportTo: ['~']}",
		"{host: svc, exportTo: '*'}", "{host: svc, exportTo: [7]}",
		"{host: svc, exportTo: ['*'], subsets: [{name: a}]}", "{host: svc, exportTo: ['*'], workloadSelector: {}}",
	} {
		g.Expect(ruleFrom(g, spec)).To(Equal(nothing{}), spec)
	}
	const spec = "host: svc, exportTo: ['*'], trafficPolicy: {"
	kept := ruleFrom(g, "{"+spec+"}, subsets: []}")
	g.Expect(kept).To(BeAssignableToTypeOf(&rule{}))
	name := types.NamespacedName{Namespace: "ns", Name: "rule"}
	other := ruleFrom(g, "{"+spec+"loadBalancer: {simple: RANDOM}}}")
	g.Expect(ofRule(name, kept, other)).To(BeEmpty(), "nothing follows from this change")
	upgraded := ruleFrom(g, "{"+spec+"connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}}")
	source := []types.NamespacedName{{Name: "ns"}}
	g.Expect(ofRule(name, kept, upgraded)).To(Equal(source))
	g.Expect(ofRule(name, nil, kept)).To(Equal(source), "new")
	g.Expect(ofRule(name, kept, nil)).To(Equal(source), "gone")
	g.Expect(ofRule(name, kept, nothing{})).To(Equal(source))
	g.Expect(ofRule(name, nil, nothing{})).To(BeEmpty())
	g.Expect(ofRule(name, nothing{}, nil)).To(BeEmpty())
}

func TestIST17_RequestsThatFollowFromNamespacesAndFilters(t *testing.T) {
	g := NewWithT(t)
	name := types.NamespacedName{Name: "ns"}
	own, gateways := types.NamespacedName{Name: "ns"}, types.NamespacedName{Name: "ingress/ns"}
	g.Expect(ofNamespace(name, nil, namespace{"1", false})).To(ConsistOf(own))
	g.Expect(ofNamespace(name, nil, namespace{"1", true})).To(ConsistOf(own, gateways))
	g.Expect(ofNamespace(name, namespace{"1", true}, namespace{"1", false})).To(ConsistOf(gateways))
	g.Expect(ofNamespace(name, namespace{"1", true}, namespace{"1", true})).To(BeEmpty())
	g.Expect(ofNamespace(name, namespace{"1", true}, nil)).To(ConsistOf(gateways))
	g.Expect(ofNamespace(name, namespace{"1", false}, nil)).To(BeEmpty())

	ours := types.NamespacedName{Namespace: "gateways", Name: "ns-cluster-configuration"}
	g.Expect(ofFilter(ours, nil, filter{uid: "1"})).To(ConsistOf(own))
	g.Expect(ofFilter(ours, filter{uid: "1"}, filter{uid: "1"})).To(BeEmpty())
	g.Expect(ofFilter(types.NamespacedName{Namespace: "gateways", Name: "else"}, nil, filter{uid: "1"})).To(BeEmpty())
	g.Expect(ofFilter(types.NamespacedName{Name: "-cluster-configuration"}, nil, filter{uid: "1"})).To(BeEmpty())
}

func TestRulesThatExceedBounds(t *testing.T) {
	g := NewWithT(t)
	many := strings.TrimSuffix(strings.Repeat("{port: {number: 1}}, ", 101), ", ")
	kept, _ := ruleFrom(g, "{host: svc, exportTo: ['*'], trafficPolicy: {portLevelSettings: ["+many+"]}}").(*rule)
	g.Expect(kept.fault).To(Equal("spec.trafficPolicy.portLevelSettings has 101 entries, more than 100"))
	kept, _ = ruleFrom(g, "{host: svc, exportTo: ["+strings.Repeat("a, ", 100)+"b]}").(*rule)
	g.Expect(kept.fault).To(Equal("spec.exportTo has 101 entries, more than 100"))

	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAnnotations(map[string]string{AnnotationExportTo: strings.Repeat("a,", 2049)})
	s, _ := serviceOf(obj).(*service)
	g.Expect(s.fault).To(Equal("annotation networking.istio.io/exportTo has 4098 bytes, more than 4096"))
	obj.SetAnnotations(map[string]string{AnnotationExportTo: "*"})
	ports := make([]any, 101)
	for i := range ports {
		ports[i] = map[string]any{"port": int64(i + 1)}
	}
	obj.Object["spec"] = map[string]any{"ports": ports}
	s, _ = serviceOf(obj).(*service)
	g.Expect(s.fault).To(Equal("spec.ports has 101 entries, more than 100"))
	obj.Object["spec"] = map[string]any{"ports": "none"}
	g.Expect(serviceOf(obj)).To(Equal(nothing{}))
}

// wantFilter is the EnvoyFilter of three protocols, as Gardener's resource manager writes it.
const wantFilter = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata:
  namespace: gateways
  name: ns-cluster-configuration
  labels: {resources.gardener.cloud/managed-by: istio-cluster-configuration}
  ownerReferences:
  - {apiVersion: v1, kind: Namespace, name: ns, uid: "1", controller: true, blockOwnerDeletion: true}
spec:
  configPatches:
  - applyTo: CLUSTER
    match: {context: GATEWAY, cluster: {name: outbound|443||svc.ns.svc.cluster.local}}
    patch:
      operation: MERGE
      value: {per_connection_buffer_limit_bytes: 32768}
  - applyTo: CLUSTER
    match: {context: GATEWAY, cluster: {name: outbound|9090||svc.ns.svc.cluster.local}}
    patch:
      operation: MERGE
      value:
        per_connection_buffer_limit_bytes: 32768
        typed_extension_protocol_options:
          envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
            "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
            common_http_protocol_options: {max_connection_duration: 86400s}
            explicit_http_config:
              http2_protocol_options: {initial_stream_window_size: 65536, initial_connection_window_size: 1048576}
  - applyTo: CLUSTER
    match: {context: GATEWAY, cluster: {name: outbound|9091||svc.ns.svc.cluster.local}}
    patch:
      operation: MERGE
      value:
        per_connection_buffer_limit_bytes: 32768
        typed_extension_protocol_options:
          envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
            "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
            common_http_protocol_options: {max_connection_duration: 86400s}
            use_downstream_protocol_config:
              http2_protocol_options: {initial_stream_window_size: 65536, initial_connection_window_size: 1048576}
`

func TestIST1_IST2_IST3_ContentOfAnEnvoyFilter(t *testing.T) {
	g := NewWithT(t)
	service := types.NamespacedName{Namespace: "ns", Name: "svc"}
	made := newFilter("gateways", "ns", "1", []patch{
		{service, 443, other}, {service, 9090, http2}, {service, 9091, asClient},
	})
	text, err := yaml.Marshal(made)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(MatchYAML(wantFilter))

	// What comes by JSON is the same.
	live := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(wantFilter), &live.Object)).To(Succeed())
	g.Expect(fingerprintOf(live)).To(Equal(fingerprintOf(made)))
	live.SetAnnotations(map[string]string{"a": "b"})
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "test"}})
	g.Expect(fingerprintOf(live)).To(Equal(fingerprintOf(made)), "nothing that the controller determines")
	live.SetOwnerReferences(nil)
	g.Expect(fingerprintOf(live)).NotTo(Equal(fingerprintOf(made)))
}
