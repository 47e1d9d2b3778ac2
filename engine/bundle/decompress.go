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

// decompressor decompresses the keys of a bundle. Its window, tables and buffer take a few times as much memory as an
// ordinary bundle, so it is pooled.
type decompressor struct {
	value       bytes.Reader
	brotli      *brotli.Reader
	text        bytes.Buffer
	unfinished  bool // a stream was not read to its end
	largeWindow bool // a stream had a window that is too large for the pool
}

var decompressors = sync.Pool{New: func() any { return &decompressor{brotli: brotli.NewReader(nil)} }}

// maxPooledText is the capacity of the largest buffer that is pooled.
const maxPooledText = 1 << 20

// release puts the decompressor into the pool, unless it is not worth it.
func (d *decompressor) release() {
	d.value.Reset(nil)
	if !d.unfinished && !d.largeWindow && d.text.Cap() <= maxPooledText {
		decompressors.Put(d)
	}
}

// hasLargeWindow reports whether a Brotli stream announces a window of more than 4 MiB, which encoders use only on
// request. It is in the first byte (RFC 7932, section 9.1).
func hasLargeWindow(value []byte) bool { return len(value) > 0 && value[0]&1 == 1 && value[0]>>1&7 > 5 }

// isCompressed reports whether the value of a key is a Brotli stream.
func isCompressed(key string) bool { return strings.HasSuffix(key, resourcesv1alpha1.BrotliSuffix) }

// read returns the text of one data value: the value itself, or what it decompresses to, up to an error. The text is
// valid until the next call. It stops with ErrTooManyBytes as soon as the text is longer than the limit. length is the
// length of the text if that is known, so that its buffer is allocated once, or not at all for one that is too long.
//
// Brotli streams carry no checksum. A damaged one may decompress into a different text without any error.
func (d *decompressor) read(key string, value []byte, limit, length int64) (text []byte, err error) {
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
func (d *decompressor) decompress(value []byte, limit int64, take func(io.Reader) (int64, error)) error {
	d.value.Reset(value)
	d.largeWindow = d.largeWindow || hasLargeWindow(value)
	if d.unfinished {
		d.brotli = brotli.NewReader(&d.value)
	} else if err := d.brotli.Reset(&d.value); err != nil {
		return errStreamDamaged
	}
	d.unfinished = true
	n, err := take(io.LimitReader(d.brotli, limit+1))
	switch {
	case n > limit:
		return ErrTooManyBytes
	case err == nil:
		d.unfinished = false
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errStreamEndsEarly
	case strings.Contains(err.Error(), "excessive input"):
		return errStreamFollowed
	default:
		return errStreamDamaged
	}
}
