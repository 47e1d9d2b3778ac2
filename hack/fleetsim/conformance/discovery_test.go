package conformance

import (
	"cmp"
	"slices"
	"strings"
)

const (
	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	bothForms  = aggregated + ",application/json"
)

// discoveryRows are about what servers report about themselves. The simulator serves a part of what kube-apiserver
// does; that part is compared.
var discoveryRows = []row{
	{"version", []*step{get("/version").only(build)}},
	{"who am I", []*step{
		post("/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`).only(user),
	}},
	{"health", []*step{get("/healthz"), get("/livez"), get("/readyz"), get("/readyz?verbose").only(nothing)}},
	{"discovery of the core group", []*step{get("/api").only(addresses)}},
	{"discovery of groups", []*step{
		get("/apis").only(served),
		get("/apis").accept("*/*").only(served),
		get("/apis/apps"),
		get("/apis/conformance.test"),
		get("/apis/nothing.test").want(notFound),
	}},
	{"discovery of resources", []*step{
		get("/api/v1").only(served),
		get("/apis/apps/v1").only(served),
		get("/apis/batch/v1").only(served),
		get("/apis/rbac.authorization.k8s.io/v1").only(served),
		get("/apis/apiextensions.k8s.io/v1").only(served),
		get("/apis/authentication.k8s.io/v1").only(served),
		get("/apis/conformance.test/v1").only(served),
		get("/apis/conformance.test/v2").only(served),
		get("/apis/apps/v9").want(notFound),
	}},
	{"aggregated discovery", []*step{
		get("/api").accept(aggregated).only(served),
		get("/apis").accept(aggregated).only(served),
		get("/api").accept(bothForms).only(served),
		get("/apis").accept(bothForms).only(served),
		get("/apis/apps").accept(bothForms),
	}},
	{"discovery in an unknown form", []*step{
		get("/apis").accept("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList").want(406),
		get("/apis").accept("image/png").want(406),
	}},
	{"discovery that did not change", []*step{
		get("/api").accept(aggregated).only(served).keepTag("api"),
		get("/api").accept(aggregated).with("If-None-Match", "${api}").want(304),
		get("/api").accept(aggregated).with("If-None-Match", `"0"`).only(served),
	}},
}

// served takes out of discovery documents what the other server does not have, and the definitions of other rows.
func served(doc, other any) any {
	switch v := doc.(type) {
	case map[string]any:
		o, _ := other.(map[string]any)
		delete(v, "storageVersionHash") // identifies the version in etcd, which a simulator does not have
		for key, inner := range v {
			v[key] = served(inner, o[key])
			if list, is := v[key].([]any); is && key == "resources" {
				// Of custom resources in no order, and no client needs one.
				slices.SortFunc(list, func(a, b any) int { return cmp.Compare(called(a), called(b)) })
			}
		}
		return v
	case []any:
		theirs := map[string]any{}
		o, _ := other.([]any)
		for _, item := range o {
			theirs[called(item)] = item
		}
		list := []any{}
		for _, item := range v {
			name := called(item)
			counterpart, both := theirs[name]
			if _, named := item.(map[string]any); named && (!both || ofAnotherRow(name)) {
				continue
			}
			list = append(list, served(item, counterpart))
		}
		return list
	}
	return doc
}

// called is what an item of a discovery document is known by.
func called(item any) string {
	for _, path := range [][]string{{"metadata", "name"}, {"resource"}, {"subresource"}, {"groupVersion"}, {"name"}, {"version"}} {
		if name, is := field(item, path...).(string); is && name != "" {
			return name
		}
	}
	return ""
}

func ofAnotherRow(group string) bool {
	return strings.HasSuffix(group, ".test") && group != "conformance.test"
}

// build keeps of a version what clients decide by.
func build(doc, _ any) any {
	return map[string]any{"major": field(doc, "major"), "minor": field(doc, "minor"), "gitVersion": field(doc, "gitVersion")}
}

// user takes out the names of the two users.
func user(doc, _ any) any {
	if status, is := field(doc, "status").(map[string]any); is {
		delete(status, "userInfo")
	}
	return doc
}

// addresses takes out where the server says that it is.
func addresses(doc, _ any) any {
	obj, _ := doc.(map[string]any)
	delete(obj, "serverAddressByClientCIDRs")
	return doc
}

// nothing leaves the status code and headers to be compared.
func nothing(any, any) any { return nil }
