package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// version is a ManagedResource as it was seen at a time.
type version struct {
	*resourcesv1alpha1.ManagedResource
	at time.Time
}

// recorder remembers every version of every ManagedResource.
type recorder struct {
	mu       sync.Mutex
	versions map[types.NamespacedName][]version
	stop     func()
}

func record(ctx context.Context) (*recorder, error) {
	c, err := client.NewWithWatch(source.RESTConfig(), client.Options{Scheme: hubtest.Scheme()})
	if err != nil {
		return nil, err
	}
	w, err := c.Watch(ctx, &resourcesv1alpha1.ManagedResourceList{})
	if err != nil {
		return nil, err
	}
	r := &recorder{versions: map[types.NamespacedName][]version{}}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range w.ResultChan() {
			if mr, ok := event.Object.(*resourcesv1alpha1.ManagedResource); ok {
				r.mu.Lock()
				key := client.ObjectKeyFromObject(mr)
				r.versions[key] = append(r.versions[key], version{mr, time.Now()})
				r.mu.Unlock()
			}
		}
	})
	r.stop = func() { w.Stop(); done.Wait() }
	return r, nil
}

// of returns the versions of a ManagedResource that were seen so far.
func (r *recorder) of(key types.NamespacedName) []version {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]version(nil), r.versions[key]...)
}

// mark is a moment in the history of a ManagedResource: how many versions there were.
type mark int

// mark returns after everything that was written until now has been recorded.
func (p place) mark(name string) mark {
	p.t.Helper()
	key := types.NamespacedName{Namespace: p.ns, Name: name}
	now := p.mr(name).ResourceVersion
	var n int
	p.Eventually(func() bool {
		versions := seen.of(key)
		for n = len(versions); n > 0; n-- {
			if versions[n-1].ResourceVersion == now {
				return true
			}
		}
		return false
	}).WithPolling(5 * time.Millisecond).Should(BeTrue())
	return mark(n)
}

// between returns the versions after one mark, up to another.
func (p place) between(name string, from, to mark) []version {
	return seen.of(types.NamespacedName{Namespace: p.ns, Name: name})[from:to]
}

// ofNewContent leaves only versions that speak of content that came after the first of them: those from the one on that says
// that it is being applied, or that it is applied.
func ofNewContent(before *resourcesv1alpha1.ManagedResource, versions []version) []version {
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
func history(versions []version) string {
	var out strings.Builder
	for _, v := range versions {
		fmt.Fprintf(&out, "%s generation %d observed %d checksum %.6s", v.at.Format("15:04:05.000"), v.Generation, v.Status.ObservedGeneration, checksum(v.ManagedResource))
		for _, c := range v.Status.Conditions {
			fmt.Fprintf(&out, " | %s %s/%s %q", c.Type, c.Status, c.Reason, c.Message)
		}
		out.WriteString("\n")
	}
	return out.String()
}
