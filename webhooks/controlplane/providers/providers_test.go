package providers

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/webhooks/controlplane/example"
)

func TestUnknownProviders(t *testing.T) {
	g := NewWithT(t)
	path := field.NewPath("spec", "providers")
	g.Expect(Unknown(nil, path)).To(BeEmpty())
	g.Expect(Unknown([]string{example.Name}, path)).To(BeEmpty())
	g.Expect(Unknown([]string{example.Name, "another"}, path).ToAggregate()).To(
		MatchError(`spec.providers[1]: Unsupported value: "another": supported values: "` + example.Name + `"`))
}
