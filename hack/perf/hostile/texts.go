package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// rewriter changes objects of honest answers before they are sent. It is given what JSON says, and a number that is
// new each time.
type rewriter func(object map[string]any, n int64)

// rewrites sends what the honest server answers about objects with changes. Watches get an event for each object that
// is there again and again, as often as every says.
func rewrites(honest func() http.Handler, every time.Duration, change rewriter) interceptor {
	var n atomic.Int64
	isWatch := reads("watch")
	return func(w http.ResponseWriter, r *http.Request) bool {
		named, ok := isResource(r.URL.Path)
		if !ok || r.URL.Path == kubeSystem || strings.HasPrefix(r.URL.Path, "/apis/auth") {
			return false
		}
		r.Header.Set("Accept", strings.ReplaceAll(r.Header.Get("Accept"), protobufType, "application/x-none"))
		if !isWatch(r) {
			answered := &recorded{header: http.Header{}, code: http.StatusOK}
			honest().ServeHTTP(answered, r)
			content := answered.body.Bytes()
			var document map[string]any
			if answered.code < http.StatusMultipleChoices && json.Unmarshal(content, &document) == nil {
				for _, o := range objectsOf(document, named) {
					change(o, n.Add(1))
				}
				content = encoded(document)
			}
			for name, values := range answered.header {
				w.Header()[name] = values
			}
			w.WriteHeader(answered.code)
			_, _ = w.Write(content) // a client that left gets no answer
			return true
		}
		list := r.Clone(r.Context())
		list.URL.RawQuery = "labelSelector=" + r.URL.Query().Get("labelSelector")
		list.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		for {
			answered := &recorded{header: http.Header{}, code: http.StatusOK}
			honest().ServeHTTP(answered, list)
			var document map[string]any
			if answered.code == http.StatusOK && json.Unmarshal(answered.body.Bytes(), &document) == nil {
				for _, o := range objectsOf(document, false) {
					if o["kind"] == nil {
						o["apiVersion"], o["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
					}
					change(o, n.Add(1))
					if _, err := w.Write(encoded(map[string]any{"type": "MODIFIED", "object": o})); err != nil {
						return true
					}
				}
			}
			_ = http.NewResponseController(w).Flush() // a client that left is noticed next
			if !slow(r, every) {
				return true
			}
		}
	}
}

func objectsOf(document map[string]any, single bool) []map[string]any {
	items, isList := document["items"].([]any)
	if single && !isList {
		return []map[string]any{document}
	}
	var out []map[string]any
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}

// encoded is JSON, with texts that are no UTF-8 as they are: encoding/json would mend them.
func encoded(document any) []byte {
	content, err := json.Marshal(document)
	if err != nil {
		panic(fmt.Sprintf("what was JSON cannot be encoded: %v", err))
	}
	return []byte(strings.ReplaceAll(string(content), notUTF8Mark, notUTF8))
}

const (
	// notUTF8Mark is where text that is no UTF-8 goes.
	notUTF8Mark = "@no-utf-8@"
	notUTF8     = "\xff\xfe\xc3"
)

// metadataOf returns the metadata of an object.
func metadataOf(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	return metadata
}

// entry is one of managedFields.
func entry(manager, operation string, fields any, n int64) map[string]any {
	return map[string]any{
		"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
		"time": time.Now().Add(time.Duration(n) * time.Second).UTC().Format(time.RFC3339),
	}
}

// deep is a set of fields that is nested, wide one that has many of them.
func deep(levels int) map[string]any {
	fields := map[string]any{}
	for range levels {
		fields = map[string]any{"f:a": fields}
	}
	return fields
}

func wide(leaves, levels int) map[string]any {
	fields := map[string]any{}
	for i := range leaves {
		fields["f:"+strconv.Itoa(i)] = map[string]any{}
	}
	for range levels {
		fields = map[string]any{"f:a": fields}
	}
	return map[string]any{"f:data": fields}
}

// huge is a text of a MiB.
func huge(n int64) string { return fmt.Sprintf("%d-%s", n, strings.Repeat("x", 1<<20)) }

// broken is a text that is no UTF-8.
func broken(n int64) string { return fmt.Sprintf("%d-%s", n, notUTF8Mark) }

// rewritten registers a target whose objects are changed on their way.
func rewritten(
	ctx context.Context, s *scene, name string, every time.Duration, change rewriter, first interceptor,
) error {
	var srv *server
	intercept := rewrites(func() http.Handler { return srv.honest }, every, change)
	ready := make(chan struct{})
	options := serverOptions{intercept: func(w http.ResponseWriter, r *http.Request) bool {
		<-ready
		return first != nil && first(w, r) || intercept(w, r)
	}}
	srv, err := s.server(options) //nolint:contextcheck // it is closed
	if err != nil {
		return err
	}
	close(ready)
	if err := s.manage(ctx, name, name+"-objects", managedObjects(10)...); err != nil {
		return err
	}
	return s.register(ctx, name, srv.kubeconfig())
}

// fieldsCases are those of managedFields that take long to compare.
func fieldsCases() []attack {
	var out []attack
	for _, v := range []struct {
		name   string
		fields map[string]any
		quick  bool
	}{
		{"1,000 deep and 20,000 leaves wide", wide(20_000, 1000), true},
		{"10,000 deep", deep(10_000), false},
		{"100,000 leaves wide", wide(100_000, 0), false},
	} {
		for _, manager := range []string{"another-client", "trellis"} {
			out = append(out, attack{
				row: 10, name: fmt.Sprintf("managedFields %s, of %s", v.name, manager), budget: oneTarget,
				quick: v.quick && manager == "trellis",
				begin: func(ctx context.Context, s *scene) error {
					return rewritten(ctx, s, "t", time.Second, func(object map[string]any, n int64) {
						operation := "Update"
						if manager == "trellis" {
							operation = "Apply"
						}
						metadata := metadataOf(object)
						metadata["resourceVersion"] = strconv.FormatInt(1_000_000+n, 10)
						metadata["managedFields"] = []any{entry(manager, operation, v.fields, n)}
					}, nil)
				},
			})
		}
	}
	return out
}

// textsCases are those of texts that are long, or no UTF-8.
func textsCases() []attack {
	var out []attack
	for name, text := range map[string]func(int64) string{"1 MiB": huge, "no UTF-8": broken} {
		version := func(w http.ResponseWriter, r *http.Request) bool {
			if isVersion(r) {
				v := text(0)
				_, _ = w.Write(encoded(map[string]any{
					"gitVersion": "v1.36.3" + v, "major": v, "minor": v, "platform": v,
				}))
			}
			return isVersion(r)
		}
		review := placed("self review").asked
		user := func(w http.ResponseWriter, r *http.Request) bool {
			if review(r) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write(encoded(map[string]any{
					"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
					"status": map[string]any{"userInfo": map[string]any{
						"username": text(0), "uid": text(0), "groups": []any{text(1)},
					}},
				}))
			}
			return review(r)
		}
		identity := func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == kubeSystem {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(encoded(map[string]any{
					"apiVersion": "v1", "kind": "Namespace",
					"metadata": map[string]any{"name": "kube-system", "uid": text(0)},
				}))
			}
			return r.URL.Path == kubeSystem
		}
		managers := func(object map[string]any, n int64) {
			metadata := metadataOf(object)
			metadata["resourceVersion"] = strconv.FormatInt(1_000_000+n, 10)
			manager := text(n)
			fields := map[string]any{"f:data": map[string]any{"f:key": map[string]any{}}}
			metadata["managedFields"] = []any{entry(manager, "Update", fields, n)}
		}
		names := func(object map[string]any, n int64) {
			metadata := metadataOf(object)
			metadata["name"], metadata["uid"], metadata["resourceVersion"] = text(n), text(n), text(n)
		}
		states := func(object map[string]any, n int64) {
			metadataOf(object)["resourceVersion"] = strconv.FormatInt(1_000_000+n, 10)
			object["status"] = map[string]any{"phase": text(n), "conditions": []any{map[string]any{
				"type": "Available", "status": "False", "reason": text(n), "message": text(n),
			}, map[string]any{"type": "Progressing", "status": text(n), "reason": text(n), "message": text(n)}}}
		}
		refusals := func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write(encoded(map[string]any{
				"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": http.StatusUnprocessableEntity,
				"reason": text(0), "message": text(1), "details": map[string]any{"name": text(2), "kind": text(3)},
			}))
			return true
		}
		nothing := func(map[string]any, int64) {}
		out = append(out, attack{
			row: 12, name: "texts of " + name + " everywhere", budget: manyTargets, quick: true,
			begin: func(ctx context.Context, s *scene) error {
				for i, v := range []struct {
					change rewriter
					first  interceptor
				}{
					{managers, nil},
					{names, nil},
					{states, nil},
					{nothing, version},
					{nothing, user},
					{nothing, identity},
					{nothing, refusals},
				} {
					name := "t" + strconv.Itoa(i)
					if err := rewritten(ctx, s, name, 500*time.Millisecond, v.change, v.first); err != nil {
						return err
					}
				}
				return nil
			},
		})
		for i, change := range []rewriter{managers, names, states} {
			out = append(out, attack{
				row: 12, name: fmt.Sprintf("%s of %s", []string{"field managers", "names", "conditions"}[i], name),
				budget: oneTarget,
				begin: func(ctx context.Context, s *scene) error {
					return rewritten(ctx, s, "t", 100*time.Millisecond, change, nil)
				},
			})
		}
	}
	return out
}

