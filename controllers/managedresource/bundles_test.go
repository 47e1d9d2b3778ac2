package managedresource_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// badContent is content that cannot be applied as it is. Every case starts from a ManagedResource with the ConfigMaps
// "kept" and "lost"; the bad content lacks "lost" in some way.
type badContent struct {
	key     string // default: manifests
	content func(p place) []byte
	reason  string
	says    []string
	// appliedAnyway is true if the good part, "kept" with another value, can be read without the rest.
	appliedAnyway bool
}

func kept(p place) string { return testbed.ConfigMap(p.ns, "kept", "2") }

// long is more text than a Brotli stream needs to get going, so that cutting and damaging it hits the middle.
func long(p place) []byte {
	var b strings.Builder
	for _, name := range strings.Fields(strings.Repeat("lorem ipsum dolor sit amet consetetur ", 40)) {
		b.WriteString("# " + name + " " + marker + "\n")
	}
	return []byte(b.String() + kept(p) + "\n---\n" + testbed.ConfigMap(p.ns, "lost", "2"))
}

func badContents() map[string]badContent {
	const failed, undecodable = resourcesv1alpha1.ReasonApplyFailed, resourcesv1alpha1.ReasonDecodingFailed
	text := func(parts ...string) func(place) []byte {
		return func(p place) []byte { return []byte(strings.Join(append([]string{kept(p)}, parts...), "\n---\n")) }
	}
	return map[string]badContent{
		"not YAML": {
			content: text("a: [" + marker + ", }{"), reason: undecodable, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml in Secret", "not valid YAML"},
		},
		"a tab where YAML wants blanks": {
			content: text("kind: ConfigMap\nmetadata:\n\tname: " + marker), reason: undecodable, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml", "not valid YAML", "line"},
		},
		"a document that is a list": {
			content: text("- " + marker), reason: undecodable, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml", "list"},
		},
		"a document that is plain text": {
			content: text(marker), reason: undecodable, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml", "string"},
		},
		"two JSON objects and garbage": {
			content: func(p place) []byte { return []byte(kept(p) + kept(p) + " }{ " + marker) }, reason: undecodable, appliedAnyway: true,
			says: []string{"objects.yaml", "not valid JSON"},
		},
		"a truncated .br": {
			key: "data.yaml.br", reason: undecodable, says: []string{"key data.yaml.br in Secret", "ends early"},
			content: func(p place) []byte { b := testbed.Brotli(long(p)); return b[:len(b)*3/4] },
		},
		"a corrupt .br": {
			key: "data.yaml.br", reason: undecodable, says: []string{"key data.yaml.br in Secret", "damaged"},
			content: func(p place) []byte { return append([]byte{0xff, 0xff, 0xff}, testbed.Brotli(long(p))...) },
		},
		"a .br with something behind it": {
			key: "data.yaml.br", reason: undecodable, says: []string{"key data.yaml.br in Secret", "followed by other data"},
			content: func(p place) []byte { return append(testbed.Brotli(long(p)), marker...) },
		},
		"a .br that is not compressed": {
			key: "data.yaml.br", reason: undecodable, says: []string{"key data.yaml.br in Secret", "Brotli"},
			content: func(p place) []byte { return long(p) },
		},
		"a document without kind": {
			content: text(`{"apiVersion":"v1","metadata":{"name":"lost"},"data":{"key":"` + marker + `"}}`), reason: failed, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml in Secret", "has no kind"},
		},
		"a document without apiVersion": {
			content: text(`{"kind":"ConfigMap","metadata":{"name":"lost"},"data":{"key":"` + marker + `"}}`), reason: failed, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml in Secret", "has no apiVersion"},
		},
		"a document without name": {
			content: text(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"lost"},"data":{"key":"` + marker + `"}}`), reason: undecodable, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml in Secret", "metadata.generateName instead of metadata.name"},
		},
		"an unknown kind": {
			content: text(`{"apiVersion":"example.org/v1","kind":"Unheard","metadata":{"name":"lost"},"spec":{"key":"` + marker + `"}}`), reason: failed, appliedAnyway: true,
			says: []string{"error during apply of object", "Unheard", "lost", "example.org/v1"},
		},
		"a label that is a number": {
			content: text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: lost, labels: {version: 1}}"), reason: failed, appliedAnyway: true,
			says: []string{"document 2 of key objects.yaml", "metadata.labels", "version", "not a string"},
		},
	}
}

// BUG-1 and BUG-2 for everything that can be wrong with a bundle.
func TestX01_X02_BUG01_BUG02_BadContentDeletesNothingAndHeals(t *testing.T) {
	t.Parallel()
	for name, test := range badContents() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "kept", "1"), testbed.ConfigMap(p.ns, "lost", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			keptUID, lostUID := read(p, p.configMap("kept")).UID, read(p, p.configMap("lost")).UID

			key := test.key
			if key == "" {
				key = manifests
			}
			p.secret("content", key, test.content(p))
			mr := p.await("mr", has(applied, no, test.reason, test.says...), has(ready, no, test.reason))
			p.Expect(mr.Status.Resources).To(ContainElement(HaveField("Name", "lost")))
			if test.appliedAnyway {
				p.awaitValue("kept", "2")
			} else {
				p.fence()
				p.awaitValue("kept", "1")
			}
			p.fence()
			p.Expect(read(p, p.configMap("lost")).UID).To(Equal(lostUID))
			p.Expect(read(p, p.configMap("kept")).UID).To(Equal(keptUID))
			p.Eventually(p.events).Should(ContainElement(HavePrefix("Warning " + test.reason)))
			p.expectNoLeak()

			p.content("content", testbed.ConfigMap(p.ns, "kept", "3"), testbed.ConfigMap(p.ns, "lost", "3"))
			p.awaitReady("mr")
			p.awaitValue("kept", "3")
			p.awaitValue("lost", "3")
			p.Expect(read(p, p.configMap("lost")).UID).To(Equal(lostUID))
		})
	}
}

// The same content from the beginning, when there is nothing to keep yet.
func TestX01_BUG01_BadContentFromTheBeginningHeals(t *testing.T) {
	t.Parallel()
	for name, test := range badContents() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			key := test.key
			if key == "" {
				key = manifests
			}
			p.secret("content", key, test.content(p))
			p.mr("mr", "content")
			p.await("mr", has(applied, no, test.reason, test.says...))
			p.fence()
			p.expectAbsent(p.configMap("lost"))
			p.expectNoLeak()
			p.content("content", kept(p), testbed.ConfigMap(p.ns, "lost", "2"))
			p.awaitReady("mr")
			p.awaitValue("lost", "2")
		})
	}
}

// A ManagedResource with content that cannot be read can be deleted: that needs the inventory only.
func TestX01_ManagedResourceWithBadContentCanBeDeleted(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", "{]")
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonDecodingFailed))
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("one"))
}

func TestMR04_ObjectWithoutTypeIsAFailedApply(t *testing.T) {
	t.Parallel()
	for name, document := range map[string]string{
		"neither apiVersion nor kind": `{"metadata":{"name":"one"}}`,
		"empty object":                `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", document)
			p.mr("mr", "content")
			p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "document 1 of key objects.yaml in Secret "+p.ns+"/content", "has no apiVersion"))
		})
	}
}

