package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// group is what the resource is stored under, whichever version of it was asked for.
func (c *call) group() schema.GroupResource { return c.resource.GVR.GroupResource() }

func (c *call) key() string { return storage.Key(c.namespace, c.name) }

func (c *call) notFound() error { return apierrors.NewNotFound(c.group(), c.name) }

// decode returns an object in the version that the registry computes with.
func (c *call) decode(o *storage.Object) *unstructured.Unstructured {
	return o.Unstructured(c.resource.Storage.GroupVersion().WithKind(c.resource.Kind))
}

// get answers with an object.
func (c *call) get() error {
	if err := c.negotiate(); err != nil {
		return err
	}
	if version := c.r.URL.Query().Get("resourceVersion"); version != "" {
		wanted, err := parseVersion(version)
		if err != nil {
			return err
		}
		if err := c.notInFuture(wanted); err != nil {
			return err
		}
	}
	o := c.store.Get(c.group(), c.key())
	if o == nil {
		return c.notFound()
	}
	c.sendObject(http.StatusOK, o)
	return nil
}

// parseVersion reads a resourceVersion. The error has no reason, and becomes a 500 unless the caller gives it one.
func parseVersion(s string) (uint64, error) {
	version, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: fmt.Sprintf("resourceVersion: Invalid value: %q: strconv.ParseUint: parsing %q: invalid syntax", s, s),
		}}
	}
	return version, nil
}

