package mask

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// open are the fields of a Secret that may be shown. All others are masked, because "stringdata" may be a misspelt
// "stringData".
var open = []string{"apiVersion", "kind", "metadata", "type", "immutable"}

// openOfOthers are fields that Secrets do not have, so that they cannot be values of a Secret with a misspelt kind.
var openOfOthers = []string{"spec", "status"}

// Hidden reports whether the value at a path of an object, or below it, may be a value of a Secret. The last-applied
// annotation of kubectl contains the values of a Secret as well.
func Hidden(kind string, path ...string) bool {
	if kind != "Secret" || len(path) == 0 {
		return false
	}
	return !slices.Contains(open, path[0]) ||
		len(path) == 3 && slices.Equal(path, []string{"metadata", "annotations", corev1.LastAppliedConfigAnnotation})
}

// HiddenValue replaces a value that is not shown. It contains only the length. stored is true for base64-encoded
// values.
func HiddenValue(value any, stored bool) string {
	text, ok := value.(string)
	if !ok {
		return "(hidden)"
	}
	length := len(text)
	if raw, err := base64.StdEncoding.DecodeString(text); stored && err == nil {
		length = len(raw)
	}
	return fmt.Sprintf("(hidden, %d bytes)", length)
}

// known are the kinds that are not misspelt Secrets.
var known = cli.Scheme()

// maybeSecret reports whether an object is a Secret, or may be one with a misspelt kind.
func maybeSecret(obj map[string]any) bool {
	kind, _ := obj["kind"].(string)
	if strings.EqualFold(kind, "Secret") || hasField(obj, "stringData") {
		return true
	}
	apiVersion, _ := obj["apiVersion"].(string)
	gv, err := schema.ParseGroupVersion(cmp.Or(apiVersion, "v1"))
	switch {
	case err == nil && known.Recognizes(gv.WithKind(kind)):
		return false
	case err != nil || gv.Group == "":
		return true // only Kubernetes defines kinds in that group
	}
	return hasField(obj, "data")
}

// hasField reports whether an object has a field, however it writes it.
func hasField(obj map[string]any, name string) bool {
	for field := range obj {
		if strings.EqualFold(field, name) {
			return true
		}
	}
	return false
}

// Masked returns an object without the values of Secrets, and of objects that may be Secrets with a misspelt kind. All
// others, except lists of them, are returned unchanged.
func Masked(obj map[string]any) map[string]any {
	kind, _ := obj["kind"].(string)
	switch {
	case maybeSecret(obj):
		obj = runtime.DeepCopyJSON(obj)
		for field, content := range obj {
			if slices.Contains(open, field) || kind != "Secret" && slices.Contains(openOfOthers, field) ||
				content == nil {
				continue
			}
			values, isMap := content.(map[string]any)
			if !isMap {
				obj[field] = "(hidden)"
			}
			for key, value := range values {
				values[key] = HiddenValue(value, field == "data")
			}
		}
		annotations, _, _ := unstructured.NestedMap(obj, "metadata", "annotations")
		if applied, found := annotations[corev1.LastAppliedConfigAnnotation]; found {
			annotations[corev1.LastAppliedConfigAnnotation] = HiddenValue(applied, false)
			_ = unstructured.SetNestedMap(obj, annotations, "metadata", "annotations") // it was read from there
		}
	case strings.HasSuffix(kind, "List"):
		items, ok := obj["items"].([]any)
		if !ok {
			return obj
		}
		masked := make([]any, 0, len(items))
		for _, item := range items {
			if object, ok := item.(map[string]any); ok {
				item = Masked(inList(kind, object))
			}
			masked = append(masked, item)
		}
		list := make(map[string]any, len(obj))
		for field, value := range obj {
			list[field] = value
		}
		list["items"] = masked
		return list
	}
	return obj
}

// inList sets the kind of the items of a SecretList, which they may omit.
func inList(kind string, item map[string]any) map[string]any {
	if kind != "SecretList" || item["kind"] != nil {
		return item
	}
	item = runtime.DeepCopyJSON(item)
	item["kind"] = "Secret"
	return item
}