func TestMR08_ObjectWithoutTypeAddedToAHealthyManagedResource(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), `{"metadata":{"name":"two"}}`)
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "document 2"))
	p.awaitValue("one", "1")
}

// An unknown field is no reason to withhold the rest: the object is applied without it, and an event reports it.
func TestW22_UnknownFieldIsLeftOutWithAWarning(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"`+p.ns+`","name":"app"},
"spec":{"replicas":0,"replicaCount":3,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
"spec":{"containers":[{"name":"app","image":"example.org/app:1","imagee":"example.org/app:2"}]}}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"`+p.ns+`","name":"one"},"data":{"key":"1"},"dataa":{"a":"b"}}`)
	p.mr("mr", "content")
	p.awaitApplied("mr")
	p.awaitValue("one", "1")
	p.Expect(read(p, p.deployment("app")).Spec.Template.Spec.Containers).To(ConsistOf(HaveField("Image", "example.org/app:1")))
	p.Eventually(p.events).Should(ContainElements(
		SatisfyAll(HavePrefix("Warning UnknownFields"), ContainSubstring("app"), ContainSubstring("replicaCount"), ContainSubstring("imagee")),
		SatisfyAll(HavePrefix("Warning UnknownFields"), ContainSubstring("one"), ContainSubstring("dataa"))))

	live := p.deployment("app")
	p.edit(target, live, func() { live.Spec.Template.Spec.Containers[0].Image = "example.org/app:3" })
	p.Eventually(func() string { return read(p, p.deployment("app")).Spec.Template.Spec.Containers[0].Image }).Should(Equal("example.org/app:1"))
}
