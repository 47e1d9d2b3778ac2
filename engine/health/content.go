package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// content is the content of an object, or a part of it.
type content map[string]any

// field returns the value at a path, or nil.
func (c content) field(path ...string) any {
	value, found, err := unstructured.NestedFieldNoCopy(c, path...)
	if !found || err != nil {
		return nil
	}
	return value
}

// number returns the number at a path, or the fallback if there is none.
func (c content) number(fallback int64, path ...string) int64 {
	switch value := c.field(path...).(type) {
	case int64:
		return value
	case float64: // Content that did not come through the Kubernetes decoders.
		return int64(value)
	default:
		return fallback
	}
}

// text returns the string at a path, or "".
func (c content) text(path ...string) string {
	text, _ := c.field(path...).(string)
	return text
}

// outdated returns a problem if the status is about an earlier generation of the spec.
func (c content) outdated() Problem {
	observed, generation := c.number(0, "status", "observedGeneration"), c.number(0, "metadata", "generation")
	if observed < generation {
		return waiting(fmt.Sprintf("generation %d has not been observed yet, only %d", generation, observed))
	}
	return Problem{}
}

// replicas returns how many replicas are wanted, and whether the spec sets them.
func (c content) replicas() (wanted int64, given bool) {
	return c.number(1, "spec", "replicas"), c.field("spec", "replicas") != nil
}
