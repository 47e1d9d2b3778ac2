package bundle_test

import (
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/engine/bundle"
)

func TestCacheMetrics(t *testing.T) {
	g := NewWithT(t)
	cache := bundle.NewCache(1<<20, bundle.Limits{}, clock.RealClock{})
	registry := prometheus.NewRegistry()
	g.Expect(registry.Register(cache)).To(Succeed())
	content := []bundle.Source{{Name: "s", Data: map[string][]byte{"a.yaml": []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")}}}
	for range 3 {
		cache.Decode(content)
	}
	kept := cache.Keep(content, cache.Decode(content))
	defer runtime.KeepAlive(kept)
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP trellis_bundle_cache_entries Decoded bundles in memory.
# TYPE trellis_bundle_cache_entries gauge
trellis_bundle_cache_entries 1
# HELP trellis_bundle_cache_evictions_total Decoded bundles that were evicted from the cache, by reason: room (for others) or unused.
# TYPE trellis_bundle_cache_evictions_total counter
trellis_bundle_cache_evictions_total{reason="room"} 0
trellis_bundle_cache_evictions_total{reason="unused"} 0
# HELP trellis_bundle_cache_lookups_total Lookups of decoded bundles, by result: hit (in memory) or miss (decoded).
# TYPE trellis_bundle_cache_lookups_total counter
trellis_bundle_cache_lookups_total{result="hit"} 3
trellis_bundle_cache_lookups_total{result="miss"} 1
# HELP trellis_bundle_kept_bytes Memory of the cached content of Secrets, by which drift is corrected without reading them again, estimated.
# TYPE trellis_bundle_kept_bytes gauge
trellis_bundle_kept_bytes 460
`), "trellis_bundle_kept_bytes", "trellis_bundle_cache_entries", "trellis_bundle_cache_evictions_total", "trellis_bundle_cache_lookups_total")).To(Succeed())
}
