package health

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestLabels(t *testing.T) {
	g := NewWithT(t)
	values := map[string]string{"b": "2", "a": "1", "empty": ""}
	l := LabelsOf(values)
	for name, value := range values {
		g.Expect(l.Has(name)).To(BeTrue())
		g.Expect(l.Get(name)).To(Equal(value))
	}
	g.Expect(l.Has("c")).To(BeFalse())
	g.Expect(l.Get("c")).To(BeEmpty())
	g.Expect(Labels(nil).Has("a")).To(BeFalse())
	for range 20 { // whatever order the map is gone through
		g.Expect(LabelsOf(values)).To(Equal(l))
	}
	g.Expect(LabelsOf(map[string]string{"a": "2", "b": "1", "empty": ""})).NotTo(Equal(l))
}
