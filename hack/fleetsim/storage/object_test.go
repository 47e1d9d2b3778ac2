package storage_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

var deploymentKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

// deployment is an object with everything that is kept apart from the content.
func deployment(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	err := u.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":%q,
		"uid":%q,"generation":2,"creationTimestamp":"2026-01-02T03:04:05Z","deletionTimestamp":"2026-01-02T03:04:06Z","deletionGracePeriodSeconds":0,
		"labels":{"app":"web","tier":""},"annotations":{"note":"\"quoted\" \u0000 & <more>"},"finalizers":["a/b"],
		"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}],
		"managedFields":[{"manager":"one","operation":"Apply","apiVersion":"apps/v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}},
			{"manager":"two","operation":"Update","apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:status":{}},"subresource":"status"}]},
		"spec":{"replicas":3,"ratio":0.5,"big":9007199254740993,"list":[1,"two",null,true]},"status":{"ready":1},"extra":"member"}`, name, namespace, uuid.NewString()))
	if err != nil {
		panic(err)
	}
	return u
}

func TestAnObjectIsWrittenAsItWasRead(t *testing.T) {
	g := NewWithT(t)
	u := deployment("default", "web")
	o, err := storage.New(u)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Unstructured(deploymentKind)).To(Equal(u))
	g.Expect(o.Namespace()).To(Equal("default"))
	g.Expect(o.Name()).To(Equal("web"))
	g.Expect(o.UID()).To(Equal(u.GetUID()))
	g.Expect(o.Terminating()).To(BeTrue())
	g.Expect(o.Annotation("note")).To(Equal("\"quoted\" \x00 & <more>"))
	g.Expect(o.Annotation("not")).To(BeEmpty())
	g.Expect(o.HasFinalizer("a/b")).To(BeTrue())
	g.Expect(o.HasFinalizer("a")).To(BeFalse())

	var partial map[string]any
	g.Expect(json.Unmarshal(o.AppendJSON(nil, storage.As{APIVersion: "v1", Kind: "Partial", MetadataOnly: true, Version: 7}), &partial)).To(Succeed())
	g.Expect(partial).To(HaveLen(3))
	g.Expect(partial).To(HaveKeyWithValue("kind", "Partial"))
	g.Expect(partial["metadata"]).To(HaveKeyWithValue("resourceVersion", "7"))

	minimal := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": uuid.NewString()}}}
	o, err = storage.New(minimal)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(o.AppendJSON(nil, storage.As{}))).To(MatchJSON(fmt.Sprintf(`{"metadata":{"name":"x","uid":%q}}`, minimal.GetUID())))
}

func TestAnObjectNeedsAProperUID(t *testing.T) {
	_, err := storage.New(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": "1"}}})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`reading the uid "1" of "x"`)))
}

func TestSelectorsSeeLabels(t *testing.T) {
	o, err := storage.New(deployment("default", "web"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for selector, matches := range map[string]bool{
		"app=web": true, "app=webs": false, "app": true, "tier": true, "tier=": true, "ap": false, "web": false, "!ap": true,
		"app!=web": false, "app in (x,web)": true, "app notin (web)": false, "note": false, "app=web,tier=": true,
	} {
		t.Run(selector, func(t *testing.T) {
			g := NewWithT(t)
			parsed, err := labels.Parse(selector)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(parsed.Matches(o.Labels())).To(Equal(matches))
		})
	}
}

func TestTheDigestIsOfWhatClientsWant(t *testing.T) {
	g := NewWithT(t)
	u := deployment("default", "web")
	digest := func() uint64 {
		o, err := storage.New(u)
		g.Expect(err).NotTo(HaveOccurred())
		return o.Digest()
	}
	before := digest()
	u.SetUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	u.SetGeneration(9)
	u.SetManagedFields(nil)
	u.Object["status"] = map[string]any{"ready": int64(3)}
	g.Expect(digest()).To(Equal(before))
	u.SetFinalizers(nil)
	without := digest()
	g.Expect(without).NotTo(Equal(before))
	u.SetLabels(nil)
	g.Expect(digest()).NotTo(Equal(without))
	u.Object["spec"] = map[string]any{}
	g.Expect(digest()).NotTo(Equal(without))
}

// sized is an object of about 2.5 KB of content and 1 KB of managedFields, of which some is different.
func sized(i int, different string) *unstructured.Unstructured {
	u := deployment("default", fmt.Sprintf("object-%03d", i))
	u.SetFinalizers(nil)
	u.SetOwnerReferences(nil)
	u.Object["spec"] = map[string]any{"number": int64(i), "text": strings.Repeat("content ", 312), "different": different}
	managed, _, _ := unstructured.NestedSlice(u.Object, "metadata", "managedFields")
	entry, _ := managed[0].(map[string]any)
	entry["fieldsV1"] = map[string]any{"f:" + strings.Repeat("field", 180): map[string]any{}}
	_ = unstructured.SetNestedSlice(u.Object, managed, "metadata", "managedFields")
	return u
}

// heap returns the live bytes after the garbage is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what was weakly referenced is freed by the second one
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestSharedContentIsHeldOnce(t *testing.T) {
	const servers, objects, limit = 200, 300, 200
	g := NewWithT(t)
	from := storage.NewStore(1000)
	for i := range objects {
		put(from, sized(i, ""))
	}
	snapshot := from.Snapshot()
	before := heap()
	stores := make([]*storage.Store, servers)
	for i := range stores {
		stores[i] = storage.NewStore(1000)
		stores[i].Load(snapshot, uuid.New)
	}
	perObject := (heap() - before) / (servers * objects)
	t.Logf("%d bytes an object with shared content", perObject)
	g.Expect(perObject).To(BeNumerically("<", limit))
	runtime.KeepAlive(stores)
}

func TestObjectsWrittenOneByOneShareTheirContentToo(t *testing.T) {
	const servers, objects, limit = 20, 300, 800
	g := NewWithT(t)
	from := storage.NewStore(1) // it keeps the shared content
	for i := range objects {
		put(from, sized(i, ""))
	}
	before := heap()
	stores := make([]*storage.Store, servers)
	for i := range stores {
		stores[i] = storage.NewStore(1)
		for j := range objects {
			put(stores[i], sized(j, ""))
		}
	}
	perObject := (heap() - before) / (servers * objects)
	t.Logf("%d bytes an object with shared content, written", perObject)
	g.Expect(perObject).To(BeNumerically("<", limit))
	runtime.KeepAlive(stores)
	runtime.KeepAlive(from)
}

func TestContentIsForgottenWithItsLastObject(t *testing.T) {
	const objects = 1000
	g := NewWithT(t)
	before := heap()
	store := storage.NewStore(1)
	for i := range objects {
		put(store, sized(0, fmt.Sprint(i)))
	}
	held := heap() - before
	t.Logf("%d bytes for one object after %d writes", held, objects)
	g.Expect(held).To(BeNumerically("<", objects*500))
	runtime.KeepAlive(store)
}

// TestEventsHoldABoundedAmount writes what fills the windows of several resources many times over.
func TestEventsHoldABoundedAmount(t *testing.T) {
	const limit = 1 << 20
	for name, write := range map[string]func(*storage.Store, int){
		"modified": func(s *storage.Store, i int) {
			putInto(s, schema.GroupResource{Resource: fmt.Sprint(i % 10)}, sized(0, fmt.Sprint(i)))
		},
		"created and deleted": func(s *storage.Store, i int) {
			put(s, sized(i, fmt.Sprint(i)))
			remove(s, fmt.Sprintf("default/object-%03d", i))
		},
		"small": func(s *storage.Store, i int) {
			putInto(s, schema.GroupResource{Resource: fmt.Sprint(i % 10)}, named("a", "b"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := heap()
			store := storage.NewStore(1000)
			for i := range 3000 {
				write(store, i)
			}
			held := heap() - before
			t.Logf("%d bytes for the events of 3000 writes", held)
			g.Expect(held).To(BeNumerically("<", limit))
			runtime.KeepAlive(store)
		})
	}
}

func TestDistinctContentCostsLittleMoreThanItsText(t *testing.T) {
	const objects = 2000
	g := NewWithT(t)
	before := heap()
	store := storage.NewStore(1)
	for i := range objects {
		put(store, sized(i, ""))
	}
	perObject := (heap() - before) / objects
	o := store.Get(deployments, "default/object-000")
	text := len(o.AppendJSON(nil, storage.As{}))
	t.Logf("%d bytes an object with distinct content of %d bytes", perObject, text)
	g.Expect(perObject).To(BeNumerically("<", text+1000))
	runtime.KeepAlive(store)
}

func BenchmarkLoad(b *testing.B) {
	from := storage.NewStore(1000)
	for i := range 300 {
		put(from, sized(i, ""))
	}
	snapshot := from.Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		storage.NewStore(1000).Load(snapshot, uuid.New)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/300, "ns/object")
}

func BenchmarkEncode(b *testing.B) {
	o, err := storage.New(sized(0, ""))
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	for b.Loop() {
		buf = o.AppendJSON(buf[:0], storage.As{APIVersion: "apps/v1", Kind: "Deployment"})
	}
	b.SetBytes(int64(len(buf)))
}
