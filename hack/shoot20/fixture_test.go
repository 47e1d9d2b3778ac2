package shoot20_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/shoot20"
)

func TestCountsAndSizes(t *testing.T) {
	g := NewWithT(t)
	f := shoot20.New(shoot20.Options{})
	g.Expect(f.Count()).To(Equal(300))
	mrs := f.ManagedResources("alpha")
	g.Expect(mrs).To(HaveLen(20))
	kinds, seen := map[string]int{}, map[string]bool{}
	small, definitions := 0, 0
	for _, mr := range mrs {
		g.Expect(mr.Objects).To(HaveLen(15), mr.Name)
		for _, object := range mr.Objects {
			id := object.GroupVersionKind().String() + object.GetNamespace() + "/" + object.GetName()
			g.Expect(seen).NotTo(HaveKey(id), "an object is in one ManagedResource only")
			seen[id] = true
			kinds[object.GetKind()]++
			if object.GetKind() != "CustomResourceDefinition" {
				small += size(g, object)
				continue
			}
			definitions++
			g.Expect(size(g, object)).To(And(BeNumerically(">=", 100_000), BeNumerically("<=", 300_000)), object.GetName())
		}
	}
	g.Expect(definitions).To(Equal(3))
	t.Logf("%d bytes in 297 objects; kinds: %v", small, kinds)
	g.Expect(small / 297).To(BeNumerically("~", 2500, 125))
	g.Expect(len(kinds)).To(BeNumerically(">=", 25))
}

func size(g *WithT, object *unstructured.Unstructured) int {
	raw, err := json.Marshal(object.Object)
	g.Expect(err).NotTo(HaveOccurred())
	return len(raw)
}

func TestSameSeedSameBytes(t *testing.T) {
	g := NewWithT(t)
	one := digest(g, shoot20.New(shoot20.Options{}), "alpha")
	g.Expect(digest(g, shoot20.New(shoot20.Options{}), "alpha")).To(Equal(one))
	g.Expect(digest(g, shoot20.New(shoot20.Options{Seed: 1}), "alpha")).NotTo(Equal(one))
	g.Expect(digest(g, shoot20.New(shoot20.Options{}), "beta")).NotTo(Equal(one))
}

func digest(g *WithT, f *shoot20.Fixture, target string) string {
	hash := sha256.New()
	for _, object := range f.Source("fleet", target) {
		raw, err := json.Marshal(object)
		g.Expect(err).NotTo(HaveOccurred())
		hash.Write(raw)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func TestTargetsDiffer(t *testing.T) {
	for name, test := range map[string]struct {
		share float64
		want  int
	}{
		"as usual": {0, 15}, "not at all": {-1, 0}, "more": {0.1, 30}, "no more than this": {0.9, 90},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := shoot20.New(shoot20.Options{Differing: test.share})
			alpha, beta := f.Objects("alpha"), f.Objects("beta")
			differing := 0
			for i := range alpha {
				g.Expect(alpha[i].GetName()).To(Equal(beta[i].GetName()))
				a, err := json.Marshal(alpha[i])
				g.Expect(err).NotTo(HaveOccurred())
				b, err := json.Marshal(beta[i])
				g.Expect(err).NotTo(HaveOccurred())
				if string(a) != string(b) {
					differing++
				}
			}
			g.Expect(differing).To(Equal(test.want))
		})
	}
}

func TestWhatIsReturnedIsTheCallers(t *testing.T) {
	g := NewWithT(t)
	f := shoot20.New(shoot20.Options{})
	before := digest(g, f, "alpha")
	for _, object := range f.Objects("alpha") {
		object.SetLabels(nil)
		object.Object["spec"] = nil
	}
	for _, object := range f.Source("fleet", "alpha") {
		if secret, ok := object.(*corev1.Secret); ok {
			clear(secret.Data[shoot20.DataKey])
		}
	}
	g.Expect(digest(g, f, "alpha")).To(Equal(before))
}

func TestSource(t *testing.T) {
	g := NewWithT(t)
	f := shoot20.New(shoot20.Options{})
	source := f.Source("fleet--alpha", "alpha")
	g.Expect(source).To(HaveLen(40))
	packed, whole := 0, 0
	for i, mr := range f.ManagedResources("alpha") {
		secret, ok := source[2*i].(*corev1.Secret)
		g.Expect(ok).To(BeTrue())
		g.Expect(client.ObjectKeyFromObject(secret)).To(Equal(client.ObjectKey{Namespace: "fleet--alpha", Name: mr.Name}))
		g.Expect(unpack(g, secret)).To(Equal(mr.Objects))
		managed, ok := source[2*i+1].(*resourcesv1alpha1.ManagedResource)
		g.Expect(ok).To(BeTrue())
		g.Expect(client.ObjectKeyFromObject(managed)).To(Equal(client.ObjectKeyFromObject(secret)))
		g.Expect(managed.Spec.SecretRefs).To(Equal([]corev1.LocalObjectReference{{Name: mr.Name}}))
		packed += len(secret.Data[shoot20.DataKey])
		for _, object := range mr.Objects {
			whole += size(g, object)
		}
	}
	t.Logf("%d bytes of JSON are %d bytes in Secrets", whole, packed)
	g.Expect(packed).To(BeNumerically("<", whole/3))
}

func unpack(g *WithT, secret *corev1.Secret) []*unstructured.Unstructured {
	text, err := io.ReadAll(brotli.NewReader(strings.NewReader(string(secret.Data[shoot20.DataKey]))))
	g.Expect(err).NotTo(HaveOccurred())
	var out []*unstructured.Unstructured
	for _, document := range strings.Split("\n"+string(text), "\n---\n")[1:] {
		raw, err := yaml.YAMLToJSON([]byte(document))
		g.Expect(err).NotTo(HaveOccurred())
		u := &unstructured.Unstructured{}
		g.Expect(u.UnmarshalJSON(raw)).To(Succeed())
		out = append(out, u)
	}
	return out
}

func TestChange(t *testing.T) {
	g := NewWithT(t)
	f := shoot20.New(shoot20.Options{})
	var original *corev1.Secret
	for _, object := range f.Source("fleet", "alpha") {
		if secret, ok := object.(*corev1.Secret); ok && secret.Name == shoot20.Changing {
			original = secret
		}
	}
	sent := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	before, after := unpack(g, original), unpack(g, f.Change("fleet", "alpha", "new", sent))
	var changed []*unstructured.Unstructured
	for i := range after {
		if equal, err := Equal(before[i]).Match(after[i]); err == nil && !equal {
			changed = append(changed, after[i])
		}
	}
	g.Expect(changed).To(HaveLen(1), "one object changes")
	g.Expect(changed[0].GetKind()).To(Equal("ConfigMap"))
	g.Expect(changed[0].GetNamespace()).To(Equal(shoot20.ChangingConfigNamespace))
	g.Expect(changed[0].GetName()).To(Equal(shoot20.ChangingConfig))
	g.Expect(changed[0].Object["data"]).To(HaveKeyWithValue(shoot20.ChangingKey, "new"))
	g.Expect(changed[0].GetAnnotations()).To(Equal(map[string]string{journal.SentAtAnnotation: "2026-01-02T03:04:05.000000006Z"}))
}

func BenchmarkSource(b *testing.B) {
	f := shoot20.New(shoot20.Options{})
	f.Source("fleet", "beta") // what is the same for all
	for b.Loop() {
		f.Source("fleet", "alpha")
	}
}
