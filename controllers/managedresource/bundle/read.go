package bundle

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/andybalholm/brotli"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// read returns the text of one data value: the value itself, or what it decompresses to. It stops with ErrTooManyBytes as
// soon as the text is longer than the limit.
//
// Brotli streams carry no checksum. A damaged one may decompress into a different text without any error.
func read(key string, value []byte, limit int64) ([]byte, error) {
	if !strings.HasSuffix(key, resourcesv1alpha1.BrotliSuffix) {
		if int64(len(value)) > limit {
			return nil, ErrTooManyBytes
		}
		return value, nil
	}

	text, err := io.ReadAll(io.LimitReader(brotli.NewReader(bytes.NewReader(value)), limit+1))
	switch {
	case int64(len(text)) > limit:
		return nil, ErrTooManyBytes
	case err == nil:
		return text, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, ErrStreamEndsEarly
	case strings.Contains(err.Error(), "excessive input"):
		return nil, ErrStreamFollowed
	default:
		return nil, ErrStreamDamaged
	}
}