// notInFuture refuses versions that do not exist yet, as a server does that has waited for them in vain.
func (c *call) notInFuture(version uint64) *apierrors.StatusError {
	current := c.store.Version()
	if version <= current {
		return nil
	}
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", version, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// listOptions reads and checks the options of a list or watch.
func (c *call) listOptions() (*internalversion.ListOptions, error) {
	o := &internalversion.ListOptions{}
	if err := scheme.ParameterCodec.DecodeParameters(c.r.URL.Query(), metav1.SchemeGroupVersion, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	internalversion.SetListOptionsDefaults(o, true)
	if errs := validation.ValidateListOptions(o, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return o, nil
}

// selection is what a list, a watch or a deletion of many is about.
type selection struct {
	resource *kinds.Resource
	labels   labels.Selector // nil: all
	fields   fields.Selector // nil: all
}

func (c *call) selection(o *internalversion.ListOptions) (selection, error) {
	s := selection{resource: c.resource}
	if o.LabelSelector != nil && !o.LabelSelector.Empty() {
		s.labels = o.LabelSelector
	}
	if o.FieldSelector != nil && !o.FieldSelector.Empty() {
		s.fields = o.FieldSelector
		known := c.resource.Fields(&unstructured.Unstructured{Object: map[string]any{}})
		for _, r := range s.fields.Requirements() {
			if r.Field != "metadata.name" && (r.Field != "metadata.namespace" || !c.resource.Namespaced) && !known.Has(r.Field) {
				return s, apierrors.NewBadRequest(c.unknownField(r.Field))
			}
		}
	}
	if c.name != "" { // a watch of one object by its path
		if s.fields != nil {
			if name, ok := s.fields.RequiresExactMatch("metadata.name"); !ok || name != c.name {
				return s, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
			}
		}
		s.fields = fields.OneTermEqualSelector("metadata.name", c.name)
	}
	return s, nil
}

func (c *call) unknownField(name string) string {
	if !c.builtIn() {
		return "field label not supported: " + name
	}
	if len(c.resource.Fields(&unstructured.Unstructured{Object: map[string]any{}})) > 2 {
		return "field label not supported: " + name
	}
	return fmt.Sprintf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", name)
}

func (s *selection) all() bool { return s.labels == nil && s.fields == nil }

func (s *selection) matches(o *storage.Object) bool {
	if s.labels != nil && !s.labels.Matches(o.Labels()) {
		return false
	}
	if s.fields == nil {
		return true
	}
	set := fields.Set{}
	for _, r := range s.fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			set = s.resource.Fields(o.Unstructured(s.resource.GVK()))
			break
		}
	}
	set["metadata.name"], set["metadata.namespace"] = o.Name(), o.Namespace()
	return s.fields.Matches(set)
}

// list answers with a list.
func (c *call) list() error {
	if err := c.negotiate(); err != nil {
		return err
	}
	o, err := c.listOptions()
	if err != nil {
		return err
	}
	selected, err := c.selection(o)
	if err != nil {
		return err
	}
	page, err := c.page(o)
	if err != nil {
		return err
	}
	if !selected.all() {
		page.objects = slices.DeleteFunc(page.objects, func(o *storage.Object) bool { return !selected.matches(o) })
	}
	remaining := int64(0)
	if limit := int(o.Limit); limit > 0 && (o.ResourceVersion != "0" || o.Continue != "") && len(page.objects) > limit {
		remaining = int64(len(page.objects) - limit)
		page.objects = page.objects[:limit]
	}
	c.sendList(page, remaining, selected.all())
	return nil
}

// page is a list, or what is left of one.
type page struct {
	objects []*storage.Object
	version uint64
}

func (c *call) page(o *internalversion.ListOptions) (page, error) {
	var at uint64
	var start string
	if o.Continue != "" {
		if o.ResourceVersion != "" && o.ResourceVersion != "0" {
			return page{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		token, err := decodeContinue(o.Continue)
		if err != nil {
			return page{}, err
		}
		start = token.Start
		if c.namespace != "" {
			start = c.namespace + "/" + start
		}
		if token.Version > 0 {
			at = uint64(token.Version)
		}
	} else if o.ResourceVersion != "" {
		version, err := parseVersion(o.ResourceVersion)
		if err != nil {
			return page{}, apierrors.NewBadRequest("invalid resource version: " + err.Error())
		}
		exact := o.ResourceVersionMatch == metav1.ResourceVersionMatchExact || o.ResourceVersionMatch == "" && o.Limit > 0
		if err := c.notInFuture(version); err != nil {
			if exact {
				err.ErrStatus.Details.RetryAfterSeconds = 0
			}
			return page{}, err
		}
		if exact {
			at = version
		}
	}
	objects, version, err := c.store.List(c.group(), c.namespace, at)
	if errors.Is(err, storage.ErrExpired) {
		if start == "" {
			return page{}, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
		}
		expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
			"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the " +
			"remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were " +
			"created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
		expired.ErrStatus.Continue = encodeContinue(continueToken{Version: -1, Start: c.withoutNamespace(start)})
		return page{}, expired
	}
	if err != nil {
		return page{}, err
	}
	if start != "" {
		i, _ := slices.BinarySearchFunc(objects, start, func(o *storage.Object, key string) int { return strings.Compare(o.Key(), key) })
		objects = objects[i:]
	}
	return page{objects, version}, nil
}

// continueToken is the position in a list, in the form that kube-apiserver has it.
type continueToken struct {
	API     string `json:"v"`
	Version int64  `json:"rv"` // -1: the newest
	Start   string `json:"start"`
}

func encodeContinue(t continueToken) string {
	t.API = "meta.k8s.io/v1"
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // three simple fields
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeContinue(s string) (continueToken, error) {
	var t continueToken
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	switch {
	case err != nil:
		return t, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: %v", err))
	case t.API != "meta.k8s.io/v1":
		return t, apierrors.NewBadRequest("invalid continue token: continue key is not valid: server does not recognize this encoded version " + t.API)
	case t.Version == 0:
		return t, apierrors.NewBadRequest("invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case t.Start == "":
		return t, apierrors.NewBadRequest("invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	return t, nil
}

// withoutNamespace returns a key as tokens have it.
func (c *call) withoutNamespace(key string) string {
	if c.namespace == "" {
		return key
	}
	return strings.TrimPrefix(key, c.namespace+"/")
}

// sendList answers with a list; remaining is how many objects are left for the next page.
func (c *call) sendList(p page, remaining int64, countRemaining bool) {
	kind, version := c.resource.ListKind, c.resource.GVR.GroupVersion().String()
	as := c.item()
	if c.as.metadataOnly {
		kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
	} else if c.builtIn() {
		as.Kind = "" // for lists of these are made of Go types without it
	}
	withBuffer(func(b []byte) []byte {
		b = fmt.Appendf(b, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"`, kind, version, p.version)
		if remaining > 0 {
			next := encodeContinue(continueToken{Version: int64(p.version), Start: c.withoutNamespace(p.objects[len(p.objects)-1].Key()) + "\x00"})
			b = fmt.Appendf(b, `,"continue":%q`, next)
			if countRemaining {
				b = fmt.Appendf(b, `,"remainingItemCount":%d`, remaining)
			}
		}
		if remaining == 0 && !c.builtIn() && !c.as.metadataOnly {
			b = append(b, `,"continue":""`...)
		}
		if len(p.objects) == 0 && c.as.metadataOnly {
			b = append(b, `},"items":null}`...)
			c.send(http.StatusOK, b)
			return b
		}
		b = append(b, `},"items":[`...)
		for i, o := range p.objects {
			if i > 0 {
				b = append(b, ',')
			}
			b = o.AppendJSON(b, as)
		}
		b = append(b, "]}"...)
		c.send(http.StatusOK, b)
		return b
	})
}
