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

// desk is what a bundle is decompressed with: window, tables and text take a few times as much as a bundle of ordinary
// size, so they are kept for others.
type desk struct {
	value  bytes.Reader
	brotli *brotli.Reader
	text   bytes.Buffer
	spoilt bool // a stream was not read to its end
	wide   bool // a stream had a window that is not worth keeping
}

var desks = sync.Pool{New: func() any { return &desk{brotli: brotli.NewReader(nil)} }}

// keptText is the longest text whose memory is kept for others.
const keptText = 1 << 20

// clear gives a desk back.
func (d *desk) clear() {
	d.value.Reset(nil)
	if !d.spoilt && !d.wide && d.text.Cap() <= keptText {
		desks.Put(d)
	}
}

// isWide tells whether a Brotli stream announces a window of more than 4 MiB, which encoders use only if they are asked
// to. The first byte says so (RFC 7932, section 9.1).
func isWide(value []byte) bool { return len(value) > 0 && value[0]&1 == 1 && value[0]>>1&7 > 5 }

// isCompressed tells whether the value of a key is a Brotli stream.
func isCompressed(key string) bool { return strings.HasSuffix(key, resourcesv1alpha1.BrotliSuffix) }

// read returns the text of one data value: the value itself, or what it decompresses to, up to an error, which is valid
// until the next one is read. It stops with ErrTooManyBytes as soon as the text is longer than the limit. length is how
// long the text is if that is known, so that its memory is not allocated twice, or not at all for one that is too long.
//
// Brotli streams carry no checksum. A damaged one may decompress into a different text without any error.
func (d *desk) read(key string, value []byte, limit, length int64) (text []byte, err error) {
	if !isCompressed(key) {
		if int64(len(value)) > limit {
			return nil, ErrTooManyBytes
		}
		return value, nil
	}
	if length > limit {
		return nil, ErrTooManyBytes
	}
	d.text.Reset()
	if length > 0 {
		d.text.Grow(int(length) + bytes.MinRead) // the free space that ReadFrom needs at the end
	}
	err = d.decompress(value, limit, d.text.ReadFrom)
	return d.text.Bytes(), err
}

// decompress passes the content of a Brotli stream to a function: at most one byte more than the limit.
func (d *desk) decompress(value []byte, limit int64, take func(io.Reader) (int64, error)) error {
	d.value.Reset(value)
	d.wide = d.wide || isWide(value)
	if d.spoilt {
		d.brotli = brotli.NewReader(&d.value)
	} else if err := d.brotli.Reset(&d.value); err != nil {
		return ErrStreamDamaged
	}
	d.spoilt = true
	n, err := take(io.LimitReader(d.brotli, limit+1))
	switch {
	case n > limit:
		return ErrTooManyBytes
	case err == nil:
		d.spoilt = false
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrStreamEndsEarly
	case strings.Contains(err.Error(), "excessive input"):
		return ErrStreamFollowed
	default:
		return ErrStreamDamaged
	}
}
