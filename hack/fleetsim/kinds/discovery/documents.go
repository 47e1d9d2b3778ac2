package discovery

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/custom"
)

// discovery.json is what kube-apiserver says of itself, a line for each resource; TestServesWhatKubeAPIServerServes of
// kinds compares it and writes it.
//
//go:embed discovery.json
var discoveryJSON []byte

// Documents are what a set of resources says of itself. They may be used by any number of goroutines.
type Documents struct {
	// core and groups are the two aggregated discovery documents.
	core, groups []apidiscoveryv2.APIGroupDiscovery
	// storage is where the versions of custom resources are stored.
	storage map[schema.GroupVersionResource]schema.GroupVersion
	cache   cache
}

// BuiltIn returns the documents of the built-in resources, cut to the preferred version of each group.
func BuiltIn() *Documents {
	var all []apidiscoveryv2.APIGroupDiscovery
	if err := json.Unmarshal(discoveryJSON, &all); err != nil {
		panic(fmt.Sprintf("discovery.json: %v", err))
	}
	return &Documents{core: all[:1], groups: all[1:]}
}

// With returns the documents that list these definitions as well, none of which may be there already.
func (d *Documents) With(added []*custom.Definition) *Documents {
	extended := &Documents{core: d.core, groups: withDefinitions(d.groups, added), storage: maps.Clone(d.storage)}
	if extended.storage == nil {
		extended.storage = map[schema.GroupVersionResource]schema.GroupVersion{}
	}
	for _, definition := range added {
		for _, v := range definition.Served {
			extended.storage[v.GroupVersion.WithResource(v.Discovery.Resource)] = definition.Storage.GroupVersion()
		}
	}
	return extended
}

// Resources goes through all resources, with what discovery says of them.
func (d *Documents) Resources() iter.Seq2[schema.GroupVersion, apidiscoveryv2.APIResourceDiscovery] {
	return func(yield func(schema.GroupVersion, apidiscoveryv2.APIResourceDiscovery) bool) {
		for _, group := range slices.Concat(d.core, d.groups) {
			for _, v := range group.Versions {
				for _, resource := range v.Resources {
					if !yield(schema.GroupVersion{Group: group.Name, Version: v.Version}, resource) {
						return
					}
				}
			}
		}
	}
}

// withDefinitions adds what CustomResourceDefinitions define to the discovery of named groups. Groups of theirs come
// last, in the order of their names.
func withDefinitions(groups []apidiscoveryv2.APIGroupDiscovery, added []*custom.Definition) []apidiscoveryv2.APIGroupDiscovery {
	groups = slices.Clone(groups)
	builtIn := len(groups)
	for _, d := range added {
		at := slices.IndexFunc(groups, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == d.Group })
		if at < 0 {
			at = len(groups)
			groups = append(groups, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: d.Group}})
		}
		versions := slices.Clone(groups[at].Versions)
		for _, resource := range d.Served {
			v := slices.IndexFunc(versions, func(v apidiscoveryv2.APIVersionDiscovery) bool { return v.Version == resource.GroupVersion.Version })
			if v < 0 {
				v = len(versions)
				versions = append(versions, apidiscoveryv2.APIVersionDiscovery{
					Version: resource.GroupVersion.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
				})
			}
			versions[v].Resources = append(slices.Clone(versions[v].Resources), resource.Discovery)
			slices.SortFunc(versions[v].Resources, func(a, b apidiscoveryv2.APIResourceDiscovery) int {
				return strings.Compare(a.Resource, b.Resource)
			})
		}
		slices.SortFunc(versions, func(a, b apidiscoveryv2.APIVersionDiscovery) int {
			return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
		})
		groups[at].Versions = versions
	}
	slices.SortFunc(groups[builtIn:], func(a, b apidiscoveryv2.APIGroupDiscovery) int { return strings.Compare(a.Name, b.Name) })
	return groups
}

// cache holds documents that are ready to send; each is made when it is first asked for.
type cache struct {
	mu     sync.Mutex
	byPath map[string][]byte
}

func (c *cache) get(path string, build func() any) []byte {
	c.mu.Lock()
	doc, ok := c.byPath[path]
	c.mu.Unlock()
	if ok {
		return doc
	}
	doc = marshal(build()) // which may ask for others
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPath == nil {
		c.byPath = map[string][]byte{}
	}
	c.byPath[path] = doc
	return doc
}

func marshal(value any) []byte {
	doc, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain data
	}
	return append(doc, '\n')
}
