package apiserver

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// protobufPrefix begins every document in protobuf but the events of a watch, which have their length before them.
const protobufPrefix = "k8s\x00"

// message is what knows its form in protobuf.
type message interface{ Marshal() ([]byte, error) }

// fromProtobuf makes JSON of a body in protobuf.
func fromProtobuf(body []byte) ([]byte, error) {
	o, kind, err := clientscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	o.GetObjectKind().SetGroupVersionKind(*kind)
	return json.Marshal(o)
}

// metadataOf returns an object without all but its metadata.
func metadataOf(o *storage.Object, as storage.As) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{}
	withBuffer(func(b []byte) []byte {
		b = o.AppendJSON(b, as)
		if err := json.Unmarshal(b, out); err != nil {
			panic(fmt.Sprintf("apiserver: stored metadata cannot be decoded: %v", err)) // it was encoded by this server
		}
		return b
	})
	return out
}

// protobufOf returns a document with the type of what is in it. It has to be set.
func protobufOf(o interface {
	message
	runtime.Object
}) []byte {
	version, kind := o.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	wrapped := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: encoded(o)}
	return append([]byte(protobufPrefix), encoded(&wrapped)...)
}

// appendProtobufEvent appends an event of a watch.
func appendProtobufEvent(b []byte, kind string, document []byte) []byte {
	event := encoded(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: document}})
	b = binary.BigEndian.AppendUint32(b, uint32(len(event))) //nolint:gosec // objects are bounded
	return append(b, event...)
}

func encoded(m message) []byte {
	b, err := m.Marshal()
	if err != nil {
		panic(fmt.Sprintf("apiserver: an answer cannot be encoded: %v", err)) // they are all API types
	}
	return b
}
