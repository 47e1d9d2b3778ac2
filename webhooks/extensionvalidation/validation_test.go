package extensionvalidation_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/extensionvalidation"
)

// minimal has a valid spec of each kind with nothing more than is required.
var minimal = map[string]string{
	"BackupBucket":          `{type: a, region: r, secretRef: {name: s, namespace: ns}}`,
	"BackupEntry":           `{type: a, bucketName: b, region: r, secretRef: {name: s, namespace: ns}}`,
	"Bastion":               `{type: a, userData: YQ==, ingress: [{ipBlock: {cidr: 10.0.0.0/8}}]}`,
	"ContainerRuntime":      `{type: a, binaryPath: /bin, workerPool: {name: p}}`,
	"ControlPlane":          `{type: a, region: r, secretRef: {name: s, namespace: ns}}`,
	"DNSRecord":             `{type: a, secretRef: {name: s}, name: a.example.com, recordType: A, values: [10.0.0.1]}`,
	"Extension":             `{type: a}`,
	"Infrastructure":        `{type: a, region: r, secretRef: {name: s, namespace: ns}}`,
	"Network":               `{type: a, podCIDR: 10.1.0.0/16, serviceCIDR: 10.2.0.0/16}`,
	"OperatingSystemConfig": `{type: a, purpose: reconcile}`,
	"SelfHostedShootExposure": `{type: a, port: 443,
		endpoints: [{nodeName: node, addresses: [{type: InternalIP, address: 10.0.0.1}]}]}`,
	"Worker": `{type: a, region: r, secretRef: {name: s, namespace: ns},
		pools: [{name: p, machineType: m, machineImage: {name: i, version: v}}]}`,
}

// object has a spec, and possibly more, given in YAML.
func object(kind, spec string, more ...string) []byte {
	text := fmt.Sprintf("{apiVersion: extensions.gardener.cloud/v1alpha1, kind: %s, "+
		"metadata: {name: x, resourceVersion: \"1\"%s}, spec: %s",
		kind, map[bool]string{true: "", false: ", namespace: ns"}[cluster(kind)], spec)
	document, err := yaml.YAMLToJSON([]byte(text + strings.Join(more, "") + "}"))
	if err != nil {
		panic(fmt.Errorf("%w in %s", err, text))
	}
	return document
}

// cluster reports whether a kind has no namespaces.
func cluster(kind string) bool { return kind == "BackupBucket" || kind == "BackupEntry" }

// patched changes a document.
func patched(document []byte, changes string) []byte {
	patch, err := yaml.YAMLToJSON([]byte(changes))
	if err != nil {
		panic(err)
	}
	result, err := jsonpatch.MergePatch(document, patch)
	if err != nil {
		panic(err)
	}
	return result
}

func request(kind string, current, old []byte) *admission.Request {
	r := &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: current},
		Kind: metav1.GroupVersionKind{Group: "extensions.gardener.cloud", Version: "v1alpha1", Kind: kind},
	}}
	if !cluster(kind) {
		r.Namespace = "ns"
	}
	if old != nil {
		r.Operation, r.OldObject.Raw = admissionv1.Update, old
	}
	return r
}

func handle(t testing.TB, r *admission.Request) *metav1.Status {
	t.Helper()
	response, err := extensionvalidation.Webhook().Handler.Handle(t.Context(), r)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Patch).To(BeEmpty())
	return response.Denied
}

// causes are "path: type" of a refusal.
func causes(t testing.TB, kind string, current, old []byte) []string {
	t.Helper()
	denied := handle(t, request(kind, current, old))
	if denied == nil {
		return nil
	}
	NewWithT(t).Expect(denied.Code).To(BeEquivalentTo(422), denied.Message)
	var all []string
	for _, c := range denied.Details.Causes {
		all = append(all, c.Field+": "+strings.TrimPrefix(string(c.Type), "FieldValue"))
	}
	return all
}

func TestEXV1_MinimalObjectsAreValid(t *testing.T) {
	for kind, spec := range minimal {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(causes(t, kind, object(kind, spec), nil)).To(BeEmpty())
			g.Expect(causes(t, kind, object(kind, spec), object(kind, spec))).To(BeEmpty())
		})
	}
}

