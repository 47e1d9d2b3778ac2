package mapperpool

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"maps"
	"mime"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/untrusted"
)

// A cluster with 1,000 CRDs has about 2 MiB of discovery. A resource takes a few KiB in a mapper, and each target may
// have a mapper of its own.
const (
	// maxBytes, maxElements and maxDepth bound what is read of a document, or of all of discovery that is not
	// aggregated.
	maxBytes, maxElements, maxDepth = 4 << 20, 128 << 10, 32
	// maxVersions bounds the groups and their versions, maxKinds the resources, maxResources them and their
	// subresources.
	maxVersions, maxKinds, maxResources = 1500, 3000, 12_000
)

// errNotAggregated means that the server only knows discovery one group version at a time (before Kubernetes 1.27).
var errNotAggregated = errors.New("server has no aggregated discovery")

// document is one of the two parts of aggregated discovery.
type document struct {
	digest  string   // of the content
	tag     string   // the ETag that the target gave to it, if any
	content *content // nil if it is the one known already
}

// discovered is an entry, and the ETags by which a target knows its documents.
type discovered struct {
	*entry
	tags documents
}

// discover returns what the target serves now. known is what it served last, or what others serve; its tags are
// offered.
func (p *Pool) discover(ctx context.Context, config *rest.Config, client *http.Client, known discovered) (
	discovered, error) {
	ctx, done := answers.Scope(ctx) // until the mapper is built
	defer done()
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
func (p *Pool) resolve(ctx context.Context, config *rest.Config, client *http.Client, known discovered, core,
	groups document) (discovered, error) {
	given := documents{core.tag, groups.tag}
	if core.content == nil && groups.content == nil {
		found, err := p.get(documents{core.digest, groups.digest}, func() (*entry, error) { return known.entry, nil })
		return discovered{found, known.tags}, err
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
	found, err := p.get(documents{core.digest, groups.digest}, func() (*entry, error) {
		return build(core.content, groups.content)
	})
	if err != nil {
		return discovered{}, err
	}
	return discovered{found, given.sharing(found)}, nil
}

// fetch reads one part of aggregated discovery, unless its tag is the one given, which stands for content of the
// digest.
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
	content, left := newContent(), newBudget()
	raw, err := decode(response.Body, left, func(w walker) error { return content.readDocument(w, left) })
	if err != nil {
		return document{}, err
	}
	return document{tag: tagOf(response), digest: digestOf(raw), content: content}, nil
}

// tagOf returns the ETag of an answer, unless it is longer than legitimate ones.
func tagOf(response *http.Response) string {
	if tag := response.Header.Get("ETag"); len(tag) <= maxTag {
		return tag
	}
	return ""
}

// maxTag is the length of the longest ETag that is kept. Those of a kube-apiserver have 130 bytes.
const maxTag = 256

// build makes an entry of the two parts of discovery.
func build(core, groups *content) (*entry, error) {
	all := newContent()
	for _, part := range []*content{core, groups} {
		all.groups = append(all.groups, part.groups...)
		maps.Copy(all.resources, part.resources)
		maps.Copy(all.failed, part.failed)
	}
	if err := all.check(); err != nil {
		return nil, err
	}
	all.dropRepeated()
	return all.assemble(), nil
}

// check reports whether the content may be kept.
func (c *content) check() error {
	if err := c.exceeded(); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	return nil
}

func (c *content) exceeded() error {
	all := newBudget() // the two parts of discovery were read with one for each
	for _, group := range c.groups {
		if err := checkNames(untrusted.MaxName, group.Name); err != nil {
			return err
		}
		for _, version := range group.Versions {
			if err := checkNames(untrusted.MaxToken, version.Version); err != nil {
				return err
			}
		}
		if err := cmp.Or(all.versions.take(int64(len(group.Versions))), all.groups.take(1)); err != nil {
			return err
		}
	}
	for _, list := range c.resources {
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if err := cmp.Or(
				all.takeResource(r.Name),
				checkNames(2*untrusted.MaxName, r.Name), // it may be that of a subresource
				checkNames(untrusted.MaxName, r.SingularName, r.Kind, r.Group),
				checkNames(untrusted.MaxToken, r.Version),
			); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNames(most int, names ...string) error {
	for _, name := range names {
		if len(name) > most {
			return fmt.Errorf("the name %q: %w", name[:20],
				&untrusted.ExceededError{What: "bytes in a name", Most: int64(most)})
		}
	}
	return nil
}

// dropRepeated drops versions that were named before: the mapper would have their resources as often as they are named.
func (c *content) dropRepeated() {
	named := map[schema.GroupVersion]bool{}
	for _, group := range c.groups {
		group.Versions = slices.DeleteFunc(group.Versions, func(version metav1.GroupVersionForDiscovery) bool {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			before := named[gv]
			named[gv] = true
			return before
		})
	}
}

// assemble makes an entry.
func (c *content) assemble() *entry {
	all := make([]*restmapper.APIGroupResources, 0, len(c.groups))
	for _, group := range c.groups {
		versioned := map[string][]metav1.APIResource{}
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			if list := c.resources[gv]; list != nil {
				versioned[version.Version] = list.APIResources
			}
		}
		all = append(all, &restmapper.APIGroupResources{Group: *group, VersionedResources: versioned})
	}
	return &entry{mapper: &remembering{RESTMapper: restmapper.NewDiscoveryRESTMapper(all)}, failed: c.failed}
}

// digestOf is the ETag that a kube-apiserver gives to a document: a hash of all but what kind of document it is. So
// the digests of what one target sent can be offered to another, which then need not send it. Of a document that does
// not begin as those of a kube-apiserver do, all counts.
func digestOf(document []byte) string {
	document = bytes.TrimSpace(document)
	sum := sha512.New()
	for _, version := range []string{"v2", "v2beta1"} {
		if rest, ok := bytes.CutPrefix(document, []byte(
			`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/`+version+`",`)); ok {
			_, _ = sum.Write([]byte("{"))
			document = rest
			break
		}
	}
	_, _ = sum.Write(document)
	return digestOfSum(sum)
}

func digestOfSum(sum hash.Hash) string { return fmt.Sprintf("\"%X\"", sum.Sum(nil)) }
