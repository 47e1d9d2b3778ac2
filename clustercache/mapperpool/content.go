package mapperpool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/untrusted"
)

// content is what discovery says, as far as mappers are made of it. What else a server writes is skipped while it is
// read: the types of Kubernetes have up to 300 bytes for each "{}".
type content struct {
	groups    []*metav1.APIGroup
	resources map[schema.GroupVersion]*metav1.APIResourceList
	failed    map[schema.GroupVersion]error // versions that the server failed to describe
}

func newContent() *content {
	return &content{
		resources: map[schema.GroupVersion]*metav1.APIResourceList{}, failed: map[schema.GroupVersion]error{},
	}
}

// budget is what is accepted of one document, or of all answers of discovery that is not aggregated, which are read at
// the same time. Each byte and each thing is taken from it before it is kept.
type budget struct{ bytes, elements, groups, versions, kinds, resources bound }

func newBudget() *budget {
	return &budget{
		bytes:     bound{what: "bytes", most: maxBytes},
		elements:  bound{what: "elements", most: maxElements},
		groups:    bound{what: "groups", most: maxVersions},
		versions:  bound{what: "versions of groups", most: maxVersions},
		kinds:     bound{what: "resources", most: maxKinds},
		resources: bound{what: "resources and subresources", most: maxResources},
	}
}

// bound counts something that is bounded.
type bound struct {
	what  string
	most  int64
	taken atomic.Int64
}

// take takes n more. What was too much is not given back, so every later call fails too.
func (b *bound) take(n int64) error {
	if b.taken.Add(n) > b.most {
		return &untrusted.ExceededError{What: b.what, Most: b.most}
	}
	return nil
}

// takeResource takes the budget of a resource or a subresource.
func (r *budget) takeResource(name string) error {
	if !isSubresource(name) {
		if err := r.kinds.take(1); err != nil {
			return err
		}
	}
	return r.resources.take(1)
}

func isSubresource(name string) bool { return strings.Contains(name, "/") }

// counted takes what is read from a budget, before it is kept.
type counted struct {
	*untrusted.Reader
	budget   *budget
	bytes    int64 // taken so far
	elements int
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	bytes, elements := c.Counted()
	exceeded := cmp.Or(c.budget.elements.take(int64(elements-c.elements)), c.budget.bytes.take(bytes-c.bytes))
	c.bytes, c.elements = bytes, elements
	if exceeded != nil {
		return 0, exceeded
	}
	return n, err
}

// decode reads one JSON document within what is left of a budget, and returns its text. That is read before it is
// decoded: a json.Decoder goes through spaces again whenever it gets some more.
func decode(from io.Reader, left *budget, read func(walker) error) ([]byte, error) {
	bounds := untrusted.Bounds{Depth: maxDepth} // the budget has the others
	raw, err := io.ReadAll(&counted{Reader: untrusted.NewReader(from, bounds), budget: left})
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	w := walker{json.NewDecoder(bytes.NewReader(raw))}
	if err = read(w); err == nil {
		if _, err = w.Token(); errors.Is(err, io.EOF) {
			return raw, nil
		}
		if err == nil {
			err = errors.New("no end after its JSON")
		}
	}
	var typed *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case errors.As(err, &typed):
		typed.Value = untrusted.Token(typed.Value) // it may quote a number of any length
	}
	return nil, fmt.Errorf("discovery: %w", err)
}

// walker goes through a JSON document and decodes one small value at a time, so that no list is in memory before its
// items are counted.
type walker struct{ *json.Decoder }

// object calls member with the name of each member of an object, to read its value. null is an object without any.
func (w walker) object(member func(name string) error) error {
	return w.within('{', func() error {
		token, err := w.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		return member(name)
	})
}

// list calls item for each item of a list, to read it. null is a list without any.
func (w walker) list(item func() error) error { return w.within('[', item) }

// listIn calls item for each item of the list that the object has under a name, and skips all else.
func (w walker) listIn(list string, item func() error) error {
	return w.object(func(name string) error {
		if name != list {
			return w.skip()
		}
		return w.list(item)
	})
}

