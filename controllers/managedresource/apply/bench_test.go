package apply_test

import (
	"testing"

	"github.com/trellis-hub/trellis/clustercache/mapperpool"
	"github.com/trellis-hub/trellis/controllers/managedresource/apply"
	manifests "github.com/trellis-hub/trellis/controllers/managedresource/manifest"
	"github.com/trellis-hub/trellis/hack/shoot20"
)

// BenchmarkPrepare measures what is done to a manifest for each target that it goes to, until there is something to be sent.
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
