package envelope

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/untrusted"
)

// repeated is a field of a message, often.
func repeated(number byte, times int, value string) []byte {
	tag := []byte{number<<3 | 2}
	if number > 15 {
		tag = []byte{number<<3&0x7f | 2 | 0x80, number >> 4}
	}
	return bytes.Repeat(append(append(tag, byte(len(value))), value...), times)
}

// within is a message as a field of another one.
func within(number byte, message []byte) []byte {
	length := len(message)
	out := []byte{number<<3 | 2}
	for length >= 0x80 {
		out = append(out, byte(length)|0x80)
		length >>= 7
	}
	return append(append(out, byte(length)), message...)
}

func managedFieldOf(message []byte) []byte {
	return append(repeated(17, 1, "")[:2], within(1, message)[1:]...)
}

func envelopeOf(kind string, message []byte) []byte {
	return append(append([]byte("k8s\x00"), within(1, within(2, []byte(kind)))...), within(2, message)...)
}

func TestMessagesWithTooManyElementsAreNotDecoded(t *testing.T) {
	const many = 1 << 20
	for name, c := range map[string]struct {
		kind    string
		message []byte
	}{
		"labels":                         {"", within(1, repeated(11, many, ""))},
		"annotations":                    {"", within(1, repeated(12, many, ""))},
		"owner references":               {"", within(1, repeated(13, many, ""))},
		"finalizers":                     {"", within(1, repeated(14, many, ""))},
		"managed fields":                 {"", within(1, repeated(17, many, ""))},
		"fields of a managed field":      {"", within(1, managedFieldOf(repeated(1, many, "")))},
		"names":                          {"", within(1, repeated(1, many, "a"))},
		"metadata":                       {"", repeated(1, many, "")},
		"metadata with a finalizer each": {"", repeated(1, many/2, "\x72\x00")},
		"causes of a status":             {"Status", within(5, repeated(4, many, ""))},
		"details of a status":            {"Status", repeated(5, many, "")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var object metav1.PartialObjectMetadata
			var status metav1.Status
			var into interface{ Unmarshal([]byte) error } = &object
			if c.kind == "Status" {
				into = &status
			}
			g.Expect(Open(envelopeOf(c.kind, c.message), c.kind, into)).To(MatchError(untrusted.ErrExceeded))
			g.Expect(object).To(BeZero(), "nothing was decoded")
			g.Expect(status).To(BeZero(), "nothing was decoded")
			allocs := testing.AllocsPerRun(5, func() { _ = Count(c.message) })
			g.Expect(allocs).To(BeNumerically("<=", 2), "but for the error")
		})
	}
}

func TestLargeHonestObjectsAreDecoded(t *testing.T) {
	g := NewWithT(t)
	object := some()
	object.Annotations = map[string]string{"large": strings.Repeat("\x0a\x00", 128<<10)} // a message, if it were one
	for i := range 2000 {
		object.Annotations["annotation-"+strconv.Itoa(i)] = strings.Repeat("a", 50)
		object.Labels["label-"+strconv.Itoa(i)] = "value"
	}
	for i := range 100 {
		object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: "manager-" + strconv.Itoa(i), Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{` + strings.Repeat(`"f:a":{},`, 10000) + `"f:b":{}}}`),
		})
		owner := metav1.OwnerReference{Name: "owner", UID: types.UID("uid-" + strconv.Itoa(i))}
		object.OwnerReferences = append(object.OwnerReferences, owner)
	}
	var opened metav1.PartialObjectMetadata
	g.Expect(Open(sent(t, object, "PartialObjectMetadata"), "", &opened)).To(Succeed())
	g.Expect(opened.ObjectMeta).To(Equal(object.ObjectMeta))
}

// FuzzCount compares with what the decoder of apimachinery makes of a message.
func FuzzCount(f *testing.F) {
	text, err := some().Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(within(1, repeated(17, 40, "")))
	f.Fuzz(func(t *testing.T, message []byte) {
		const bound = 32
		left, err := count(message, 0, bound)
		var object metav1.PartialObjectMetadata
		if err != nil || object.Unmarshal(message) != nil {
			return
		}
		elements := len(object.Labels) + len(object.Annotations) + len(object.OwnerReferences) +
			len(object.Finalizers) + len(object.ManagedFields)
		if elements > bound-left {
			t.Fatalf("%d elements were counted as %d: %x", elements, bound-left, message)
		}
	})
}

func BenchmarkCount(b *testing.B) {
	text, err := some().Marshal()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := Count(text); err != nil {
			b.Fatal(err)
		}
	}
}
