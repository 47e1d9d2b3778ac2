package mapperpool

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// maxDocument bounds what is read of a discovery document. A cluster with 1,000 CRDs has about 1 MiB.
const maxDocument = 64 << 20

// errNotAggregated means that the server only knows discovery one group version at a time (before Kubernetes 1.27).
var errNotAggregated = errors.New("server has no aggregated discovery")

// document is one of the two parts of aggregated discovery.
type document struct {
	digest  string                              // of the content
	tag     string                              // the ETag that the target gave to it, if any
	content *apidiscovery.APIGroupDiscoveryList // nil if it is the one known already
}

// discovered is an entry, and the ETags by which a target knows its documents.
type discovered struct {
	*entry
	tags documents
}

// discover returns what the target serves now. known is what it served last, or what others serve; its tags are offered.
func (p *Pool) discover(ctx context.Context, config *rest.Config, client *http.Client, known discovered) (discovered, error) {
	digests := documents{}
	if known.entry != nil {
		digests = known.digests
	}
	core, err := fetch(ctx, config, client, "api", known.tags.core, digests.core)
	if err == nil {
		var groups document
		if groups, err = fetch(ctx, config, client, "apis", known.tags.groups, digests.groups); err == nil {
			return p.resolve(ctx, config, client, known, core, groups)
		}
	}
	if errors.Is(err, errNotAggregated) {
		return p.discoverUnaggregated(ctx, config, client)
	}
	return discovered{}, err
}

// resolve turns the two documents into an entry. If only one of them is new, the other is fetched again in full, for an
// entry keeps no documents.
func (p *Pool) resolve(ctx context.Context, config *rest.Config, client *http.Client, known discovered, core, groups document) (discovered, error) {
	given := documents{core.tag, groups.tag}
	if core.content == nil && groups.content == nil {
		return discovered{p.get(documents{core.digest, groups.digest}, func() *entry { return known.entry }), known.tags}, nil
	}
	if found, ok := p.entries.Get(documents{core.digest, groups.digest}); ok {
		return discovered{found, given.sharing(found)}, nil
	}
	var err error
	if core.content == nil {
		if core, err = fetch(ctx, config, client, "api", "", ""); err != nil {
			return discovered{}, err
		}
	}
	if groups.content == nil {
		if groups, err = fetch(ctx, config, client, "apis", "", ""); err != nil {
			return discovered{}, err
		}
	}
	given = documents{core.tag, groups.tag}
	found := p.get(documents{core.digest, groups.digest}, func() *entry { return build(core.content, groups.content) })
	return discovered{found, given.sharing(found)}, nil
}

// fetch reads one part of aggregated discovery, unless its tag is the one given, which stands for content of the digest.
func fetch(ctx context.Context, config *rest.Config, client *http.Client, path, tag, digest string) (document, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return document{}, fmt.Errorf("address of the target: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(path).String(), nil)
	if err != nil {
		return document{}, fmt.Errorf("request of discovery: %w", err)
	}
	request.Header.Set("Accept", discovery.AcceptV2+","+discovery.AcceptV1)
	if tag != "" {
		request.Header.Set("If-None-Match", tag)
	}
	response, err := client.Do(request)
	if err != nil {
		return document{}, fmt.Errorf("discovery: %w", err)
	}
	defer func() { _ = response.Body.Close() }()

	switch {
	case response.StatusCode == http.StatusNotModified && tag != "":
		return document{tag: tag, digest: digest}, nil
	case response.StatusCode == http.StatusNotAcceptable, response.StatusCode == http.StatusNotFound:
		return document{}, errNotAggregated
	case response.StatusCode != http.StatusOK:
		return document{}, fmt.Errorf("discovery: %w", apierrors.NewGenericServerResponse(
			response.StatusCode, http.MethodGet, schema.GroupResource{}, "", "/"+path, 0, true))
	}
	if kind, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil ||
		kind != "application/json" || parameters["as"] != "APIGroupDiscoveryList" {
		return document{}, errNotAggregated
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err != nil {
		return document{}, fmt.Errorf("discovery: %w", err)
	}
	content := &apidiscovery.APIGroupDiscoveryList{}
	if err := json.Unmarshal(raw, content); err != nil {
		return document{}, fmt.Errorf("discovery is no JSON: %w", err)
	}
	return document{tag: response.Header.Get("ETag"), digest: digestOf(raw), content: content}, nil
}

// discoverUnaggregated asks a server without aggregated discovery, in one call for each group version.
func (p *Pool) discoverUnaggregated(ctx context.Context, config *rest.Config, client *http.Client) (discovered, error) {
	legacy, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return discovered{}, fmt.Errorf("discovery: %w", err)
	}
	groups, resources, err := legacy.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return discovered{}, fmt.Errorf("discovery: %w", err)
	}
	failed := map[schema.GroupVersion]error{}
	if partial != nil {
		failed = partial.Groups
	}
	broken := slices.SortedFunc(maps.Keys(failed), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	raw, err := json.Marshal([]any{groups, resources, broken})
	if err != nil {
		return discovered{}, fmt.Errorf("discovery: %w", err)
	}
	byVersion := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, list := range resources {
		if version, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			byVersion[version] = list
		}
	}
	return discovered{entry: p.get(documents{groups: digestOf(raw)}, func() *entry { return assemble(groups, byVersion, failed) })}, nil
}

func build(documents ...*apidiscovery.APIGroupDiscoveryList) *entry {
	all := apidiscovery.APIGroupDiscoveryList{}
	for _, document := range documents {
		all.Items = append(all.Items, document.Items...)
	}
	list, resources, failed := discovery.SplitGroupsAndResources(all)
	groups := make([]*metav1.APIGroup, len(list.Groups))
	for i := range list.Groups {
		groups[i] = &list.Groups[i]
	}
	return assemble(groups, resources, failed)
}

func assemble(groups []*metav1.APIGroup, resources map[schema.GroupVersion]*metav1.APIResourceList, failed map[schema.GroupVersion]error) *entry {
	all := make([]*restmapper.APIGroupResources, 0, len(groups))
	for _, group := range groups {
		versioned := map[string][]metav1.APIResource{}
		for _, version := range group.Versions {
			if list := resources[schema.GroupVersion{Group: group.Name, Version: version.Version}]; list != nil {
				versioned[version.Version] = list.APIResources
			}
		}
		all = append(all, &restmapper.APIGroupResources{Group: *group, VersionedResources: versioned})
	}
	return &entry{mapper: &remembering{RESTMapper: restmapper.NewDiscoveryRESTMapper(all)}, failed: failed}
}

// digestOf is the ETag that a kube-apiserver gives to a document: a hash of all but what kind of document it is. So the digests of
// what one target sent can be offered to another, which then need not send it. Of a document that does not begin as those of a
// kube-apiserver do, all counts.
func digestOf(document []byte) string {
	document = bytes.TrimSpace(document)
	for _, version := range []string{"v2", "v2beta1"} {
		if rest, ok := bytes.CutPrefix(document, []byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/`+version+`",`)); ok {
			document = slices.Concat([]byte("{"), rest)
			break
		}
	}
	return fmt.Sprintf("\"%X\"", sha512.Sum512(document))
}
