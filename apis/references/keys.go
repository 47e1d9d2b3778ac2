package references

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	// Label marks ConfigMaps and Secrets that may be collected, with the value LabelValue.
	Label = resourcesv1alpha1.GarbageCollectableReferenceLabel
	// LabelValue is the value of Label. A collector ignores objects with any other one.
	LabelValue = "true"
	// AnnotationPrefix begins the keys of annotations that name what an object uses.
	AnnotationPrefix = resourcesv1alpha1.ReferencePrefix

	// KindConfigMap is the kind of ConfigMaps in keys of annotations.
	KindConfigMap = "configmap"
	// KindSecret is the kind of Secrets in keys of annotations.
	KindSecret = "secret"
)

const (
	delimiter  = "-"
	hashLength = 8
)

// AnnotationKey is the key of the annotation for a reference to an object. Its value is the name.
func AnnotationKey(kind, name string) string {
	digest := sha256.Sum256([]byte(name))
	return AnnotationPrefix + kind + delimiter + hex.EncodeToString(digest[:])[:hashLength]
}

// KindFromAnnotationKey returns the kind in the key of an annotation, such as KindConfigMap or KindSecret; empty if the
// key is not that of a reference. The hash in the key is not verified.
func KindFromAnnotationKey(key string) string {
	rest, is := strings.CutPrefix(key, AnnotationPrefix)
	if !is {
		return ""
	}
	kind, hash, found := strings.Cut(rest, delimiter)
	if !found || strings.Contains(hash, delimiter) {
		return ""
	}
	return kind
}
