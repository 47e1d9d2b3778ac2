package kinds

import (
	"bytes"
	"crypto/sha512"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discovery.json is what kube-apiserver says of itself, a line for each resource; TestServesWhatKubeAPIServerServes
// compares it and writes it.
//
//go:embed discovery.json
var discoveryJSON []byte

// builtInDiscovery returns the discovery of the core group and of the others, cut to the preferred version of each.
func builtInDiscovery() (core, groups []apidiscoveryv2.APIGroupDiscovery) {
	var all []apidiscoveryv2.APIGroupDiscovery
	if err := json.Unmarshal(discoveryJSON, &all); err != nil {
		panic(fmt.Sprintf("discovery.json: %v", err))
	}
	return all[:1], all[1:]
}

// withDefinitions adds what CustomResourceDefinitions define to the discovery of named groups. Groups of theirs come last,
// in the order of their names.
func withDefinitions(groups []apidiscoveryv2.APIGroupDiscovery, added []*definition) []apidiscoveryv2.APIGroupDiscovery {
	groups = slices.Clone(groups)
	builtIn := len(groups)
	for _, d := range added {
		at := slices.IndexFunc(groups, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == d.group })
		if at < 0 {
			at = len(groups)
			groups = append(groups, apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: d.group}})
		}
		versions := slices.Clone(groups[at].Versions)
		for _, resource := range d.resources {
			v := slices.IndexFunc(versions, func(v apidiscoveryv2.APIVersionDiscovery) bool { return v.Version == resource.GVR.Version })
			if v < 0 {
				v = len(versions)
				versions = append(versions, apidiscoveryv2.APIVersionDiscovery{
					Version: resource.GVR.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
				})
			}
			versions[v].Resources = append(slices.Clone(versions[v].Resources), resource.discovery)
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

// documents holds documents that are ready to send; each is made when it is first asked for.
type documents struct{ byPath sync.Map }

func (d *documents) get(path string, build func() any) []byte {
	if doc, ok := d.byPath.Load(path); ok {
		return doc.([]byte)
	}
	doc, _ := d.byPath.LoadOrStore(path, marshal(build()))
	return doc.([]byte)
}

func marshal(value any) []byte {
	doc, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain data
	}
	return append(doc, '\n')
}

// Aggregated returns the aggregated discovery document (apidiscovery.k8s.io/v2) of "/api" or "/apis" and its ETag, quoted.
// Group versions named stale are said to be stale, and have no resources in it: so it looks when an aggregated API server
// does not answer from the beginning. Any other path gives nothing.
func (r *Registry) Aggregated(path string, stale ...schema.GroupVersion) (doc []byte, etag string) {
	var groups []apidiscoveryv2.APIGroupDiscovery
	switch path {
	case "/api":
		groups = r.core
	case "/apis":
		groups = r.groups
	default:
		return nil, ""
	}
	build := func() any {
		return apidiscoveryv2.APIGroupDiscoveryList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: apidiscoveryv2.SchemeGroupVersion.String()},
			Items:    withStale(groups, stale),
		}
	}
	if len(stale) == 0 {
		doc = r.documents.get("aggregated "+path, build)
	} else {
		doc = marshal(build())
	}
	return doc, fmt.Sprintf(`"%X"`, sha512.Sum512(bytes.TrimSpace(doc)))
}

func withStale(groups []apidiscoveryv2.APIGroupDiscovery, stale []schema.GroupVersion) []apidiscoveryv2.APIGroupDiscovery {
	if len(stale) == 0 {
		return groups
	}
	groups = slices.Clone(groups)
	for i := range groups {
		groups[i].Versions = slices.Clone(groups[i].Versions)
		for j, v := range groups[i].Versions {
			if slices.Contains(stale, schema.GroupVersion{Group: groups[i].Name, Version: v.Version}) {
				groups[i].Versions[j] = apidiscoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessStale}
			}
		}
	}
	return groups
}

// Legacy returns a discovery document of the older form: "/api", "/apis", "/apis/<group>", "/api/v1" or
// "/apis/<group>/<version>". There is none of a group that is not served. Storage version hashes are left out.
func (r *Registry) Legacy(path string) (doc []byte, ok bool) {
	build := r.legacy(path)
	if build == nil {
		return nil, false
	}
	return r.documents.get("legacy "+path, build), true
}

func (r *Registry) legacy(path string) func() any {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/api":
		return func() any {
			return metav1.APIVersions{
				TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
				ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
			}
		}
	case path == "/apis":
		return func() any {
			list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
			for _, group := range r.groups {
				list.Groups = append(list.Groups, legacyGroup(group, metav1.TypeMeta{}))
			}
			return list
		}
	case path == "/api/v1":
		return func() any {
			list := legacyResources("v1", r.core[0].Versions[0])
			list.APIVersion = "" // the oldest of all documents has none [seen]
			return list
		}
	case len(segments) == 2 && segments[0] == "apis":
		for _, group := range r.groups {
			if group.Name == segments[1] {
				return func() any { return legacyGroup(group, metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}) }
			}
		}
	case len(segments) == 3 && segments[0] == "apis":
		for _, group := range r.groups {
			for _, v := range group.Versions {
				if group.Name == segments[1] && v.Version == segments[2] {
					return func() any { return legacyResources(group.Name+"/"+v.Version, v) }
				}
			}
		}
	}
	return nil
}

func legacyGroup(group apidiscoveryv2.APIGroupDiscovery, meta metav1.TypeMeta) metav1.APIGroup {
	legacy := metav1.APIGroup{TypeMeta: meta, Name: group.Name}
	for _, v := range group.Versions {
		legacy.Versions = append(legacy.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group.Name + "/" + v.Version, Version: v.Version})
	}
	legacy.PreferredVersion = legacy.Versions[0]
	return legacy
}

func legacyResources(groupVersion string, v apidiscoveryv2.APIVersionDiscovery) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion, APIResources: []metav1.APIResource{},
	}
	for _, r := range v.Resources {
		namespaced := r.Scope == apidiscoveryv2.ScopeNamespace
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Resource, SingularName: r.SingularResource, Namespaced: namespaced, Kind: r.ResponseKind.Kind,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
		for _, sub := range r.Subresources {
			entry := metav1.APIResource{
				Name: r.Resource + "/" + sub.Subresource, Namespaced: namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs,
			}
			if kind := sub.ResponseKind; kind.Group+"/"+kind.Version != groupVersion { // else it goes without saying
				entry.Group, entry.Version = kind.Group, kind.Version
			}
			list.APIResources = append(list.APIResources, entry)
		}
	}
	return list
}
