package ownership

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of the managedFields of one object. Real API servers store far less: an object has at most 1.5 MiB, its depth
// is bounded by its schema, and at most ten managers that update it are recorded.
const (
	// MaxEntries is how many entries are read.
	MaxEntries = 1000
	// MaxBytes is how many bytes the fields of all entries take together.
	MaxBytes = 1 << 20
	// MaxDepth is how deep fields are nested. Processing a field takes time in proportion to its depth.
	MaxDepth = 100
)

// ErrTooLarge is wrapped by the error for managedFields that exceed a bound. They are not read.
var ErrTooLarge = errors.New("more than the limit for the managedFields of an object")

// checkSize returns an error if entries are too many or too large.
func checkSize(entries []metav1.ManagedFieldsEntry) error {
	if len(entries) > MaxEntries {
		return fmt.Errorf("%d entries are %w: %d", len(entries), ErrTooLarge, MaxEntries)
	}
	size := 0
	for i := range entries {
		if entries[i].FieldsV1 != nil {
			size += len(entries[i].FieldsV1.GetRawBytes())
		}
	}
	if size > MaxBytes {
		return fmt.Errorf("%d bytes are %w: %d", size, ErrTooLarge, MaxBytes)
	}
	return nil
}

// checkDepth returns an error if fields are nested too deep, without parsing them.
func checkDepth(text []byte) error {
	if err := untrusted.Check(text, untrusted.Bounds{Depth: MaxDepth}); err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return nil
}
