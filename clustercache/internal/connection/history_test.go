package connection

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// What a hostile target writes of its Leases is not kept unless it is what an API server writes.
func TestLeasesThatAreNone(t *testing.T) {
	g := NewWithT(t)
	made := func(name, uid, version, renewed string) lease {
		l := lease{}
		l.Metadata.Name, l.Metadata.UID, l.Metadata.ResourceVersion, l.Spec.RenewTime = name, uid, version, renewed
		return l
	}
	long := strings.Repeat("1", 10_000)
	good := made("a", "uid", "5", "2026")
	for _, bad := range []lease{
		made(long, "uid", "9", "2026"), made("a", long, "9", "2026"), made("a", "uid", long, "2026"),
		made("a", "uid", "9", long),
		made("a", "uid", "", "2026"), made("a", "uid", "0", "2026"), made("a", "uid", "-9", "2026"),
		made("a", "uid", "9x", "2026"),
		made("a\n", "uid", "9", "2026"),
	} {
		g.Expect((&leases{Items: []lease{bad, good, bad}}).youngest()).To(Equal(good), "%+.100v", bad)
		g.Expect((&leases{Items: []lease{bad}}).youngest()).To(BeZero())
	}
}
