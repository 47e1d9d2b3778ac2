package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

func TestFinalizer(t *testing.T) {
	for class, expected := range map[string]string{
		"":          "resources.gardener.cloud/gardener-resource-manager",
		"resources": "resources.gardener.cloud/gardener-resource-manager",
		"*":         "resources.gardener.cloud/gardener-resource-manager",
		"seed":      "resources.gardener.cloud/gardener-resource-manager-seed",
	} {
		t.Run("class "+class, func(t *testing.T) {
			NewWithT(t).Expect(Finalizer(class)).To(Equal(expected))
		})
	}
}

func TestBUG15_IsTruthy(t *testing.T) {
	g := NewWithT(t)
	for _, value := range []string{"1", "t", "T", "true", "TRUE", "True"} {
		g.Expect(IsTruthy(value)).To(BeTrue(), value)
	}
	for _, value := range []string{"", "0", "false", "yes", "on", "tRUE", " true", "2"} {
		g.Expect(IsTruthy(value)).To(BeFalse(), value)
	}
}
