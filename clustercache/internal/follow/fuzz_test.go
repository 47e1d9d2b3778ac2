package follow

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"runtime/metrics"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/untrusted"
)

// names is a Sink that remembers the names of the objects that it gets.
type names struct {
	Sink
	all []string
}

func (n *names) Set(o client.Object) { n.all = append(n.all, o.GetName()) }

// allocated returns how much memory is allocated while something is done, garbage included.
func allocated(do func()) uint64 {
	total := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	before := total()
	do()
	return total() - before
}

// mayAllocate bounds what reading and decoding a text allocates. A small map takes 40 times its text, and buffers and
// lists that grow take twice what they have in the end.
func mayAllocate(text []byte) uint64 { return uint64(200*len(text) + 1<<20) } //nolint:gosec // no text is so long

// answering makes a collection read a text.
func answering(t *testing.T, text []byte, protobuf bool, paths [][]string, read func(*frames, *Collection)) {
	t.Helper()
	c := &New(Collection{Clock: clock.RealClock{}, MetadataOnly: paths == nil, Fields: paths}, nil).collection
	response := &http.Response{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text))}
	if protobuf {
		response.Header.Set("Content-Type", mediaProtobuf)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	used := allocated(func() {
		f := newFrames(ctx, cancel, response, c)
		defer f.close()
		read(f, c)
	})
	if used > mayAllocate(text) {
		t.Fatalf("%d bytes for %d", used, len(text))
	}
}

func FuzzPage(f *testing.F) {
	for _, text := range []string{
		`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"5","continue":"x"},` +
			`"items":[{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{"f:a":{}}}]}} , ` +
			`{"metadata":{"name":"b"},"status":{"a":[1]}}]}`,
		`{"apiVersion":"v1","items":[{"metadata":{"name":"a"}}],"kind":"List","metadata":{"resourceVersion":"5"}}`,
		`{"items":null,"kind":"List","remaining":[1,{"a":"]"}],"metadata":{}}`,
		`{"items":[` + strings.Repeat(`{},`, 1000) + `{}]}`, `{"items":[{"metadata":{"name":"a","ownerReferences":[` +
			strings.Repeat(`{},`, 1<<15) + `{}]}}]}`,
		`{"items":[1]}`, `{"items":[,]}`, `{,}`, `{"items":[}`, `{"items" 1}`, `[]`, `null`, `"`,
		``, "{\n" + strings.Repeat(" ", 70<<10),
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, whole bool) {
		var paths [][]string
		if whole {
			paths = [][]string{{"status"}}
		}
		answering(t, text, false, paths, func(frames *frames, c *Collection) {
			came := &names{}
			p := page{frames: frames, collection: c, sink: came}
			if p.read() != nil || bytes.Contains(text, []byte(`\`)) {
				return
			}
			var list metav1.PartialObjectMetadataList
			if kjson.UnmarshalCaseSensitivePreserveInts(text, &list) != nil {
				return
			}
			if len(list.Items) != len(came.all) {
				t.Fatalf("%d items instead of %d", len(came.all), len(list.Items))
			}
			for i := range came.all {
				if came.all[i] != list.Items[i].Name {
					t.Fatalf("%q instead of %q", came.all[i], list.Items[i].Name)
				}
			}
		})
	})
}

func FuzzEvents(f *testing.F) {
	message := func(text string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text //nolint:gosec // a few bytes
	}
	for _, text := range []string{
		`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}` + "\n" +
			`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8"}}}`,
		`{"type":"ADDED","object":{"metadata":{"name":"a","finalizers":[` + strings.Repeat(`"",`, 1<<15) + `""]}}}`,
		`{"type":"ERROR","object":{"kind":"Status","details":{"causes":[` + strings.Repeat(`{},`, 1000) + `{}]}}}`,
		message("\x0a\x05ADDED\x12\x0e\x0a\x0ck8s\x00\x12\x06\x0a\x04\x0a\x02ab"), message("\x0a\x05ADDED"), message(""),
		"\xff\xff\xff\xff",
		message("\x0a\x05ADDED\x12\x0e\x0a\x0ck8s\x00\x12\x06\x0a\x04" + strings.Repeat("\x8a\x01\x00", 1000)),
		`{`, `[]`, `1`, "", strings.Repeat("\n", 70<<10),
	} {
		for _, protobuf := range []bool{false, true} {
			f.Add([]byte(text), protobuf)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, protobuf bool) {
		answering(t, text, protobuf, nil, func(frames *frames, c *Collection) {
			w := &watch{frames: frames, collection: c}
			for {
				e, err := w.event()
				if err != nil {
					return
				}
				e.release()
				if len(e.version) > untrusted.MaxToken || len(e.object.GetName()) > untrusted.MaxName && e.kind == added {
					t.Fatalf("%q, version %q", e.object.GetName(), e.version)
				}
			}
		})
	})
}
