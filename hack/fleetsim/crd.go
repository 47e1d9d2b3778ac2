package fleetsim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// AddCRD applies a CustomResourceDefinition, past faults and authentication.
func (t *Target) AddCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	body, err := json.Marshal(crd.Object)
	if err == nil {
		path := definitions + url.PathEscape(crd.GetName()) + "?fieldManager=fleetsim&force=true"
		_, err = t.Call(ctx, Call{Method: http.MethodPatch, Path: path, ContentType: "application/apply-patch+yaml", Body: body})
	}
	if err != nil {
		return fmt.Errorf("adding CRD %s to %s: %w", crd.GetName(), t.name, err)
	}
	return nil
}

// RemoveCRD deletes a CustomResourceDefinition and with it all objects of its kind, past faults and authentication.
func (t *Target) RemoveCRD(ctx context.Context, name string) error {
	if _, err := t.Call(ctx, Call{Method: http.MethodDelete, Path: definitions + url.PathEscape(name)}); err != nil {
		return fmt.Errorf("removing CRD %s from %s: %w", name, t.name, err)
	}
	return nil
}
