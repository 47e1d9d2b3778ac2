package apply_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/trellis-hub/trellis/clustercache/mapperpool"
	"github.com/trellis-hub/trellis/engine/apply"
	manifests "github.com/trellis-hub/trellis/engine/manifest"
	"github.com/trellis-hub/trellis/hack/shoot20"
)

// BenchmarkPrepare measures what is done to a manifest for each target that it goes to, until there is something to be
// sent.
func BenchmarkPrepareAndEncode(b *testing.B) {
	objects := shoot20.New(shoot20.Options{}).Objects("")
	texts := make([]*manifests.Text, 0, len(objects))
	for _, o := range objects {
		texts = append(texts, manifests.TextOf(o.Object))
	}
	m := mapperpool.Remember(mapper()) // as that of a target
	scoped := apply.ScopeOfDefined(objects)
	for name, text := range map[string]func(i int) *manifests.Text{
		"known":   func(i int) *manifests.Text { return texts[i] },
		"unknown": func(int) *manifests.Text { return nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				p, err := apply.Prepare(b.Context(), objects[i%len(objects)], text(i%len(objects)), m, scoped, marks)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := text(i%len(objects)).Append(nil, p.Object.Object); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkRun measures what an object costs that exists, on a real API server: as it was applied last, and with
// another manifest each time. A ConfigMap is applied; a Deployment, which has defaults, is updated before. Requests are
// counted.
func BenchmarkRun(b *testing.B) {
	if testing.Short() {
		b.Skip("starts a control plane")
	}
	for name, text := range map[string]func(ns string, i int) string{
		"ConfigMap": func(ns string, i int) string { return configMap(ns, "cm", strconv.Itoa(i)) },
		"Deployment": func(ns string, i int) string {
			return web(ns, fmt.Sprintf("containers: [{name: web, image: 'x:%d'}]", i), "")
		},
	} {
		for _, same := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/same=%t", name, same), func(b *testing.B) {
				counted := &limited{}
				target := counted.target(b)
				ns := namespace(b)
				i := 1
				first := applier.Run(b.Context(), target, prepare(b, manifest(b, text(ns, i))), nil)[0]
				if first.Err != nil {
					b.Fatal(first.Err)
				}
				b.ReportAllocs()
				counted.requests.Store(0)
				for b.Loop() {
					if !same {
						i++
					}
					in := prepare(b, manifest(b, text(ns, i)))
					in[0].UID, in[0].Same = first.UID, same
					if out := applier.Run(b.Context(), target, in, nil)[0]; out.Err != nil {
						b.Fatal(out.Err)
					}
				}
				b.ReportMetric(float64(counted.requests.Load())/float64(b.N), "requests/op")
			})
		}
	}
}
