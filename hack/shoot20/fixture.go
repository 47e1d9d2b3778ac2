package shoot20

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// DataKey is the key of the Secrets: YAML, compressed with Brotli.
const DataKey = "data.yaml.br"

// Options of a Fixture. The zero value is the usual fixture.
type Options struct {
	Seed int64
	// Differing is the share of the objects that differ from target to target, up to 0.3. Zero means 0.05, which are 15 of the
	// 300. Negative means none.
	Differing float64
}

// Fixture is what is in the targets. Its methods may be called by many at a time, and what they return is the caller's.
type Fixture struct {
	bundles []bundle
}

// ManagedResource is what one of them holds.
type ManagedResource struct {
	Name string
	// Objects in the order in which they are in its Secret.
	Objects []*unstructured.Unstructured
}

// bundle is a ManagedResource as it is in all targets.
type bundle struct {
	ManagedResource
	differing []bool          // by object
	texts     func() [][]byte // the manifests
	packed    func() []byte   // what the Secret holds, if nothing differs
}

// New makes the fixture. The same options give the same bytes.
func New(o Options) *Fixture {
	o.Differing = min(max(cmp.Or(o.Differing, 0.05), 0), 0.3)
	f := &Fixture{}
	type place struct{ bundle, object int }
	var eligible []place
	for i, c := range components {
		b := bundle{ManagedResource: ManagedResource{Name: c.name}}
		for k, entry := range strings.Fields(c.objects) {
			kind, suffix, _ := strings.Cut(entry, ":")
			m := maker{newAuthor(o.Seed, c.name, entry), c, suffix}
			object := m.make(kind)
			b.Objects = append(b.Objects, object)
			if differs[object.GetKind()] != nil && c.name != definitionsName {
				eligible = append(eligible, place{i, k})
			}
		}
		b.differing = make([]bool, len(b.Objects))
		b.texts = sync.OnceValue(func() [][]byte {
			texts := make([][]byte, 0, len(b.Objects))
			for _, object := range b.Objects {
				texts = append(texts, manifest(object))
			}
			return texts
		})
		b.packed = sync.OnceValue(func() []byte { return pack(b.texts()) })
		f.bundles = append(f.bundles, b)
	}
	random := newAuthor(o.Seed, "differing")
	random.Shuffle(len(eligible), func(i, j int) { eligible[i], eligible[j] = eligible[j], eligible[i] })
	for _, p := range eligible[:min(len(eligible), int(math.Round(o.Differing*float64(f.Count()))))] {
		f.bundles[p.bundle].differing[p.object] = true
	}
	return f
}

// Count is how many objects there are in a target.
func (f *Fixture) Count() int {
	count := 0
	for _, b := range f.bundles {
		count += len(b.Objects)
	}
	return count
}

// differs has what makes an object of a kind differ: where a cluster's name and domain are.
var differs = map[string]func(content map[string]any, target string) error{
	"ConfigMap": func(content map[string]any, target string) error {
		return unstructured.SetNestedField(content, fmt.Sprintf("cluster: %s\ndomain: %s\n", target, domain(target)), "data", "cluster.yaml")
	},
	"Secret": func(content map[string]any, target string) error {
		key := newAuthor(0, "key", target).key("CERTIFICATE", 1400)
		return unstructured.SetNestedField(content, base64.StdEncoding.EncodeToString([]byte(key)), "data", "cluster.crt")
	},
	"Deployment": setDomain, "DaemonSet": setDomain, "StatefulSet": setDomain,
}

func domain(target string) string { return target + ".shoot.example.com" }

func setDomain(content map[string]any, target string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, ok, err := unstructured.NestedSlice(content, path...)
	if err != nil || !ok {
		return errors.Join(err, errors.New("it has no containers"))
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("its first container is no map")
	}
	env, _, err := unstructured.NestedSlice(container, "env")
	if err != nil {
		return fmt.Errorf("reading its environment: %w", err)
	}
	container["env"] = append(env, map[string]any{"name": "CLUSTER_DOMAIN", "value": domain(target)})
	return unstructured.SetNestedSlice(content, containers, path...)
}

// ManagedResources of a target, in the order of their installation.
func (f *Fixture) ManagedResources(target string) []ManagedResource {
	out := make([]ManagedResource, 0, len(f.bundles))
	for i := range f.bundles {
		out = append(out, f.bundles[i].of(target))
	}
	return out
}

