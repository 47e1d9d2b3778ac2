package nodeagentdelay

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/controllers/internal/nodemarks"
)

func delays(n int, settings Settings) (all []string) {
	for i := range n {
		all = append(all, delayOf(i, n, settings).String())
	}
	return all
}

func TestNODE20_DelaysAreSpreadEvenly(t *testing.T) {
	g := NewWithT(t)
	usual := Settings{MinDelay: 5 * time.Second, MaxDelay: 30 * time.Second}
	g.Expect(delays(1, usual)).To(Equal([]string{"5s"}))
	g.Expect(delays(10, usual)).To(Equal([]string{
		"5s", "7.5s", "10s", "12.5s", "15s", "17.5s", "20s", "22.5s", "25s", "27.5s",
	}))
	many := delays(31, usual)
	g.Expect(many[:3]).To(Equal([]string{"5s", "5.806451612s", "6.612903225s"}))
	g.Expect(many[29]).To(Equal("28.387096774s"))
	g.Expect(delays(3, Settings{MaxDelay: 5 * time.Minute})).To(Equal([]string{"0s", "1m40s", "3m20s"}))
	g.Expect(delays(2, Settings{MinDelay: time.Minute, MaxDelay: time.Minute})).To(Equal([]string{"1m0s", "1m0s"}))
	g.Expect(delays(2, Settings{})).To(Equal([]string{"0s", "0s"}))
}

func TestNODE24_SettingsThatCannotBe(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Settings{MaxDelay: time.Second}.Validate()).To(Succeed())
	g.Expect(Settings{}.Validate()).To(Succeed())
	g.Expect(Settings{MinDelay: -1}.Validate()).NotTo(Succeed())
	g.Expect(Settings{MaxDelay: -1}.Validate()).NotTo(Succeed())
	g.Expect(Settings{MinDelay: 2, MaxDelay: 1}.Validate()).NotTo(Succeed())
}

func TestNODE21_OnlyAnotherSetOfNodesIsLookedAt(t *testing.T) {
	tests := map[string]struct {
		old, value any
		looked     bool
	}{
		"a new one":               {nil, nodemarks.Marks{}, true},
		"one that is gone":        {nodemarks.Marks{}, nil, true},
		"another state":           {nodemarks.Marks{}, nodemarks.Marks{}, false},
		"another taint":           {nodemarks.Marks{Waits: true}, nodemarks.Marks{}, false},
		"another agent":           {nodemarks.Marks{AgentSecret: "a"}, nodemarks.Marks{AgentSecret: "b"}, true},
		"a label that was not so": {nodemarks.Marks{}, nodemarks.Marks{AgentSecret: "b"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var want []types.NamespacedName
			if test.looked {
				want = []types.NamespacedName{{}}
			}
			NewWithT(t).Expect(changed(types.NamespacedName{Name: "n"}, test.old, test.value)).To(Equal(want))
		})
	}
}
