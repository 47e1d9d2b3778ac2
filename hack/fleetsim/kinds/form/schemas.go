package form

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// schemasJSON are the OpenAPI schemas, as kube-apiserver gives them but without descriptions, of what has none in client-go:
// the metadata of objects and APIService.
//
//go:embed schemas.json
var schemasJSON []byte

const (
	// SchemaPrefix comes before the name of a schema in a reference to it.
	SchemaPrefix = "#/components/schemas/"
	// MetaPrefix begins the names of the schemas of metadata.
	MetaPrefix = "io.k8s.apimachinery.pkg.apis.meta.v1."
)

// Schemas parses schemas.json, by definition name. What it returns belongs to all.
var Schemas = sync.OnceValue(func() map[string]*spec.Schema {
	var schemas map[string]*spec.Schema
	if err := json.Unmarshal(schemasJSON, &schemas); err != nil {
		panic(fmt.Sprintf("schemas.json: %v", err))
	}
	return schemas
})
