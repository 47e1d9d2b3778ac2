package histories

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestStepsAreText(t *testing.T) {
	g := NewWithT(t)
	generator := newGenerator(7)
	var text string
	var drawn []Step
	for range 2000 {
		s := generator.next()
		drawn = append(drawn, s)
		text += s.String() + "\n"
	}
	read, err := ParseSteps(text + "\n# a remark\nrest 0 0 0 0s # and another one\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read[:2000]).To(Equal(drawn))
	g.Expect(read[2000:]).To(Equal([]Step{{Op: restOp}}))

	for _, bad := range []string{"toggle 1 2", "toggle 1 2 3 soon", "fly 1 2 3 0s"} {
		_, err := ParseSteps(bad)
		g.Expect(err).To(HaveOccurred(), bad)
	}
}

func TestSeedDrawsTheSameHistory(t *testing.T) {
	draw := func(seed uint64) (out []Step) {
		next := history(Options{Seed: seed})
		for range 500 {
			s, _ := next()
			out = append(out, s)
		}
		return out
	}
	g := NewWithT(t)
	g.Expect(draw(3)).To(Equal(draw(3)))
	g.Expect(draw(3)).NotTo(Equal(draw(4)))
}
