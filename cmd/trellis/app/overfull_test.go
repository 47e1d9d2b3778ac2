package app

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
)

// Of a target without a TargetCluster only the debug page shows that there is no room for all it has.
func TestDebugPageShowsWhatThereIsNoRoomFor(t *testing.T) {
	g := NewWithT(t)
	page := debugPage{Targets: []debugTarget{describeTarget(clustercache.Inspection{Status: clustercache.Status{Overfull: "more than <5> objects"}})}}
	g.Expect(page.Targets[0].Overfull).To(Equal("more than <5> objects"))
	g.Expect(page.html()).To(ContainSubstring("<br>more than &lt;5&gt; objects</td>"))
}
