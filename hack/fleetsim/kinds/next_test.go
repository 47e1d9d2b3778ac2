package kinds_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	early      = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
)

// stored is what a server would have after a write of a new object.
func stored(g Gomega, r *kinds.Resource, w kinds.Write) *unstructured.Unstructured {
	result, err := r.Next(nil, w)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Changed).To(BeTrue())
	result.Object.SetUID("d9607e19-f88f-11e6-a518-42010a800195")
	result.Object.SetResourceVersion("7")
	result.Object.SetCreationTimestamp(metav1.NewTime(w.Now))
	return result.Object
}

func configMapWrite(verb kinds.Verb, manager string, now time.Time, body string) kinds.Write {
	return kinds.Write{
		Verb: verb, PatchType: types.MergePatchType, Manager: manager, Namespace: "default", Name: "x", Now: now,
		Body: []byte(strings.Replace(body, "{", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},`, 1)),
	}
}

func TestTimesAreThoseOfTheServersClock(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, configMaps)
	live := stored(g, r, configMapWrite(kinds.Apply, "b", early, `{"data":{"a":"1"}}`))
	g.Expect(live.GetManagedFields()).To(HaveLen(1))
	g.Expect(live.GetManagedFields()[0].Time.UTC()).To(Equal(early))

	later := early.Add(time.Hour)
	result, err := r.Next(live, configMapWrite(kinds.Apply, "b", later, `{"data":{"a":"1"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Changed).To(BeFalse(), "an apply of the same")
	g.Expect(result.Object).To(BeIdenticalTo(live))

	result, err = r.Next(live, configMapWrite(kinds.Apply, "a", later, `{"data":{"c":"1"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Changed).To(BeTrue())
	var seen []string
	for _, entry := range result.Object.GetManagedFields() {
		seen = append(seen, entry.Manager+" "+entry.Time.UTC().Format(time.RFC3339))
	}
	g.Expect(seen).To(Equal([]string{"b 2001-02-03T04:05:06Z", "a 2001-02-03T05:05:06Z"}), "the older first, and untouched")
}

func TestAWriteThatOnlyTakesOverFieldsIsOne(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, configMaps)
	live := stored(g, r, configMapWrite(kinds.Apply, "b", early, `{"data":{"a":"1"}}`))
	result, err := r.Next(live, configMapWrite(kinds.Apply, "a", early, `{"data":{"a":"1"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Changed).To(BeTrue(), "a second owner of the same value")
	result, err = r.Next(live, configMapWrite(kinds.Patch, "a", early, `{"data":{"a":"1"}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Changed).To(BeFalse(), "a patch that sets what is there owns nothing")
}

func TestAnObjectThatIsBeingDeletedGetsNoFinalizer(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, configMaps)
	live := stored(g, r, configMapWrite(kinds.Apply, "b", early, `{"data":{"a":"1"}}`))
	live.SetFinalizers([]string{"example.org/a"})
	now := metav1.NewTime(early)
	live.SetDeletionTimestamp(&now)
	patch := func(body string) error {
		_, err := r.Next(live, kinds.Write{
			Verb: kinds.Patch, PatchType: types.MergePatchType, Namespace: "default", Name: "x", Now: early, Body: []byte(body), Manager: "a",
		})
		return err
	}
	err := patch(`{"metadata":{"finalizers":["example.org/a","example.org/b"]}}`)
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("no new finalizers can be added if the object is being deleted")))
	g.Expect(patch(`{"metadata":{"finalizers":null,"deletionTimestamp":null}}`)).To(Succeed())
}

func TestNamesAreGenerated(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, configMaps)
	for _, prefix := range []string{"short-", strings.Repeat("long", 20)} {
		result, err := r.Next(nil, kinds.Write{Verb: kinds.Create, Namespace: "default", Body: []byte(`{"metadata":{"generateName":"` + prefix + `"}}`)})
		g.Expect(err).NotTo(HaveOccurred())
		name := result.Object.GetName()
		g.Expect(name).To(HavePrefix(prefix[:min(len(prefix), 58)]))
		g.Expect(name).To(HaveLen(min(len(prefix), 58) + 5))
	}
}

func TestAddressesOfServicesAreTheSameEachTime(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, schema.GroupVersionResource{Version: "v1", Resource: "services"})
	seen := map[string]bool{}
	for i := range 50 {
		body := fmt.Sprintf(`{"metadata":{"name":"s%d"},"spec":{"ports":[{"name":"a","port":1}]}}`, i)
		var ips []string
		for range 2 {
			result, err := r.Next(nil, kinds.Write{Verb: kinds.Create, Namespace: "default", Body: []byte(body)})
			g.Expect(err).NotTo(HaveOccurred())
			ip, _, _ := unstructured.NestedString(result.Object.Object, "spec", "clusterIP")
			g.Expect(ip).To(MatchRegexp(`^10\.(9[6-9]|10\d|11[01])\.\d+\.\d+$`))
			ips = append(ips, ip)
		}
		g.Expect(ips[0]).To(Equal(ips[1]))
		seen[ips[0]] = true
	}
	g.Expect(seen).To(HaveLen(50))
}

func TestFieldSelectorsSeeWhatKindsHave(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	set := r.Fields(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "p", "namespace": "n"}, "spec": map[string]any{"nodeName": "here"},
	}})
	g.Expect(set).To(HaveKeyWithValue("metadata.namespace", "n"))
	g.Expect(set).To(HaveKeyWithValue("spec.nodeName", "here"))
	g.Expect(set).To(HaveKeyWithValue("spec.hostNetwork", "false"))
	g.Expect(r.Selectable("status.phase")).To(BeTrue())
	g.Expect(r.Selectable("spec.containers")).To(BeFalse())
}

func TestRegistriesAreSharedByContent(t *testing.T) {
	g := NewWithT(t)
	crds := func() []*unstructured.Unstructured { return definitions(g, widgets, gadgets) }
	first, err := kinds.BuiltIn().With(crds())
	g.Expect(err).NotTo(HaveOccurred())
	second, err := kinds.BuiltIn().With(crds())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(BeIdenticalTo(first))
	swapped := crds()
	swapped[0], swapped[1] = swapped[1], swapped[0]
	second, err = kinds.BuiltIn().With(swapped)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(BeIdenticalTo(first), "the order makes no difference")
	g.Expect(kinds.BuiltIn().With(nil)).To(BeIdenticalTo(kinds.BuiltIn()))

	changed := crds()
	g.Expect(unstructured.SetNestedField(changed[0].Object, "Cluster", "spec", "scope")).To(Succeed())
	second, err = kinds.BuiltIn().With(changed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).NotTo(BeIdenticalTo(first))
	_, err = kinds.BuiltIn().With(append(crds(), crds()[0]))
	g.Expect(err).To(MatchError(ContainSubstring("is served already")))
}

var gadgets = strings.NewReplacer("Widget", "Gadget", "widgets", "gadgets", "[wi]", "[ga]").Replace(widgets)

// TestWritesAtTheSameTime is for the race detector: live objects, empty ones and schemas are shared.
func TestWritesAtTheSameTime(t *testing.T) {
	g := NewWithT(t)
	registry, err := kinds.BuiltIn().With(definitions(g, widgets))
	g.Expect(err).NotTo(HaveOccurred())
	custom, _ := registry.Resource(schema.GroupVersionResource{Group: "kinds.example.org", Version: "v1", Resource: "widgets"})
	builtIn := resourceOf(t, deployments)
	widget := func(size int) string {
		return fmt.Sprintf(`{"apiVersion":"kinds.example.org/v1","kind":"Widget","metadata":{"name":"de"},"spec":{"size":%d}}`, size)
	}
	lives := map[*kinds.Resource]*unstructured.Unstructured{
		custom: stored(g, custom, writeOf(kinds.Apply, widget(1))), builtIn: appliedDeployment(t, builtIn),
	}
	var before []byte
	before, err = json.Marshal(lives[builtIn].Object)
	g.Expect(err).NotTo(HaveOccurred())
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for j := range 10 {
				for r, live := range lives {
					body := widget(i + j)
					if r == builtIn {
						body = replaceAll(named(deployment, "de"), "registry/app:v1", fmt.Sprintf("registry/app:v%d", i+j))
					}
					for _, w := range []kinds.Write{
						writeOf(kinds.Create, body), writeOf(kinds.Apply, body),
						{Verb: kinds.Patch, PatchType: types.MergePatchType, Subresource: "status", Namespace: "default", Name: "de", Body: []byte(`{"status":{"replicas":3}}`)},
					} {
						argument := live
						if w.Verb == kinds.Create {
							argument = nil
						}
						if _, err := r.Next(argument, w); err != nil {
							t.Error(err)
						}
					}
				}
				if _, err := kinds.BuiltIn().With(definitions(g, widgets)); err != nil {
					t.Error(err)
				}
				registry.Aggregated("/apis")
			}
		})
	}
	writers.Wait()
	after, err := json.Marshal(lives[builtIn].Object)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).To(Equal(before))
}

func TestAPatchThatReadsTheMetadataAsAWholeReadsManagedFields(t *testing.T) {
	g := NewWithT(t)
	r := resourceOf(t, deployments)
	w := writeOf(kinds.Patch, `[{"op":"copy","from":"/metadata","path":"/spec/template/metadata"}]`)
	w.PatchType = types.JSONPatchType
	result, err := r.Next(appliedDeployment(t, r), w)
	g.Expect(err).NotTo(HaveOccurred())
	copied, _, err := unstructured.NestedSlice(result.Object.Object, "spec", "template", "metadata", "managedFields")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(copied).To(HaveLen(1))
}
