package bundle

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// desk is what a bundle is decompressed with: window, tables and text take a few times as much as a bundle of ordinary size,
// so they are kept for others.
type desk struct {
	value  bytes.Reader
	brotli *brotli.Reader
	text   bytes.Buffer
	spoilt bool // a stream was not read to its end
}

var desks = sync.Pool{New: func() any { return &desk{brotli: brotli.NewReader(nil)} }}

// keptText is the longest text whose memory is kept for others.
const keptText = 1 << 20

// clear gives a desk back.
func (d *desk) clear() {
	d.value.Reset(nil)
	if !d.spoilt && d.text.Cap() <= keptText {
		desks.Put(d)
	}
}

// read returns the text of one data value: the value itself, or what it decompresses to, which is valid until the next one is
// read. It stops with ErrTooManyBytes as soon as the text is longer than the limit.
//
// Brotli streams carry no checksum. A damaged one may decompress into a different text without any error.
func (d *desk) read(key string, value []byte, limit int64) ([]byte, error) {
	if !strings.HasSuffix(key, resourcesv1alpha1.BrotliSuffix) {
		if int64(len(value)) > limit {
			return nil, ErrTooManyBytes
		}
		return value, nil
	}

	d.value.Reset(value)
	if d.spoilt {
		d.brotli = brotli.NewReader(&d.value)
	} else if err := d.brotli.Reset(&d.value); err != nil {
		return nil, ErrStreamDamaged
	}
	d.spoilt = true
	d.text.Reset()
	_, err := d.text.ReadFrom(io.LimitReader(d.brotli, limit+1))
	switch {
	case int64(d.text.Len()) > limit:
		return nil, ErrTooManyBytes
	case err == nil:
		d.spoilt = false
		return d.text.Bytes(), nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrStreamEndsEarly
	case strings.Contains(err.Error(), "excessive input"):
		return nil, ErrStreamFollowed
	default:
		return nil, ErrStreamDamaged
	}
}
