package bundle

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/hack/shoot20"
)

// BenchmarkDecode measures a bundle of 100 small objects in each of its forms.
func BenchmarkDecode(b *testing.B) {
	text := manyConfigMaps(100)
	var jsonText []byte
	for _, object := range decodeText(text).Objects {
		document, err := json.Marshal(object.Object)
		if err != nil {
			b.Fatal(err)
		}
		jsonText = append(jsonText, document...)
	}
	for name, source := range map[string]Source{
		"yaml":        secret("data.yaml", text),
		"json":        secret("data.json", string(jsonText)),
		"yaml-brotli": secret("data.yaml.br", compress(b, text)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bundle := Decode([]Source{source}, Limits{}); len(bundle.Objects) != 100 {
					b.Fatal(len(bundle.Objects))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/object")
		})
	}
}

// BenchmarkFleet measures what the objects of one more target cost whose bundles differ a little from those of all
// others.
func BenchmarkFleet(b *testing.B) {
	const targets = 8
	fixture := shoot20.New(shoot20.Options{})
	sources := make([][]Source, 0, targets*20)
	for i := range targets {
		for _, object := range fixture.Source("ns", fmt.Sprintf("target-%d", i)) {
			if s, ok := object.(*corev1.Secret); ok {
				sources = append(sources, []Source{{Namespace: s.Namespace, Name: s.Name, Data: s.Data}})
			}
		}
	}
	first := len(sources) / targets
	b.ReportAllocs()
	objects := 0
	for b.Loop() {
		b.StopTimer()
		cache := NewCache(64<<20, Limits{}, clock.RealClock{})
		for _, s := range sources[:first] {
			cache.Decode(s)
		}
		b.StartTimer()
		for _, s := range sources[first:] {
			objects += len(cache.Decode(s).Objects)
		}
	}
	perObject := float64(b.N) / float64(objects)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)*perObject, "ns/object")
}

// BenchmarkCacheHit measures what a reconcile of an unchanged ManagedResource of 100 objects pays.
func BenchmarkCacheHit(b *testing.B) {
	cache := NewCache(64<<20, Limits{}, clock.RealClock{})
	sources := []Source{secret("data.yaml.br", compress(b, manyConfigMaps(100)))}
	cache.Decode(sources)
	b.ReportAllocs()
	for b.Loop() {
		cache.Decode(sources)
	}
}

// BenchmarkChecksum measures the worst ordinary case: a large plain value with many objects.
func BenchmarkChecksum(b *testing.B) {
	for _, objects := range []int{100, 1000} {
		b.Run(fmt.Sprint(objects), func(b *testing.B) {
			value := make([]byte, 1<<20)
			sources := []Source{{Data: map[string][]byte{"k": value}}}
			items := make([]item, objects)
			for i := range items {
				items[i].key = "k"
			}
			for b.Loop() {
				checksum(sources, items)
			}
		})
	}
}
