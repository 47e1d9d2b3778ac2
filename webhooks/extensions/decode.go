package extensions

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/untrusted"
)

// Group and Version are those of all resources of this package.
const (
	Group   = "extensions.gardener.cloud"
	Version = "v1alpha1"
)

// GroupVersion is that of all resources of this package.
var GroupVersion = schema.GroupVersion{Group: Group, Version: Version}

// bounds are those of an object. etcd takes none of more than 1.5 MiB, and an OperatingSystemConfig, the largest of
// them, has some hundred files and units.
var bounds = untrusted.Bounds{Bytes: 3 << 20, Elements: 100_000, Depth: 100}

// ErrEmpty is returned by Decode for a document without content.
var ErrEmpty = errors.New("there is no object")

// Decode reads one object from JSON. Fields that into does not have are ignored. It is an error if the document is no
// JSON, has values of other types, or is larger than objects can be (untrusted.ErrExceeded).
func Decode(document []byte, into any) error {
	if len(document) == 0 {
		return ErrEmpty
	}
	if err := untrusted.Check(document, bounds); err != nil {
		return err
	}
	if err := json.Unmarshal(document, into); err != nil {
		return fmt.Errorf("decode %T: %w", into, err)
	}
	return nil
}
