package kinds

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/ownership"
)

// maxPatchOperations is how many operations a JSON patch may have.
const maxPatchOperations = 10000

// patched returns the live object with the patch of the body on it, decoded again.
func (n *next) patched() (*unstructured.Unstructured, error) {
	if n.PatchType == types.StrategicMergePatchType && n.form.PatchReference() != nil {
		return n.strategicallyPatched()
	}
	if !n.touchesManagedFields() {
		// Without them there is half as much to read and write, and the field manager takes those of the live object. What
		// is wrong with a patch is reported about the whole object.
		if o, _, errs, err := n.patchedOn(ownership.Without(n.live)); err == nil && len(errs) == 0 {
			return o, nil
		}
	}
	o, doc, errs, err := n.patchedOn(n.live)
	if err != nil {
		return nil, err
	}
	return o, n.strictly(string(doc), errs)
}

// patchedOn returns an object with the patch of the body on it, as a document as well, and what the kind has no place for.
func (n *next) patchedOn(o *unstructured.Unstructured) (patched *unstructured.Unstructured, doc []byte, strict []error, err error) {
	current, err := n.form.Encode(o)
	if err != nil {
		return nil, nil, nil, err
	}
	doc, repeated, err := n.onJSON(current)
	if err != nil {
		return nil, nil, nil, err
	}
	patched, strict, err = n.form.Decode(doc)
	if err != nil {
		return nil, nil, nil, invalidPatch(string(doc), err)
	}
	return patched, doc, append(repeated, strict...), nil
}

// touchesManagedFields reports whether a JSON or merge patch may read or write managedFields.
func (n *next) touchesManagedFields() bool {
	if n.PatchType == types.MergePatchType {
		var patch struct {
			Metadata map[string]any `json:"metadata"`
		}
		err := kjson.UnmarshalCaseSensitivePreserveInts(n.Body, &patch)
		_, found := patch.Metadata["managedFields"]
		return found || err != nil
	}
	var operations []jsonPatchOp
	if err := kjson.UnmarshalCaseSensitivePreserveInts(n.Body, &operations); err != nil {
		return true
	}
	return slices.ContainsFunc(operations, func(op jsonPatchOp) bool {
		return holdsManagedFields(op.Path) || op.From != "" && holdsManagedFields(op.From)
	})
}

// holdsManagedFields reports whether a JSON pointer leads to managedFields, into them or to something that has them.
func holdsManagedFields(pointer string) bool {
	return pointer == "" || pointer == "/metadata" || strings.HasPrefix(pointer, "/metadata/managedFields")
}

// onJSON applies a JSON or merge patch to a document. It also returns errors for keys that the patch
// repeats or does not have.
func (n *next) onJSON(current []byte) (patched []byte, strict []error, err error) {
	switch n.PatchType {
	case types.JSONPatchType:
		var operations []jsonPatchOp
		if strict, err = kjson.UnmarshalStrict(n.Body, &operations); err != nil {
			message := strings.ReplaceAll(err.Error(), "kinds.jsonPatchOp", "handlers.jsonPatchOp") // of a real server
			return nil, nil, apierrors.NewBadRequest("error decoding patch: " + message)
		}
		for i, err := range strict {
			strict[i] = fmt.Errorf("json patch %w", err)
		}
		patch, err := jsonpatch.DecodePatch(n.Body)
		if err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
		if len(patch) > maxPatchOperations {
			return nil, nil, apierrors.NewRequestEntityTooLargeError(
				fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(patch)))
		}
		if patched, err = patch.Apply(current); err != nil {
			return nil, nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return patched, strict, nil
	case types.MergePatchType:
		if strict, err = kjson.UnmarshalStrict(n.Body, &map[string]any{}); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		patched, err = jsonpatch.MergePatch(current, n.Body)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
		return patched, strict, err
	}
	accepted := make([]string, 0, 4)
	for _, patchType := range n.PatchTypes() {
		accepted = append(accepted, string(patchType))
	}
	return nil, nil, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(accepted, ", "),
	}}
}

// jsonPatchOp is what an operation of a JSON patch may have.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (n *next) strategicallyPatched() (*unstructured.Unstructured, error) {
	patch := map[string]any{}
	strict, err := kjson.UnmarshalStrict(n.Body, &patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(n.live.DeepCopy().Object, patch, n.form.PatchReference())
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	case err != nil:
		return nil, err
	}
	o, unknown, err := n.form.Settle(&unstructured.Unstructured{Object: merged})
	if err != nil {
		return nil, invalidPatch(fmt.Sprintf("%+v", patch), err)
	}
	return o, n.strictly(fmt.Sprintf("%+v", patch), append(strict, unknown...))
}

// strictly deals with what is wrong with a patch, but could be left aside.
func (n *next) strictly(patch string, errs []error) error {
	if len(errs) > 0 && n.FieldValidation == metav1.FieldValidationStrict {
		return invalidPatch(patch, runtime.NewStrictDecodingError(errs))
	}
	n.warn(errs...)
	return nil
}

func invalidPatch(patch string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), patch, err.Error())})
}

// decodeYAML reads an apply patch. It also returns errors for keys that are there twice. JSON, which clients send as a
// rule, takes a shorter way.
func decodeYAML(body []byte) (o *unstructured.Unstructured, repeated error, err error) {
	content := map[string]any{}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '{' {
		if strict, err := kjson.UnmarshalStrict(body, &content); err == nil && len(strict) == 0 {
			return &unstructured.Unstructured{Object: content}, nil, nil
		}
		content = map[string]any{}
	}
	if err := yaml.Unmarshal(body, &content); err != nil {
		return nil, nil, err
	}
	return &unstructured.Unstructured{Object: content}, yaml.UnmarshalStrict(body, &map[string]any{}), nil
}

// yamlProblems splits what a YAML decoder complains of.
func yamlProblems(err error) []error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: unmarshal errors:\n")
	var problems []error
	for line := range strings.SplitSeq(text, "\n") {
		problems = append(problems, errors.New(strings.TrimSpace(line)))
	}
	return problems
}