func (w walker) within(begin json.Delim, next func() error) error {
	switch token, err := w.Token(); {
	case err != nil:
		return err
	case token == nil:
		return nil
	case token != begin:
		return fmt.Errorf("another value where a %q must be", rune(begin))
	}
	for w.More() {
		if err := next(); err != nil {
			return err
		}
	}
	_, err := w.Token() // the end, or why there is none
	return err
}

// skip reads a value that is not needed.
func (w walker) skip() error { return w.Decode(&skipped{}) }

// skipped is a value that is not decoded.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// readDocument adds a document of aggregated discovery.
func (c *content) readDocument(w walker, left *budget) error {
	return w.listIn("items", func() error { return c.readGroup(w, left) })
}

func (c *content) readGroup(w walker, left *budget) error {
	if err := left.groups.take(1); err != nil {
		return err
	}
	group := &metav1.APIGroup{}
	var versions []version
	if err := w.object(func(name string) error {
		switch name {
		case "metadata":
			var metadata struct {
				Name string `json:"name"`
			}
			err := w.Decode(&metadata)
			group.Name = metadata.Name
			return err
		case "versions":
			return w.list(func() error {
				read, err := readVersion(w, left)
				versions = append(versions, read)
				return err
			})
		}
		return w.skip()
	}); err != nil {
		return err
	}
	if err := checkNames(untrusted.MaxName, group.Name); err != nil { // before it is copied for each version
		return err
	}
	for _, v := range versions {
		gv := schema.GroupVersion{Group: group.Name, Version: v.name}
		if v.freshness == apidiscovery.DiscoveryFreshnessStale {
			c.failed[gv] = fmt.Errorf("stale GroupVersion discovery: %v", gv)
			continue
		}
		group.Versions = append(group.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v.name})
		c.resources[gv] = &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: v.resources}
	}
	if len(group.Versions) > 0 { // the first that is not stale
		group.PreferredVersion = group.Versions[0]
	}
	c.groups = append(c.groups, group)
	return nil
}

// version is a version of a group.
type version struct {
	name      string
	freshness apidiscovery.DiscoveryFreshness
	resources []metav1.APIResource
}

func readVersion(w walker, left *budget) (v version, err error) {
	if err := left.versions.take(1); err != nil {
		return v, err
	}
	err = w.object(func(name string) error {
		switch name {
		case "version":
			return w.Decode(&v.name)
		case "freshness":
			return w.Decode(&v.freshness)
		case "resources":
			return w.list(func() error { return v.readResource(w, left) })
		}
		return w.skip()
	})
	return v, err
}

type subresource struct {
	Subresource  string                  `json:"subresource"`
	ResponseKind metav1.GroupVersionKind `json:"responseKind"`
}

// readResource adds a resource and its subresources. One without a kind exists only for the sake of its subresources.
func (v *version) readResource(w walker, left *budget) error {
	var r struct {
		Resource         string                     `json:"resource"`
		ResponseKind     metav1.GroupVersionKind    `json:"responseKind"`
		Scope            apidiscovery.ResourceScope `json:"scope"`
		SingularResource string                     `json:"singularResource"`
		Subresources     []*subresource             `json:"subresources"` // pointers: a list is copied as it grows
	}
	if err := w.Decode(&r); err != nil {
		return err
	}
	add := func(name string, kind metav1.GroupVersionKind) error {
		if kind == (metav1.GroupVersionKind{}) {
			return nil
		}
		v.resources = append(v.resources, metav1.APIResource{
			Name: name, SingularName: r.SingularResource, Namespaced: r.Scope == apidiscovery.ScopeNamespace,
			Group: kind.Group, Version: kind.Version, Kind: kind.Kind,
		})
		return left.takeResource(name)
	}
	if err := add(r.Resource, r.ResponseKind); err != nil {
		return err
	}
	if err := checkNames(untrusted.MaxName, r.Resource); err != nil { // before it is copied for each subresource
		return err
	}
	for _, sub := range r.Subresources {
		if sub == nil { // null
			continue
		}
		if err := add(r.Resource+"/"+sub.Subresource, sub.ResponseKind); err != nil {
			return err
		}
	}
	return nil
}
