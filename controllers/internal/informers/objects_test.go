package informers_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/cache"

	"github.com/trellis-hub/trellis/controllers/internal/informers"
)

func TestObjectUnwrapsTombstones(t *testing.T) {
	g := NewWithT(t)
	g.Expect(informers.Object("object")).To(Equal("object"))
	g.Expect(informers.Object(cache.DeletedFinalStateUnknown{Key: "a/b", Obj: "object"})).To(Equal("object"))
}

func TestVersionsThatCannotBeComparedAreNotOlder(t *testing.T) {
	g := NewWithT(t)
	g.Expect(informers.Older("9", "10")).To(BeTrue())
	g.Expect(informers.Older("10", "9")).To(BeFalse())
	g.Expect(informers.Older("10", "10")).To(BeFalse())
	g.Expect(informers.Older("9", "abc")).To(BeFalse())
	g.Expect(informers.Older("", "10")).To(BeFalse())
}
