package health

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// mark is a moment in the history of a ManagedResource: how many versions there were.
type mark int

// mark returns after everything that was written until now has been recorded.
func (p place) mark(name string) mark {
	p.t.Helper()
	key := types.NamespacedName{Namespace: p.ns, Name: name}
	now := p.mr(name).ResourceVersion
	var n int
	p.Eventually(func() bool {
		versions := seen.Of(key)
		for n = len(versions); n > 0; n-- {
			if versions[n-1].ResourceVersion == now {
				return true
			}
		}
		return false
	}).WithPolling(5 * time.Millisecond).Should(BeTrue())
	return mark(n)
}

// since returns the versions after a mark that were seen so far.
func (p place) since(name string, from mark) []testbed.Version {
	return seen.Of(types.NamespacedName{Namespace: p.ns, Name: name})[from:]
}

// between returns the versions after one mark, up to another.
func (p place) between(name string, from, to mark) []testbed.Version {
	return seen.Of(types.NamespacedName{Namespace: p.ns, Name: name})[from:to]
}

// ofNewContent leaves only versions that speak of content that came after the first of them: those from the one on that
// says that it is being applied, or that it is applied.
func ofNewContent(before *resourcesv1alpha1.ManagedResource, versions []testbed.Version) []testbed.Version {
	for i, v := range versions {
		if checksum(v.ManagedResource) != checksum(before) || condition(v.ManagedResource, applied) != condition(before, applied) {
			return versions[i:]
		}
	}
	return nil
}

func checksum(mr *resourcesv1alpha1.ManagedResource) string {
	if mr.Status.SecretsDataChecksum == nil {
		return ""
	}
	return *mr.Status.SecretsDataChecksum
}

// history renders versions for people.
func history(versions []testbed.Version) string {
	var out strings.Builder
	for _, v := range versions {
		fmt.Fprintf(&out, "%s generation %d observed %d checksum %.6s", v.At.Format("15:04:05.000"), v.Generation, v.Status.ObservedGeneration, checksum(v.ManagedResource))
		for _, c := range v.Status.Conditions {
			fmt.Fprintf(&out, " | %s %s/%s %q", c.Type, c.Status, c.Reason, c.Message)
		}
		out.WriteString("\n")
	}
	return out.String()
}
