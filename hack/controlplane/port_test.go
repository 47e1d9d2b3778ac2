package controlplane

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestFreePortsDiffer(t *testing.T) {
	g := NewWithT(t)
	seen := map[int]bool{}
	for range 200 {
		port, err := FreePort()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(seen).NotTo(HaveKey(port))
		g.Expect(port).To(And(BeNumerically(">=", lowestPort), BeNumerically("<", lowestPort+ports)))
		seen[port] = true
	}
}
