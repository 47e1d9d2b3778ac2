package discovery

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Aggregated returns the aggregated discovery document (apidiscovery.k8s.io/v2) of "/api" or "/apis" and its ETag, quoted.
// Group versions named stale are said to be stale, and have no resources in it: so it looks when an aggregated API server
// does not answer from the beginning. Any other path gives nothing.
func (d *Documents) Aggregated(path string, stale ...schema.GroupVersion) (doc []byte, etag string) {
	var groups []apidiscoveryv2.APIGroupDiscovery
	switch path {
	case "/api":
		groups = d.core
	case "/apis":
		groups = d.groups
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
		doc = d.cache.get("aggregated "+path, build)
	} else {
		doc = marshal(build())
	}
	return doc, entityTag(doc)
}

// entityTag is the hash of a document but for its kind, as k8s.io/apiserver makes it.
func entityTag(doc []byte) string {
	const metadata = `"metadata":`
	_, rest, _ := bytes.Cut(bytes.TrimSpace(doc), []byte(metadata))
	return fmt.Sprintf(`"%X"`, sha512.Sum512(slices.Concat([]byte("{"+metadata), rest)))
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
// "/apis/<group>/<version>". There is none of a group that is not served.
func (d *Documents) Legacy(path string) (doc []byte, ok bool) {
	build := d.legacy(path)
	if build == nil {
		return nil, false
	}
	return d.cache.get("legacy "+path, build), true
}

func (d *Documents) legacy(path string) func() any {
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
			for _, group := range d.groups {
				list.Groups = append(list.Groups, legacyGroup(group, metav1.TypeMeta{}))
			}
			return list
		}
	case path == "/api/v1":
		return func() any { return d.legacyResources(schema.GroupVersion{Version: "v1"}, d.core[0].Versions[0]) }
	case len(segments) == 2 && segments[0] == "apis":
		for _, group := range d.groups {
			if group.Name == segments[1] {
				return func() any { return legacyGroup(group, metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}) }
			}
		}
	case len(segments) == 3 && segments[0] == "apis":
		for _, group := range d.groups {
			for _, v := range group.Versions {
				if group.Name == segments[1] && v.Version == segments[2] {
					return func() any { return d.legacyResources(schema.GroupVersion{Group: group.Name, Version: v.Version}, v) }
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

func (d *Documents) legacyResources(gv schema.GroupVersion, v apidiscoveryv2.APIVersionDiscovery) metav1.APIResourceList {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv.String(), APIResources: []metav1.APIResource{},
	}
	if gv.Group != "" {
		list.APIVersion = "v1" // the core group leaves it out
	}
	for _, resource := range v.Resources {
		namespaced := resource.Scope == apidiscoveryv2.ScopeNamespace
		legacy := metav1.APIResource{
			Name: resource.Resource, SingularName: resource.SingularResource, Namespaced: namespaced, Kind: resource.ResponseKind.Kind,
			Verbs: resource.Verbs, ShortNames: resource.ShortNames, Categories: resource.Categories,
		}
		if slices.Contains(resource.Verbs, "watch") {
			legacy.StorageVersionHash = d.storageVersionHash(gv, resource)
		}
		list.APIResources = append(list.APIResources, legacy)
		for _, sub := range resource.Subresources {
			legacy := metav1.APIResource{Name: resource.Resource + "/" + sub.Subresource, Namespaced: namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs}
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

// storageVersionHash is how discovery identifies the version in which objects are stored.
func (d *Documents) storageVersionHash(gv schema.GroupVersion, resource apidiscoveryv2.APIResourceDiscovery) string {
	stored, custom := d.storage[gv.WithResource(resource.Resource)]
	if !custom {
		stored = gv
	}
	if elsewhere, ok := storedElsewhere[stored.String()+"/"+resource.Resource]; ok {
		stored = elsewhere
	}
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + resource.ResponseKind.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
