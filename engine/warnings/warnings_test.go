package warnings_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/engine/warnings"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.FixedZone("east", 3600))

func TestNotes(t *testing.T) {
	g := NewWithT(t)
	g.Expect(warnings.Notes(nil)).To(BeEmpty())
	all := []warnings.Warning{
		{Reporter: "service-controller", Reason: "SyncFailed", Message: "no quota\nfor addresses", Count: 27, First: noon.Add(time.Hour)},
		{Reporter: "unknown", Reason: "Odd", Message: "once", Count: 1, First: noon},
	}
	g.Expect(warnings.Notes(all)).To(Equal([]string{
		"Last warning events:",
		"- unknown, at 2026-11-21T11:00:00Z: Odd: once",
		"- service-controller, 20 times or more since 2026-11-21T12:00:00Z: SyncFailed: no quota for addresses",
	}))
	long := warnings.Notes([]warnings.Warning{{Message: strings.Repeat("ä", 1000)}})[1]
	g.Expect(len(long)).To(BeNumerically("<", 500))
	g.Expect(strings.ToValidUTF8(long, "?")).To(Equal(long))
}

// Counts are rounded, so that an event that repeats seldom changes the text.
func TestNotesRoundTheCount(t *testing.T) {
	g := NewWithT(t)
	texts := map[string]bool{}
	for n := range int32(2000) {
		texts[fmt.Sprint(warnings.Notes([]warnings.Warning{{Count: n + 1, First: noon}}))] = true
	}
	g.Expect(texts).To(HaveLen(11)) // 1, 2, 5, 10, ... 2000
}
