package kinds

// OpenAPI returns a document of OpenAPI v3: "/openapi/v3", the index, or "/openapi/v3/<group version>".
func (r *Registry) OpenAPI(path string) (doc []byte, ok bool) { return nil, false }
