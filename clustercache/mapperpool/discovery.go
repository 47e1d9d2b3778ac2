package mapperpool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// document is one of the two parts of aggregated discovery. content is nil if it is the one known already.
type document struct {
	tag     string
	content *apidiscovery.APIGroupDiscoveryList
}

// discover returns the entry for what the target serves now. known is the entry whose tags are offered, or nil.
func (p *Pool) discover(ctx context.Context, config *rest.Config, client *http.Client, known *entry) (*entry, error) {
	offered := tags{}
	if known != nil {
		offered = known.tags
	}
	core, err := fetch(ctx, config, client, "api", offered.core)
	if err == nil {
		var groups document
		if groups, err = fetch(ctx, config, client, "apis", offered.groups); err == nil {
			return p.resolve(ctx, config, client, known, core, groups)
		}
	}
	if errors.Is(err, errNotAggregated) {
		return p.discoverUnaggregated(ctx, config, client)
	}
	return nil, err
}

// resolve turns the two documents into an entry. If only one of them is new, the other is fetched again in full, for an
// entry keeps no documents.
func (p *Pool) resolve(ctx context.Context, config *rest.Config, client *http.Client, known *entry, core, groups document) (*entry, error) {
	if core.content == nil && groups.content == nil {
		return p.get(tags{core.tag, groups.tag}, func() *entry { return known }), nil
	}
	if found, ok := p.entries.Get(tags{core.tag, groups.tag}); ok {
		return found, nil
	}
	var err error
	if core.content == nil {
		if core, err = fetch(ctx, config, client, "api", ""); err != nil {
			return nil, err
		}
	}
	if groups.content == nil {
		if groups, err = fetch(ctx, config, client, "apis", ""); err != nil {
			return nil, err
		}
	}
	return p.get(tags{core.tag, groups.tag}, func() *entry { return build(core.content, groups.content) }), nil
}

// fetch reads one part of aggregated discovery, unless its tag is the one given.
func fetch(ctx context.Context, config *rest.Config, client *http.Client, path, tag string) (document, error) {
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
		return document{tag: tag}, nil
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
	if tag = response.Header.Get("ETag"); tag == "" {
		tag = hash(raw)
	}
	return document{tag: tag, content: content}, nil
}

// discoverUnaggregated asks a server without aggregated discovery, in one call for each group version.
func (p *Pool) discoverUnaggregated(ctx context.Context, config *rest.Config, client *http.Client) (*entry, error) {
	legacy, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	groups, resources, err := legacy.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	failed := map[schema.GroupVersion]error{}
	if partial != nil {
		failed = partial.Groups
	}
	broken := slices.SortedFunc(maps.Keys(failed), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	raw, err := json.Marshal([]any{groups, resources, broken})
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	byVersion := map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, list := range resources {
		if version, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			byVersion[version] = list
		}
	}
	return p.get(tags{groups: hash(raw)}, func() *entry { return assemble(groups, byVersion, failed) }), nil
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

func hash(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}
