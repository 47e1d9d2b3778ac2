package envelope

import (
	"bytes"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
)

// prefix begins whatever an API server encodes as Protocol Buffers, but for the events of a watch.
var prefix = []byte("k8s\x00")

// Is tells whether a text is such a message.
func Is(text []byte) bool { return bytes.HasPrefix(text, prefix) }

// Open decodes what is in a message. It has to be of a kind; empty: of any. An error says that it is not, or is broken.
func Open(text []byte, kind string, into interface{ Unmarshal([]byte) error }) error {
	message, ok := bytes.CutPrefix(text, prefix)
	if !ok {
		return errors.New("it is not what API servers send")
	}
	var wrapped runtime.Unknown
	if err := wrapped.Unmarshal(message); err != nil {
		return fmt.Errorf("its envelope: %w", err)
	}
	if kind != "" && wrapped.Kind != kind {
		return fmt.Errorf("it is of kind %.40q", wrapped.Kind)
	}
	return into.Unmarshal(wrapped.Raw)
}
