package envelope

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// sent is an object as API servers send it, by their own encoder.
func sent(t testing.TB, object runtime.Object, kind string) []byte {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
	text, err := runtime.Encode(protobuf.NewSerializer(nil, nil), object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return text
}

func sentEvent(t testing.TB, kind watch.EventType, object []byte) []byte {
	t.Helper()
	text, err := (&metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}).Marshal()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return text
}

func some() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "some", Name: "object", ResourceVersion: "7", Labels: map[string]string{"label": "value"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)}},
	}}
}

func TestObjectAndEventAreOpened(t *testing.T) {
	g := NewWithT(t)
	text := sent(t, some(), "PartialObjectMetadata")
	g.Expect(Is(text)).To(BeTrue())
	for _, kind := range []string{"", "PartialObjectMetadata"} {
		var opened metav1.PartialObjectMetadata
		g.Expect(Open(text, kind, &opened)).To(Succeed())
		g.Expect(opened.ObjectMeta).To(Equal(some().ObjectMeta))
	}
	kind, object, err := Event(sentEvent(t, watch.Modified, text))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kind).To(Equal("MODIFIED"))
	g.Expect(object).To(Equal(text))
}

func TestNothingOpenedIsPartOfTheText(t *testing.T) {
	g := NewWithT(t)
	text := sent(t, some(), "PartialObjectMetadata")
	var opened metav1.PartialObjectMetadata
	g.Expect(Open(text, "", &opened)).To(Succeed())
	clear(text) // the buffer is used for what comes next
	g.Expect(opened.ObjectMeta).To(Equal(some().ObjectMeta))
}

func TestMalformedMessagesAreErrors(t *testing.T) {
	text := sent(t, some(), "PartialObjectMetadata")
	for name, tc := range map[string]struct {
		text []byte
		kind string
		says string
	}{
		"nothing":              {nil, "", "not what API servers send"},
		"JSON":                 {[]byte(`{}`), "", "not what API servers send"},
		"of another kind":      {text, "Status", `it is of kind "PartialObjectMetadata"`},
		"cut short":            {text[:len(text)-9], "", ""},
		"a prefix and rubbish": {[]byte("k8s\x00\xff\xff"), "", "its envelope"},
		"a number for a text":  {[]byte("k8s\x00\x08\x01"), "", "wire type 0"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Open(tc.text, tc.kind, &metav1.PartialObjectMetadata{})).To(MatchError(ContainSubstring(tc.says)))
		})
	}
	for name, text := range map[string][]byte{"a length beyond its end": {0x12, 0x7f, 1}, "a number for its type": {8, 1}, "a number for its object": {0x12, 2, 8, 1}} {
		t.Run("an event with "+name, func(t *testing.T) {
			_, _, err := Event(text)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring("its envelope")))
		})
	}
}

// FuzzOpen compares with the decoders of apimachinery.
func FuzzOpen(f *testing.F) {
	f.Add(sentEvent(f, watch.Added, sent(f, some(), "PartialObjectMetadata")))
	f.Add([]byte{0x12, 2, 8, 1})
	f.Fuzz(func(t *testing.T, text []byte) {
		kind, object, err := Event(text)
		var theirs metav1.WatchEvent
		if theirs.Unmarshal(text) != nil || err != nil {
			return // they also decode fields that are not needed, and we do not
		}
		g := NewWithT(t)
		g.Expect(kind).To(Equal(theirs.Type))
		if len(object) > 0 { // else it may be there twice, and empty the second time
			g.Expect(object).To(Equal(theirs.Object.Raw))
		}
		if Is(object) {
			_ = Open(object, "", &metav1.PartialObjectMetadata{})
		}
	})
}

func BenchmarkEvent(b *testing.B) {
	text := sentEvent(b, watch.Added, sent(b, some(), "PartialObjectMetadata"))
	b.ReportAllocs()
	for b.Loop() {
		_, object, err := Event(text)
		if err == nil {
			err = Open(object, "", &metav1.PartialObjectMetadata{})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
