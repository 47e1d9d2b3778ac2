package follow

import (
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/untrusted"
)

// page reads a page of a list item by item, so that no more than one of them is in memory, however many there are.
type page struct {
	*frames
	collection *Collection
	sink       Sink

	meta             metav1.ListMeta
	apiVersion, kind string
	items            int
	listed           bool // the items came
}

// errNoList says that an answer is no list.
var errNoList = errors.New("the answer is no list")

// read reads a page, whose fields come in any order.
func (p *page) read() error {
	err := p.fields()
	var ended *endedError
	switch {
	case errors.Is(err, untrusted.ErrExceeded) && !errors.Is(err, errUnreadable):
		return fmt.Errorf("%w: it has more than %d bytes", errPageTooLarge, p.collection.MaxPage)
	case errors.As(err, &ended) && errors.Is(ended.err, io.EOF):
		return fmt.Errorf("%w: it ends too early", errNoList)
	case errors.As(err, &ended):
		return fmt.Errorf("reading the answer: %w", ended.err)
	}
	return err
}

func (p *page) fields() error {
	if err := p.expect('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := p.peek()
		switch {
		case err != nil:
			return err
		case c == '}':
			p.start++
			return nil
		case !first:
			if err := p.expect(','); err != nil {
				return err
			}
		}
		var name string
		if err := p.decode(&name); err != nil {
			return err
		}
		if err := p.expect(':'); err != nil {
			return err
		}
		if err := p.field(name); err != nil {
			return err
		}
	}
}

func (p *page) field(name string) error {
	switch name {
	case "apiVersion":
		return p.decode(&p.apiVersion)
	case "kind":
		return p.decode(&p.kind)
	case "metadata":
		return p.decode(&p.meta)
	case "items":
		return p.list()
	}
	_, err := p.value()
	return err
}

// list reads the items and hands each of them on.
func (p *page) list() error {
	if p.listed {
		return fmt.Errorf("%w: it has items twice", errNoList)
	}
	p.listed = true
	c, err := p.peek()
	if err != nil {
		return err
	}
	if c != '[' {
		return p.decode(new([]struct{})) // it may be null
	}
	for p.start++; ; {
		switch c, err = p.peek(); {
		case err != nil:
			return err
		case c == ']':
			p.start++
			return nil
		case p.items > 0:
			if err := p.expect(','); err != nil {
				return err
			}
		}
		if err := p.item(); err != nil {
			return err
		}
		p.items++
	}
}

// item hands on an item.
func (p *page) item() error {
	raw, err := p.value()
	if err != nil {
		return err
	}
	d := decoding{ctx: p.ctx, call: p.call, share: p.share}
	object, err := d.item(raw, p.collection.MetadataOnly, p.collection.item)
	p.free()
	if d.release != nil {
		defer d.release()
	}
	if err == nil {
		p.typed(object)
		err = check(added, object)
	}
	if err != nil {
		return fmt.Errorf("%w: an item of the list: %w", errUnreadable, err)
	}
	p.sink.Set(object)
	return nil
}

// typed gives an object its kind: API servers leave it out of the items of lists.
func (p *page) typed(o client.Object) {
	if p.collection.MetadataOnly || o == nil || o.GetObjectKind().GroupVersionKind().Kind != "" {
		return
	}
	kind := p.collection.Kind
	if p.kind != "" {
		kind = schema.FromAPIVersionAndKind(p.apiVersion, strings.TrimSuffix(p.kind, "List"))
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
}

// check reports whether what was read is a page of a list. A proxy may answer with another document, which would
// look like an empty list.
func (p *page) check(limit int) error {
	more := p.meta.Continue != ""
	switch {
	case !strings.HasSuffix(p.kind, "List"):
		return fmt.Errorf("%w: it is of kind %.40q", errNoList, p.kind)
	case p.meta.ResourceVersion == "":
		return fmt.Errorf("%w: it has no version", errNoList)
	case checkVersion(p.meta.ResourceVersion) != nil:
		return fmt.Errorf("%w: %w", errNoList, checkVersion(p.meta.ResourceVersion))
	case len(p.meta.Continue) > maxToken:
		return fmt.Errorf("%w: the token of the next page has more than %d bytes", errNoList, maxToken)
	case more && p.items == 0:
		return fmt.Errorf("%w: a page is empty, and another one is to follow", errEndless)
	case more && p.items > limit: // a server that does not support pages sends all items
		return fmt.Errorf("%w: a page has %d items instead of %d, and more follow", errNoList, p.items, limit)
	}
	return nil
}

// decode reads a value that is small.
func (p *page) decode(into any) error {
	raw, err := p.value()
	switch {
	case err != nil:
		return err
	case len(raw) > maxMeta:
		return fmt.Errorf("%w: a field has more than %d bytes", errNoList, maxMeta)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, into); err != nil {
		return fmt.Errorf("%w: %w", errNoList, err)
	}
	return nil
}

// item decodes the parts of an item that matter.
func (d *decoding) item(raw []byte, metadataOnly bool, which *fields) (o client.Object, err error) {
	decode := func(text, managed []byte, apart bool) {
		if err = d.admit(text, managed); err != nil {
			return
		}
		if metadataOnly {
			partial := &metav1.PartialObjectMetadata{}
			if err = kjson.UnmarshalCaseSensitivePreserveInts(text, partial); err == nil && len(managed) > 0 {
				err = kjson.UnmarshalCaseSensitivePreserveInts(managed, &partial.ManagedFields)
			}
			o = partial
			return
		}
		var content map[string]any
		if err = kjson.UnmarshalCaseSensitivePreserveInts(text, &content); err == nil && content == nil {
			err = errNoObject
		}
		if err == nil {
			o, err = objectOf(content, managed, apart)
		}
	}
	if which != nil && cut(raw, which, func(text, managed []byte) { decode(text, managed, true) }) {
		return o, err
	}
	decode(raw, nil, false)
	return o, err
}