func TestEXV2_RequiredFields(t *testing.T) {
	for kind, fields := range map[string]map[string]string{
		"BackupBucket":            {"type": "", "region": "", "secretRef": "secretRef.name"},
		"BackupEntry":             {"type": "", "bucketName": "", "region": "", "secretRef": "secretRef.name"},
		"Bastion":                 {"type": "", "userData": "", "ingress": ""},
		"ContainerRuntime":        {"type": "", "binaryPath": "", "workerPool": "workerPool.name"},
		"ControlPlane":            {"type": "", "region": "", "secretRef": "secretRef.name"},
		"Infrastructure":          {"type": "", "region": "", "secretRef": "secretRef.name"},
		"Extension":               {"type": ""},
		"DNSRecord":               {"type": "", "secretRef": "secretRef.name", "values": ""},
		"Network":                 {"type": "", "podCIDR": "", "serviceCIDR": ""},
		"OperatingSystemConfig":   {"purpose": ""},
		"SelfHostedShootExposure": {"type": "", "endpoints": ""},
		"Worker":                  {"type": "", "region": "", "secretRef": "secretRef.name"},
	} {
		for field, path := range fields {
			t.Run(kind+" "+field, func(t *testing.T) {
				if path == "" {
					path = field
				}
				invalid := patched(object(kind, minimal[kind]), "spec: {"+field+": null}")
				NewWithT(t).Expect(causes(t, kind, invalid, nil)).To(ContainElement("spec." + path + ": Required"))
			})
		}
	}
}

func TestEXV3_ObjectsThatAreBeingDeleted(t *testing.T) {
	for kind, spec := range minimal {
		t.Run(kind, func(t *testing.T) {
			g := NewWithT(t)
			old := patched(object(kind, spec),
				`metadata: {deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0}`)
			g.Expect(causes(t, kind, patched(old, "metadata: {annotations: {a: b}}"), old)).To(BeEmpty())
			g.Expect(causes(t, kind, patched(old, "spec: {type: other, unknown: x}"),
				old)).To(Equal([]string{"spec: Forbidden"}))
			denied := handle(t, request(kind, patched(old, "spec: {type: confidential}"), old))
			g.Expect(denied.Message).To(And(ContainSubstring("[type]"), Not(ContainSubstring("confidential"))))
		})
	}
}

func TestEXV4_ImmutableFields(t *testing.T) {
	for kind, changes := range map[string]map[string]string{
		"BackupBucket":     {"type": "type: x", "region": "region: x"},
		"BackupEntry":      {"type": "type: x"},
		"Bastion":          {"type": "type: x", "userData": "userData: Yg=="},
		"ContainerRuntime": {"type": "type: x", "workerPool.name": "workerPool: {name: x}"},
		"ControlPlane":     {"type": "type: x", "region": "region: x"},
		"Infrastructure":   {"type": "type: x", "region": "region: x"},
		"Extension":        {"type": "type: x"},
		"DNSRecord":        {"type": "type: x", "name": "name: b.example.com", "recordType": "recordType: TXT"},
		"Network": {"type": "type: x", "podCIDR": "podCIDR: 10.3.0.0/16",
			"serviceCIDR": "serviceCIDR: 10.4.0.0/16"},
		"OperatingSystemConfig":   {"type": "type: x", "purpose": "purpose: provision"},
		"SelfHostedShootExposure": {"type": "type: x"},
		"Worker":                  {"type": "type: x", "region": "region: x"},
	} {
		for field, change := range changes {
			t.Run(kind+" "+field, func(t *testing.T) {
				old := object(kind, minimal[kind])
				NewWithT(t).Expect(causes(t, kind, patched(old, "spec: {"+change+"}"), old)).To(Equal([]string{
					"spec." + field + ": Invalid",
				}))
			})
		}
	}
}

func TestEXV5_BackupEntriesMayMove(t *testing.T) {
	old := object("BackupEntry", minimal["BackupEntry"])
	NewWithT(t).Expect(causes(t, "BackupEntry", patched(old, "spec: {bucketName: x, region: x}"), old)).To(BeEmpty())
}

// table checks changes of a minimal object.
func table(t *testing.T, kind string, tests map[string][]string) {
	t.Helper()
	for change, want := range tests {
		t.Run(change, func(t *testing.T) {
			NewWithT(t).Expect(causes(t, kind, patched(object(kind, minimal[kind]), "spec: {"+change+"}"),
				nil)).To(ConsistOf(want))
		})
	}
}

