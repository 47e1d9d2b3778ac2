package follow

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A bookmark that is written as servers write it is read in a shorter way. It says the same.
func TestBookmarksAreReadAlike(t *testing.T) {
	for name, text := range map[string]string{
		"of a Deployment": `{"type":"BOOKMARK","object":{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"resourceVersion":"12","creationTimestamp":null},` +
			`"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}}` + "\n",
		"at the end of a list":             `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"12"}}}`,
		"in another order":                 `{"object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"12"}},"type":"BOOKMARK"}`,
		"without a version":                `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"a":"b"}}}}`,
		"of a custom resource":             `{"type":"BOOKMARK","object":{"apiVersion":"example.org/v1","kind":"Sample","metadata":{"resourceVersion":"12"}}}`,
		"with a text that looks alike":     `{"type":"BOOKMARK","object":{"kind":"\"resourceVersion\":\"13\"","metadata":{"resourceVersion":"12"}}}`,
		"with another version":             `{"type":"BOOKMARK","object":{"status":{"resourceVersion":"13"},"metadata":{"resourceVersion":"12"}}}`,
		"with an empty one":                `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"},"status":{"resourceVersion":""}}}`,
		"with a version that is no number": `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12-a"}}}`,
		"with another version and none":    `{"type":"BOOKMARK","object":{"status":{"resourceVersion":"13"},"metadata":{}}}`,
		"of another object":                `{"type":"BOOKMARK","more":{"object":{"metadata":{"resourceVersion":"13"}}},"object":{"metadata":{"resourceVersion":"12"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e, err := new(decoding).object([]byte(text), nil)
			g.Expect(err).NotTo(HaveOccurred())
			whole, err := new(decoding).whole([]byte(text), []byte(text), nil, false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(e.kind).To(Equal(bookmark))
			g.Expect(e.object.GetResourceVersion()).To(Equal(whole.object.GetResourceVersion()))
			g.Expect(e.object.GetAnnotations()).To(Equal(whole.object.GetAnnotations()))
		})
	}
	g := NewWithT(t)
	_, short := decodeBookmark([]byte(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}`))
	g.Expect(short).To(BeTrue())
	_, short = decodeBookmark([]byte(`{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"12"}}}`))
	g.Expect(short).To(BeFalse())
	_, err := new(decoding).object([]byte(`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":12}}}`), nil)
	g.Expect(err).NotTo(HaveOccurred()) // it is no version that anybody could go on from
	_, err = new(decoding).object([]byte(`{"type":"BOOKMARK","object":{"metadata":`), nil)
	g.Expect(err).To(HaveOccurred())
}

func BenchmarkDecodeBookmark(b *testing.B) {
	raw := []byte(`{"type":"BOOKMARK","object":{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"resourceVersion":"12345678","creationTimestamp":null},` +
		`"spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}}}`)
	which := fieldsOfPaths([][]string{{"spec", "replicas"}, {"status"}})
	b.ReportAllocs()
	for b.Loop() {
		if e, err := new(decoding).object(raw, which); err != nil || e.object.GetResourceVersion() != "12345678" {
			b.Fatal(err)
		}
	}
}