// pagesCases are those of lists without an end.
func pagesCases() []attack {
	isList := reads("list")
	page := func(item func(n int64, i int) map[string]any, perPage int) interceptor {
		var n atomic.Int64
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !isList(r) {
				return false
			}
			number := n.Add(1)
			var items []any
			for i := range perPage {
				items = append(items, item(number, i))
			}
			kind, version := "PartialObjectMetadataList", "meta.k8s.io/v1"
			if strings.HasSuffix(r.URL.Path, "/nodes") {
				kind, version = "NodeList", "v1"
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(encoded(map[string]any{
				"apiVersion": version, "kind": kind, "items": items,
				"metadata": map[string]any{"resourceVersion": "9", "continue": "c" + strconv.FormatInt(number, 10)},
			}))
			return true
		}
	}
	isWatch := reads("watch")
	// stream begins a list that is streamed, and never ends it.
	stream := func(item func(n int64, i int) map[string]any, _ int) interceptor {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !isWatch(r) {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			for n := int64(1); ; n++ {
				object := item(n, 0)
				object["apiVersion"], object["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
				if strings.HasSuffix(r.URL.Path, "/nodes") {
					object["apiVersion"], object["kind"] = "v1", "Node"
				}
				if _, err := w.Write(encoded(map[string]any{"type": "ADDED", "object": object})); err != nil {
					return true // the client left
				}
			}
		}
	}
	metadata := func(n int64, i int) map[string]any {
		name := fmt.Sprintf("o-%d-%d", n, i)
		return map[string]any{
			"namespace": "default", "name": name, "uid": name, "resourceVersion": "9",
			"labels": map[string]any{"resources.gardener.cloud/managed-by": "trellis"},
		}
	}
	inStatus := func(n int64, i int) map[string]any {
		return map[string]any{"metadata": metadata(n, i), "status": map[string]any{"conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": huge(n), "message": huge(n),
		}}}}
	}
	inMetadata := func(n int64, i int) map[string]any {
		m := metadata(n, i)
		m["labels"] = map[string]any{"resources.gardener.cloud/managed-by": "trellis", "a": huge(n)}
		m["annotations"] = map[string]any{"resources.gardener.cloud/origin": huge(n)}
		m["managedFields"] = []any{entry(huge(n), "Apply", map[string]any{}, n)}
		return map[string]any{"metadata": m}
	}
	small := func(n int64, i int) map[string]any { return map[string]any{"metadata": metadata(n, i)} }
	var out []attack
	for _, v := range []struct {
		name    string
		item    func(int64, int) map[string]any
		perPage int
		managed bool
		stream  bool
		quick   bool
	}{
		{"continue, conditions of 1 MiB", inStatus, 2, false, false, true},
		{"continue, metadata of 1 MiB", inMetadata, 1, true, false, false},
		{"continue, small objects", small, 500, true, false, false},
		{"stream, conditions of 1 MiB", inStatus, 1, false, true, false},
		{"stream, metadata of 1 MiB", inMetadata, 1, true, true, false},
		{"stream, small objects", small, 1, true, true, false},
	} {
		for _, many := range []bool{false, true} {
			a := attack{row: 6, name: "endless " + v.name, budget: oneTarget, quick: v.quick && !many}
			n := 1
			if many {
				a.name, a.budget, n = a.name+", ten targets", manyTargets, 10
			}
			a.begin = func(ctx context.Context, s *scene) error {
				for i := range n {
					answers := page
					if v.stream {
						answers = stream
					}
					options := serverOptions{pages: !v.stream, intercept: answers(v.item, v.perPage)}
					if err := s.target(ctx, "t"+strconv.Itoa(i), v.managed, options); err != nil {
						return err
					}
				}
				return nil
			}
			out = append(out, a)
		}
	}
	return out
}