func TestEXV6_DNSRecords(t *testing.T) {
	table(t, "DNSRecord", map[string][]string{
		`name: "*.example.com"`:               {},
		`name: "*.*.example.com"`:             {"spec.name: Invalid"},
		`name: "example"`:                     {"spec.name: Invalid"},
		`name: ""`:                            {"spec.name: Required"},
		`name: "_acme-challenge.example.com"`: {"spec.name: Invalid"},
		`name: "_acme-challenge.example.com", recordType: TXT, values: [any]`: {},
		`recordType: MX`: {"spec.recordType: NotSupported"},
		`recordType: CNAME, values: [b.example.com]`:                {},
		`recordType: CNAME, values: [b.example.com, c.example.com]`: {"spec.values: Invalid"},
		`recordType: CNAME, values: [b]`:                            {"spec.values[0]: Invalid"},
		`values: [x]`:                                               {"spec.values[0]: Invalid"},
		`values: ["2001:db8::1"]`:                                   {}, // the family is not looked at
		`recordType: AAAA, values: ["10.0.0.1"]`:                    {},
		`ttl: -1`:                                                   {"spec.ttl: Invalid"},
		`ttl: 2147483648`:                                           {"spec.ttl: Invalid"},
		`ttl: 120`:                                                  {},
		`region: ""`:                                                {"spec.region: Invalid"},
		`zone: ""`:                                                  {"spec.zone: Invalid"},
	})
}

func TestEXV7_Networks(t *testing.T) {
	six := `podCIDR: "2001:db8::/64", serviceCIDR: "2001:db8::/108"`
	table(t, "Network", map[string][]string{
		`serviceCIDR: 10.1.2.0/24`: {"spec.serviceCIDR: Invalid"},
		`podCIDR: x`:               {"spec.podCIDR: Invalid"},
		six: {"spec.podCIDR: Invalid", "spec.serviceCIDR: Invalid",
			"spec.serviceCIDR: Invalid"},
		`ipFamilies: [IPv6], ` + six:     {},
		`ipFamilies: [IPv6]`:             {"spec.podCIDR: Invalid", "spec.serviceCIDR: Invalid"},
		`ipFamilies: [IPv4, IPv6]`:       {},
		`ipFamilies: [IPv4, IPv4]`:       {"spec.ipFamilies[1]: Duplicate"},
		`ipFamilies: [IPv5], podCIDR: x`: {"spec.ipFamilies[0]: NotSupported"},
	})
	four, both, onlySix := "[IPv4]", "[IPv4, IPv6]", "[IPv6]"
	for _, test := range []struct {
		from, to string
		moves    bool
	}{
		{four, both, true}, {both, four, true}, {"null", both, true}, {both, "null", true}, {"null", four, true},
		{four, onlySix, false}, {onlySix, both, false}, {both, "[IPv6, IPv4]", false}, {onlySix, four, false},
	} {
		t.Run(test.from+" to "+test.to, func(t *testing.T) {
			old := patched(object("Network", minimal["Network"]), "spec: {ipFamilies: "+test.from+"}")
			changed := patched(old, "spec: {ipFamilies: "+test.to+"}")
			if test.moves {
				NewWithT(t).Expect(causes(t, "Network", changed, old)).To(BeEmpty())
			} else {
				NewWithT(t).Expect(causes(t, "Network", changed, old)).To(ContainElement("spec.ipFamilies: Invalid"))
			}
		})
	}
}

