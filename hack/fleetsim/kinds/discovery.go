package kinds

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
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
type documents struct {
	mu     sync.Mutex
	byPath map[string][]byte
}

func (d *documents) get(path string, build func() any) []byte {
	d.mu.Lock()
	doc, ok := d.byPath[path]
	d.mu.Unlock()
	if ok {
		return doc
	}
	doc = marshal(build()) // which may ask for others
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byPath == nil {
		d.byPath = map[string][]byte{}
	}
	d.byPath[path] = doc
	return doc
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
// "/apis/<group>/<version>". There is none of a group that is not
// served.
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
		return func() any { return r.legacyResources(schema.GroupVersion{Version: "v1"}, r.core[0].Versions[0]) }
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
					return func() any { return r.legacyResources(schema.GroupVersion{Group: group.Name, Version: v.Version}, v) }
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

func (r *Registry) legacyResources(gv schema.GroupVersion, v apidiscoveryv2.APIVersionDiscovery) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	if gv.Group != "" {
		list.APIVersion = "v1" // the core group leaves it out
	}
	for _, d := range v.Resources {
		namespaced := d.Scope == apidiscoveryv2.ScopeNamespace
		legacy := metav1.APIResource{
			Name: d.Resource, SingularName: d.SingularResource, Namespaced: namespaced, Kind: d.ResponseKind.Kind,
			Verbs: d.Verbs, ShortNames: d.ShortNames, Categories: d.Categories,
		}
		if resource, ok := r.Resource(gv.WithResource(d.Resource)); ok && slices.Contains(d.Verbs, "watch") {
			legacy.StorageVersionHash = storageVersionHash(resource)
		}
		list.APIResources = append(list.APIResources, legacy)
		for _, sub := range d.Subresources {
			legacy := metav1.APIResource{Name: d.Resource + "/" + sub.Subresource, Namespaced: namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs}
			if sub.ResponseKind.Group != gv.Group || sub.ResponseKind.Version != gv.Version {
				legacy.Group, legacy.Version = sub.ResponseKind.Group, sub.ResponseKind.Version
			}
			list.APIResources = append(list.APIResources, legacy)
		}
	}
	return list
}

// storedElsewhere are the group versions in which a real server stores what it serves in another.
var storedElsewhere = map[string]schema.GroupVersion{
	"events.k8s.io/v1/events": {Version: "v1"},

	"admissionregistration.k8s.io/v1/mutatingadmissionpolicies":       {Group: "admissionregistration.k8s.io", Version: "v1beta1"},
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": {Group: "admissionregistration.k8s.io", Version: "v1beta1"},
	"apiextensions.k8s.io/v1/customresourcedefinitions":               {Group: "apiextensions.k8s.io", Version: "v1beta1"},
}

// storageVersionHash is how discovery tells in which version objects are stored.
func storageVersionHash(r *Resource) string {
	stored := r.Storage.GroupVersion()
	if elsewhere, ok := storedElsewhere[stored.String()+"/"+r.GVR.Resource]; ok {
		stored = elsewhere
	}
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + r.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
