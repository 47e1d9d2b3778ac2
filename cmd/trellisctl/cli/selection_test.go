package cli

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestSeveralSubjects(t *testing.T) {
	both := []Kind{KindManagedResource, KindCluster}
	for name, test := range map[string]struct {
		args  []string
		kinds []Kind
		want  []Subject
		says  string
	}{
		"one":              {[]string{"mr", "a"}, both, []Subject{{KindManagedResource, "a", ""}}, ""},
		"one with a slash": {[]string{"tc/a"}, both, []Subject{{KindCluster, "a", ""}}, ""},
		"several": {[]string{"mrs", "a", "n/b"}, both,
			[]Subject{{KindManagedResource, "a", ""}, {KindManagedResource, "b", "n"}}, ""},
		"of several kinds": {[]string{"mr/a", "cluster/n/b"}, both,
			[]Subject{{KindManagedResource, "a", ""}, {KindCluster, "b", "n"}}, ""},
		"as -o name prints it": {[]string{"managedresource.resources.gardener.cloud/n/a"}, both,
			[]Subject{{KindManagedResource, "a", "n"}}, ""},
		"a kind alone": {[]string{"mr"}, both, nil, ""},
		"an object of a target": {[]string{"service", "n/a"}, []Kind{KindService},
			[]Subject{{KindService, "n/a", ""}}, ""},
		"one without its namespace":    {[]string{"service", "a"}, []Kind{KindService}, nil, "service NAMESPACE/NAME"},
		"nothing":                      {nil, both, nil, "mr NAME or cluster NAME"},
		"another kind":                 {[]string{"pods", "a"}, both, nil, `"pods" is no kind`},
		"another kind after the first": {[]string{"mr/a", "pod/b"}, both, nil, `"pod/b" has to be given as`},
		"a name without a kind":        {[]string{"mr/a", "b"}, both, nil, `"b" has to be given as`},
		"an empty name":                {[]string{"mr", ""}, both, nil, "a name is empty"},
		"an empty namespace":           {[]string{"mr", "/a"}, both, nil, "neither NAME nor NAMESPACE/NAME"},
		"more slashes than a name has": {[]string{"mr", "a/b/c"}, both, nil, "neither NAME nor NAMESPACE/NAME"},
		"a kind with an empty name":    {[]string{"mr/"}, both, nil, "has to be given as"},
		"a kind of another command":    {[]string{"node", "a"}, both, nil, "is no kind that this is about"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, _, err := parseSubjects(test.args, test.kinds...)
			if test.says != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.says)))
				g.Expect(ExitCode(err)).To(Equal(ExitUsage))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.want))
		})
	}
}
