package conformance

// three ConfigMaps, two of which have a label.
func three() []*step {
	return []*step{post("cm", cm("a", labelled)), post("cm", cm("b")), post("cm", cm("c", labelled))}
}

// after is a script that begins with what another one did.
func after(before []*step, steps ...*step) []*step { return append(before, steps...) }

// readRows are about get and list.
var readRows = []row{
	{"get", []*step{
		get("cm/x").want(notFound),
		post("cm", cm("x")),
		get("cm/x"),
		get("cm/x").accept("*/*"),
		get("cm/x").accept("text/html, */*;q=0.8"),
		get("cm/x").accept("application/yaml"),
	}},
	{"get at a resourceVersion", []*step{
		post("cm", cm("x")),
		get("cm/x?resourceVersion=${rv}"),
		get("cm/x?resourceVersion=abc").want(500),
	}},
	{"get in an unknown format", []*step{
		post("cm", cm("x")),
		get("cm/x").accept("image/png").want(406),
		get("cm").accept("image/png").want(406),
	}},
	{"get in protobuf", []*step{
		post("cm", cm("x")),
		get("cm/x").accept("application/vnd.kubernetes.protobuf").differs(406, noProtobuf),
		get("cm").accept("application/vnd.kubernetes.protobuf").differs(406, noProtobuf),
		get("cm/x").accept("application/vnd.kubernetes.protobuf,application/json").differs(200, noProtobuf),
		post("widget", widget("x")),
		get("widget/x").accept("application/vnd.kubernetes.protobuf").want(406).differs(406, noProtobuf),
		get("widget/x").accept("application/vnd.kubernetes.protobuf,application/json"),
	}},
	{"get in CBOR", []*step{
		post("cm", cm("x")),
		get("cm/x").accept("application/cbor").want(406),
		get("cm/x").accept("application/cbor,application/json"),
	}},
	{"get metadata alone", []*step{
		post("cm", cm("x", labelled)), post("widget", widget("x")),
		get("cm/x").accept(asPartial),
		get("widget/x").accept(asPartial),
		get("cm/x").accept("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
		get("cm/x").accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").want(406),
		get("ns/kube-system").accept(asPartial).only(identity),
	}},
	{"get a table that is not served", []*step{
		post("cm", cm("x")),
		get("cm/x").accept("application/json;as=Nothing;g=meta.k8s.io;v=v1").want(406),
		get("cm/x").accept("application/json;as=Nothing;g=meta.k8s.io;v=v1,application/json"),
	}},
	{"list", after(three(),
		get("cm"),
		get("cm").accept("*/*"),
		get("secret"),
	)},
	{"list metadata alone", after(three(),
		get("cm").accept(asPartialList),
		get("cm").accept(asPartial).want(406),
		get("cm").accept("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
	)},
	{"list in all namespaces", after(three(),
		get("/api/v1/configmaps?fieldSelector=metadata.namespace=$ns"),
		get("/api/v1/configmaps?fieldSelector=metadata.namespace=$ns,metadata.name!=a"),
	)},
	{"list by label", after(three(),
		get("cm?labelSelector=app=web"),
		get("cm?labelSelector=app!=web"),
		get("cm?labelSelector=app in (web,db)"),
		get("cm?labelSelector=!app"),
		get("cm?labelSelector=app notin (web)"),
	)},
	{"list by a broken label selector", []*step{
		get("cm?labelSelector=a b").want(badRequest),
		get("cm?labelSelector=a in b").want(badRequest),
		get("cm?labelSelector=/=").want(badRequest),
	}},
	{"list by field", after(three(),
		get("cm?fieldSelector=metadata.name=a"),
		get("cm?fieldSelector=metadata.name!=a"),
		get("cm?fieldSelector=metadata.name=a,metadata.namespace=$ns"),
		get("cm?fieldSelector=metadata.name=missing"),
	)},
	{"list by a field that cannot be selected", []*step{
		get("cm?fieldSelector=data.a=b").want(badRequest),
		get("cm?fieldSelector=nothing").want(badRequest),
		get("deploy?fieldSelector=spec.replicas=1").want(badRequest),
		get("widget?fieldSelector=spec.color=red").want(badRequest),
	}},
	{"list by the fields of a kind", []*step{
		post("secret", object("Secret", "a", `type: conformance.test/a`)), post("secret", object("Secret", "b")),
		get("secret?fieldSelector=type=conformance.test/a"),
		get("ns?fieldSelector=metadata.name=$ns,status.phase=Active"),
		post("pod", object("Pod", "x", `spec: {containers: [{name: a, image: a}]}`)),
		get("pod?fieldSelector=status.phase=Pending,spec.nodeName="),
	}},
	{"list by page", after(three(),
		get("cm?limit=2").save("page"),
		get("cm?limit=2&continue=${page.metadata.continue}"),
		get("cm?continue=${page.metadata.continue}"),
		get("cm?limit=3"),
		get("cm?limit=500"),
	)},
	{"list by page with a selector", after(three(),
		get("cm?limit=1&labelSelector=app=web").save("page"),
		get("cm?limit=1&labelSelector=app=web&continue=${page.metadata.continue}").save("page"),
	)},
	{"list by page while objects change", after(three(),
		get("cm?limit=1").save("page"),
		del("cm/b"), merge("cm/c", `{"data":{"a":"new"}}`), post("cm", cm("d")),
		get("cm?limit=1&continue=${page.metadata.continue}").save("page"),
		get("cm?limit=1&continue=${page.metadata.continue}"),
		get("cm"),
	)},
	{"list by page with tokens and limits that are none", []*step{
		get("cm?continue=abc").want(badRequest),
		get("cm?limit=abc").want(badRequest),
		get("cm?limit=-1"),
	}},
	{"list by page at a resourceVersion", after(three(),
		get("cm?limit=1").save("page"),
		get("cm?limit=1&continue=${page.metadata.continue}&resourceVersion=${page.metadata.resourceVersion}").want(badRequest),
		get("cm?limit=1&continue=${page.metadata.continue}&resourceVersion=0"),
	)},
	{"list at a resourceVersion", after(three(),
		get("cm").save("list"),
		get("cm?resourceVersion=0"),
		get("cm?resourceVersion=${list.metadata.resourceVersion}"),
		get("cm?resourceVersion=${list.metadata.resourceVersion}&resourceVersionMatch=NotOlderThan"),
		get("cm?resourceVersion=${list.metadata.resourceVersion}&resourceVersionMatch=Exact"),
		get("cm?resourceVersion=0&limit=1"),
	)},
	{"list of the past", after(three(),
		get("cm").save("list"),
		del("cm/b"), merge("cm/c", `{"data":{"a":"new"}}`),
		get("cm?resourceVersion=${list.metadata.resourceVersion}&resourceVersionMatch=Exact"),
		get("cm?resourceVersion=${list.metadata.resourceVersion}&resourceVersionMatch=NotOlderThan"),
	)},
	{"list with a match that makes no sense", []*step{
		get("cm?resourceVersionMatch=Exact").want(unprocessable),
		get("cm?resourceVersion=0&resourceVersionMatch=Exact").want(unprocessable),
		get("cm?resourceVersion=1&resourceVersionMatch=Perhaps").want(unprocessable),
		get("cm?resourceVersion=abc").want(badRequest),
		get("cm?sendInitialEvents=true").want(unprocessable),
	}},
	{"list of the future", []*step{
		get("cm?resourceVersion=999999999").want(504),
		get("cm?resourceVersion=999999999&resourceVersionMatch=Exact").want(504),
	}},
	{"list where there is nothing", []*step{
		get("/api/v1/namespaces/$ns-missing/configmaps"),
	}},
	{"paths that do not exist", []*step{
		get("/api/v1/namespaces/$ns/nothings").want(notFound),
		get("/api/v1/namespaces/$ns/nothings/x").want(notFound),
		get("/apis/nothing.test/v1/things").want(notFound),
		get("/apis/apps/v9/deployments").want(notFound),
		get("/nothing").want(notFound),
		get("cm/x/nothing").want(notFound),
		post("cm/x/status", cm("x")).want(notFound),
	}},
	{"methods that do not exist", []*step{
		put("cm", cm("x")).want(405),
		merge("cm", `{}`).want(405),
		del("/version").want(405),
	}},
}

const noProtobuf = "the simulator speaks JSON alone and says so; clients fall back to what they also accept"

// identity is the kube-system namespace without what differs between two clusters.
func identity(doc, _ any) any {
	metadata, _ := field(doc, "metadata").(map[string]any)
	delete(metadata, "managedFields")
	return doc
}
