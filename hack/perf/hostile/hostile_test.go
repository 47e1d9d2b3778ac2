package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	controlplane.VerifyTestMain(m)
}

// TestEveryRowIsAttacked fails if a row of the table has no attack and no test, or two attacks have one name.
func TestEveryRowIsAttacked(t *testing.T) {
	g := NewWithT(t)
	found, names := map[int]bool{}, map[string]bool{}
	for _, a := range attacks() {
		found[a.row] = true
		g.Expect(names).NotTo(HaveKey(a.id()))
		names[a.id()] = true
		g.Expect(a.begin).NotTo(BeNil(), a.id())
		g.Expect(a.budget).To(BeNumerically(">", 0), a.id())
	}
	for _, e := range elsewhere {
		found[e.row] = true
	}
	for row := 1; row <= rows; row++ {
		g.Expect(found).To(HaveKey(row))
	}
}

// TestBodiesAreWhatTheyClaim fails if a body is no JSON, or smaller in memory or larger on the wire than it claims.
func TestBodiesAreWhatTheyClaim(t *testing.T) {
	const size = 2 << 20
	for _, s := range shapes {
		for _, p := range places {
			t.Run(s.name+" in "+p.name, func(t *testing.T) {
				g := NewWithT(t)
				var plain, zipped bytes.Buffer
				b := body{p.prefix, p.suffix, s, size}
				g.Expect(b.write(&plain)).To(Succeed())
				g.Expect(b.writeCompressed(&zipped)).To(Succeed())
				g.Expect(plain.Len()).To(BeNumerically(">", size/2))
				g.Expect(plain.Len()).To(BeNumerically("<", 2*size))
				g.Expect(zipped.Len()).To(BeNumerically("<", size/50))
				if s.name != depth.name { // deeper than encoding/json goes
					g.Expect(json.Valid(plain.Bytes())).To(BeTrue(), "%.300s", plain.String())
				}
				reader, err := gzip.NewReader(&zipped)
				g.Expect(err).NotTo(HaveOccurred())
				unzipped, err := io.ReadAll(reader)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(bytes.Equal(unzipped, plain.Bytes())).To(BeTrue())
			})
		}
	}
}

// TestProtobufIsWhatItClaims decodes a document, so that a hub does not refuse it for another reason than its size.
func TestProtobufIsWhatItClaims(t *testing.T) {
	for name, field := range protobufShapes {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var unknown runtime.Unknown
			g.Expect(unknown.Unmarshal(bytes.TrimPrefix(protobufObject(field, 3000), []byte("k8s\x00")))).To(Succeed())
			g.Expect(unknown.Kind).To(Equal("PartialObjectMetadata"))
			var object metav1.PartialObjectMetadata
			g.Expect(object.Unmarshal(unknown.Raw)).To(Succeed())
			g.Expect(object.Name).To(Equal("steady-0"))
			n := len(object.OwnerReferences) + len(object.Finalizers) + len(object.ManagedFields)
			g.Expect(n).To(BeNumerically(">=", 1000))
		})
	}
}