func TestEXV8_OperatingSystemConfigs(t *testing.T) {
	const inline = `content: {inline: {encoding: "", data: x}}`
	table(t, "OperatingSystemConfig", map[string][]string{
		`purpose: other`: {"spec.purpose: NotSupported"},
		`type: null`:     {}, // the type is not required
		`criConfig: {name: containerd, cgroupDriver: x}`:                 {"spec.criConfig.cgroupDriver: NotSupported"},
		`criConfig: {containerd: {}}`:                                    {"spec.criConfig.containerd.sandboxImage: Required"},
		`purpose: provision, criConfig: {containerd: {sandboxImage: i}}`: {"spec.criConfig.containerd: Forbidden"},
		`criConfig: {containerd: {sandboxImage: i, registries: [{upstream: _default, server: "https://h",
			hosts: [{url: "http://h:5000/v2", capabilities: [pull, resolve, push]}]}, {upstream: "h:5000"}]}}`: {},
		`criConfig: {containerd: {sandboxImage: i, registries: [{upstream: h}, {upstream: h}]}}`: {
			"spec.criConfig.containerd.registries[1].upstream: Duplicate",
		},
		`criConfig: {containerd: {sandboxImage: i, registries: [
			{upstream: "h:65536", server: "ftp://h", hosts: [{url: h, capabilities: [x]}]}]}}`: {
			"spec.criConfig.containerd.registries[0].upstream: Invalid",
			"spec.criConfig.containerd.registries[0].server: Invalid",
			"spec.criConfig.containerd.registries[0].hosts[0].url: Invalid",
			"spec.criConfig.containerd.registries[0].hosts[0].capabilities[0]: NotSupported",
		},
		`criConfig: {containerd: {sandboxImage: i, plugins: [{path: [a], values: {x: y}}, {op: remove, path: [a]}]}}`: {},
		`criConfig: {containerd: {sandboxImage: i, plugins: [
			{op: x}, {op: remove, path: [a], values: {}}, {path: [a], values: x}]}}`: {
			"spec.criConfig.containerd.plugins[0].op: NotSupported",
			"spec.criConfig.containerd.plugins[0].path: Required",
			"spec.criConfig.containerd.plugins[1].values: Forbidden",
			"spec.criConfig.containerd.plugins[2].values: Invalid",
		},
		`units: [{dropIns: [{}]}]`: {
			"spec.units[0].name: Required", "spec.units[0].dropIns[0].name: Required",
			"spec.units[0].dropIns[0].content: Required",
		},
		`units: [{name: u, filePaths: [/a, /b]}], files: [{path: /a, ` + inline + `}]`: {
			"spec.units[0].filePaths[1]: NotFound",
		},
		`files: [{path: /a}]`:       {"spec.files[0].content: Required"},
		`files: [{` + inline + `}]`: {"spec.files[0].path: Required"},
		`files: [{path: /a, content: {secretRef: {}, imageRef: {}}}]`: {
			"spec.files[0].content: Forbidden", "spec.files[0].content.secretRef.name: Required",
			"spec.files[0].content.secretRef.dataKey: Required", "spec.files[0].content.imageRef.image: Required",
			"spec.files[0].content.imageRef.filePathInImage: Required",
		},
		`files: [{path: /a, content: {inline: {encoding: x, data: x}}}]`: {
			"spec.files[0].content.inline.encoding: NotSupported",
		},
		`files: [{path: /a, ` + inline + `}, {path: /a, ` + inline + `}]`:                           {"spec.files[1].path: Duplicate"},
		`files: [{path: /a, hostName: a, ` + inline + `}, {path: /a, hostName: b, ` + inline + `}]`: {},
		`files: [{path: /a, hostName: a, ` + inline + `}, {path: /a, hostName: b, ` + inline + `},
			{path: /a, hostName: b, ` + inline + `}]`: {
			"spec.files[2].path: Duplicate",
		},
		`files: [{path: /a, hostName: a, ` + inline + `}, {path: /a, ` + inline + `}]`: {"spec.files[1].path: Duplicate"},
		`files: [{path: /a, hostName: "A_", ` + inline + `}]`:                          {"spec.files[0].hostName: Invalid"},
	})
	t.Run("status", func(t *testing.T) {
		g := NewWithT(t)
		spec := `{type: a, purpose: reconcile, units: [{name: u, filePaths: [/b]}]}`
		g.Expect(causes(t, "OperatingSystemConfig", object("OperatingSystemConfig", spec,
			`, status: {extensionUnits: [{}], extensionFiles: [{path: /b}]}`), nil)).To(ConsistOf(
			"status.extensionUnits[0].name: Required", "status.extensionFiles[0].content: Required"))
	})
}

func TestEXV9_Workers(t *testing.T) {
	const pool = `name: p, machineType: m, machineImage: {name: i, version: v}`
	table(t, "Worker", map[string][]string{
		`pools: [{}]`: {
			"spec.pools[0].name: Required", "spec.pools[0].machineType: Required",
			"spec.pools[0].machineImage.name: Required",
			"spec.pools[0].machineImage.version: Required",
		},
		`pools: [{` + pool + `, architecture: foo}]`:                  {"spec.pools[0].architecture: NotSupported"},
		`pools: [{` + pool + `, architecture: arm64}]`:                {},
		`pools: [{` + pool + `, nodeTemplate: {capacity: {cpu: 2}}}]`: {},
		`pools: [{` + pool + `, nodeTemplate: {capacity: {cpu: "-1"}}}]`: {
			"spec.pools[0].nodeTemplate.capacity[cpu]: Invalid",
		},
	})
}

func TestEXV10_DeletionIsAllowed(t *testing.T) {
	for kind := range minimal {
		r := request(kind, nil, []byte("garbage"))
		r.Operation = admissionv1.Delete
		NewWithT(t).Expect(handle(t, r)).To(BeNil())
	}
}