func (b *bundle) of(target string) ManagedResource {
	out := ManagedResource{Name: b.Name, Objects: make([]*unstructured.Unstructured, 0, len(b.Objects))}
	for i := range b.Objects {
		out.Objects = append(out.Objects, b.object(i, target))
	}
	return out
}

// object is the i-th one as it is in a target.
func (b *bundle) object(i int, target string) *unstructured.Unstructured {
	object := b.Objects[i].DeepCopy()
	if b.differing[i] {
		if err := differs[object.GetKind()](object.Object, target); err != nil {
			panic(fmt.Sprintf("changing %s %s: %v", object.GetKind(), object.GetName(), err)) // all are made here
		}
	}
	return object
}

// textsOf are the manifests of a target.
func (b *bundle) textsOf(target string) [][]byte {
	texts := slices.Clone(b.texts())
	for i, differs := range b.differing {
		if differs {
			texts[i] = manifest(b.object(i, target))
		}
	}
	return texts
}

// Objects of a target: CustomResourceDefinitions and Namespaces first, which the others need.
func (f *Fixture) Objects(target string) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, f.Count())
	for _, mr := range f.ManagedResources(target) {
		out = append(out, mr.Objects...)
	}
	rank := func(u *unstructured.Unstructured) int {
		if kind := u.GetKind(); kind == "CustomResourceDefinition" || kind == "Namespace" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// Source is what the source cluster has for a target: for each ManagedResource its Secret, of the same name, and then itself.
func (f *Fixture) Source(namespace, target string) []client.Object {
	out := make([]client.Object, 0, 2*len(f.bundles))
	for i := range f.bundles {
		b := &f.bundles[i]
		var packed []byte
		if slices.Contains(b.differing, true) {
			packed = pack(b.textsOf(target))
		} else {
			packed = slices.Clone(b.packed())
		}
		out = append(out, secret(namespace, b.Name, packed), &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: b.Name},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: b.Name}}},
		})
	}
	return out
}

func secret(namespace, name string, packed []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{DataKey: packed},
	}
}

func manifest(object *unstructured.Unstructured) []byte {
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		panic(err) // maps and strings
	}
	return append([]byte("---\n"), text...)
}

// compressors are kept, since a new one has megabytes to clear: who writes a change to a thousand targets had more to do for that than
// the hub for the change.
var compressors = sync.Pool{New: func() any { return brotli.NewWriter(nil) }}

// pack makes what a Secret holds of manifests.
func pack(texts [][]byte) []byte {
	var out bytes.Buffer
	compressor, _ := compressors.Get().(*brotli.Writer)
	defer compressors.Put(compressor)
	compressor.Reset(&out)
	for _, text := range texts {
		if _, err := compressor.Write(text); err != nil {
			panic(err) // writing to memory
		}
	}
	if err := compressor.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// Changing is the name of the ManagedResource whose object Change changes, and that of the object, a ConfigMap.
const (
	Changing                = prefix + "coredns"
	ChangingConfigNamespace = system
	ChangingConfig          = "coredns-custom"
	// ChangingKey is the key of the ConfigMap that is changed.
	ChangingKey = "changing"
)

// Change is the Secret of the ManagedResource Changing with one ConfigMap changed: ChangingKey has the value, and
// unless sent is zero, journal.SentAtAnnotation has the time when it was sent. It is what a benchmark writes to the
// source cluster in place of the Secret that Source has.
func (f *Fixture) Change(namespace, target, value string, sent time.Time) *corev1.Secret {
	i := slices.IndexFunc(f.bundles, func(b bundle) bool { return b.Name == Changing })
	b := &f.bundles[i]
	i = slices.IndexFunc(b.Objects, func(u *unstructured.Unstructured) bool {
		return u.GetKind() == "ConfigMap" && u.GetName() == ChangingConfig
	})
	object := b.object(i, target)
	if err := unstructured.SetNestedField(object.Object, value, "data", ChangingKey); err != nil {
		panic(err) // it is made here
	}
	if !sent.IsZero() {
		object.SetAnnotations(map[string]string{journal.SentAtAnnotation: sent.Format(time.RFC3339Nano)})
	}
	texts := b.textsOf(target)
	texts[i] = manifest(object)
	return secret(namespace, Changing, pack(texts))
}
