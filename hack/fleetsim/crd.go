package fleetsim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// AddCRD applies a CustomResourceDefinition, past faults and authentication.
func (t *Target) AddCRD(ctx context.Context, crd *unstructured.Unstructured) error {
	body, err := json.Marshal(crd.Object)
	if err == nil {
		path := definitions + url.PathEscape(crd.GetName()) + "?fieldManager=fleetsim&force=true"
		err = t.ask(ctx, http.MethodPatch, path, body)
	}
	if err != nil {
		return fmt.Errorf("adding CRD %s to %s: %w", crd.GetName(), t.name, err)
	}
	return nil
}

// RemoveCRD deletes a CustomResourceDefinition and with it all objects of its kind, past faults and authentication.
func (t *Target) RemoveCRD(ctx context.Context, name string) error {
	if err := t.ask(ctx, http.MethodDelete, definitions+url.PathEscape(name), nil); err != nil {
		return fmt.Errorf("removing CRD %s from %s: %w", name, t.name, err)
	}
	return nil
}

// ask sends a request to the server as the simulator itself. The journal counts it as that of "fleetsim".
func (t *Target) ask(ctx context.Context, method, path string, body []byte) error {
	r, err := http.NewRequestWithContext(inside(ctx), method, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "fleetsim")
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/apply-patch+yaml")
	}
	w := &recorder{header: http.Header{}, code: http.StatusOK}
	t.Server().ServeHTTP(w, r)
	if w.code < 300 {
		return nil
	}
	var status metav1.Status
	if json.Unmarshal(w.body.Bytes(), &status) == nil && status.Message != "" {
		return fmt.Errorf("%s", status.Message)
	}
	return fmt.Errorf("it answers %s", http.StatusText(w.code))
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