func TestEXV12_Exposures(t *testing.T) {
	const path = "spec.endpoints[0].addresses[0]"
	address := func(kind, address string) string {
		return fmt.Sprintf(`endpoints: [{nodeName: node, addresses: [{type: %s, address: "%s"}]}]`, kind, address)
	}
	ref := func(version, kind, namespace, name string) string {
		return fmt.Sprintf(`credentialsRef: {apiVersion: %s, kind: %s, namespace: %s, name: "%s"}`, version, kind,
			namespace, name)
	}
	table(t, "SelfHostedShootExposure", map[string][]string{
		`port: 0`:                            {"spec.port: Invalid"},
		`port: 65536`:                        {"spec.port: Invalid"},
		`endpoints: [{}]`:                    {"spec.endpoints[0].nodeName: Required"},
		address("ExternalIP", "2001:db8::1"): {},
		address("InternalIP", "x"):           {path + ".address: Invalid"},
		address("Hostname", "host"):          {},
		address("InternalDNS", "a.example"):  {},
		address("ExternalDNS", "A_"):         {path + ".address: Invalid"},
		address("Other", "x"):                {path + ".type: NotSupported"},
		ref("v1", "Secret", "ns", "s"):       {},
		ref("v2", "Secret", "ns", "s"):       {"spec.credentialsRef.apiVersion: NotSupported"},
		ref("v1", "ConfigMap", "ns", "s"):    {"spec.credentialsRef.kind: NotSupported"},
		ref("v1", "Secret", "other", "s"):    {"spec.credentialsRef.namespace: Invalid"},
		ref("v1", "Secret", "ns", ""):        {"spec.credentialsRef.name: Invalid"},
	})
}

func TestMetadata(t *testing.T) {
	g := NewWithT(t)
	document := object("Extension", "{type: a}")
	g.Expect(causes(t, "Extension", patched(document, `metadata: {name: "A_"}`),
		nil)).To(Equal([]string{"metadata.name: Invalid"}))
	g.Expect(causes(t, "BackupBucket",
		patched(object("BackupBucket", minimal["BackupBucket"]), `metadata: {namespace: ns}`), nil)).
		To(Equal([]string{"metadata.namespace: Forbidden"}))
	// The namespace of the request counts.
	g.Expect(causes(t, "Extension", patched(document, `metadata: {namespace: null}`), nil)).To(BeEmpty())
}

func TestWhatCannotBeDecoded(t *testing.T) {
	valid := object("Extension", "{type: a}")
	for name, r := range map[string]*admission.Request{
		"no JSON":      request("Extension", []byte("x"), nil),
		"empty":        request("Extension", nil, nil),
		"another type": request("Extension", []byte(`{"spec":{"type":1}}`), nil),
		"old object":   request("Extension", valid, []byte("x")),
		"deep":         request("Extension", []byte(strings.Repeat("[", 10_000)), nil),
		"another kind": request("Cluster", valid, nil),
		"bad quantity": request("Worker", object("Worker", `{pools: [{nodeTemplate: {capacity: {cpu: x}}}]}`), nil),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			denied := handle(t, r)
			g.Expect(denied).NotTo(BeNil())
			g.Expect(denied.Code).To(BeEquivalentTo(400))
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	g := NewWithT(t)
	spec := `{type: a, purpose: reconcile, files: [` + strings.Repeat(`{path: /a},`, 9000) + `]}`
	denied := handle(t, request("OperatingSystemConfig", object("OperatingSystemConfig", spec), nil))
	g.Expect(denied.Code).To(BeEquivalentTo(422))
	g.Expect(denied.Details.Causes).To(HaveLen(51))
	g.Expect(len(denied.Message)).To(BeNumerically("<", 20_000))
}

func TestEntries(t *testing.T) {
	g := NewWithT(t)
	w := extensionvalidation.Webhook()
	settings, yes := hubv1alpha1.TargetWebhooks{ExtensionValidation: &hubv1alpha1.Webhook{}}, true
	g.Expect(w.Enabled(&settings)).To(BeFalse())
	settings.ExtensionValidation.Enabled = &yes
	g.Expect(w.Enabled(&settings)).To(BeTrue())
	entries := w.Entries(&settings)
	g.Expect(entries).To(HaveLen(len(minimal)))
	g.Expect(entries[0].Name).To(Equal("validation.extensions.backupbuckets"))
	for _, e := range entries {
		g.Expect(e.FailurePolicy).To(BeEquivalentTo("Fail"))
		g.Expect(e.Rules).To(HaveLen(1))
		g.Expect(e.Rules[0].Resources).To(HaveLen(1))
	}
}

func BenchmarkHandler(b *testing.B) {
	r := request("Worker", object("Worker", minimal["Worker"]), object("Worker", minimal["Worker"]))
	for b.Loop() {
		handle(b, r)
	}
}
