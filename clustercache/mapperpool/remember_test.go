package mapperpool

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// counting counts how often a mapping is worked out.
type counting struct {
	meta.RESTMapper
	asked int
}

func (c *counting) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	c.asked++
	if kind.Kind != "Pod" {
		return nil, &meta.NoKindMatchError{GroupKind: kind}
	}
	return &meta.RESTMapping{Resource: schema.GroupVersionResource{Version: versions[0], Resource: "pods"}}, nil
}

func TestMappingsAreWorkedOutOnce(t *testing.T) {
	g := NewWithT(t)
	mapper := &counting{}
	r := &remembering{RESTMapper: mapper}
	for range 2 {
		mapping, err := r.RESTMapping(schema.GroupKind{Kind: "Pod"}, "v1")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(mapping.Resource.Resource).To(Equal("pods"))
		mapping.Resource.Resource = "changed" // it belongs to the caller
	}
	g.Expect(mapper.asked).To(Equal(1))
	for range 2 {
		_, err := r.RESTMapping(schema.GroupKind{Kind: "Widget"}, "v1")
		g.Expect(meta.IsNoMatchError(err)).To(BeTrue())
	}
	g.Expect(mapper.asked).To(Equal(3), "what is missing may be there the next time")
}
