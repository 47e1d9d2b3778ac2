package conformance

func service(name, spec string) string { return object("Service", name, "spec: "+spec) }

// kindRows are about what is special in one kind: defaults, immutable fields, generations, subresources.
var kindRows = []row{
	{"a config map has no generation", []*step{
		post("cm", cm("x")),
		merge("cm/x", `{"data":{"a":"one"}}`),
	}},
	{"generation of a deployment", []*step{
		post("deploy", deployment("x")),
		merge("deploy/x", `{"metadata":{"labels":{"a":"b"}}}`),
		merge("deploy/x", `{"metadata":{"annotations":{"a":"b"}}}`),
		merge("deploy/x", `{"spec":{"replicas":2}}`),
		merge("deploy/x/status", `{"status":{"replicas":2}}`),
		merge("deploy/x", `{"spec":{"replicas":2}}`),
		merge("deploy/x", `{"metadata":{"generation":9}}`),
	}},
	{"generation of a service", []*step{
		post("svc", service("x", `{ports: [{port: 80}]}`)),
		merge("svc/x", `{"spec":{"ports":[{"port":81}]}}`),
	}},
	{"generation and deletion", []*step{
		post("deploy", deployment("x", held)),
		del("deploy/x"),
		merge("deploy/x", `{"spec":{"replicas":3}}`),
	}},
	{"a deployment", []*step{
		post("deploy", deployment("x")),
		post("deploy", object("Deployment", "y", `
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      initContainers: [{name: i, image: i}]
      containers:
      - name: web
        image: web
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 0.1, memory: 1Gi}, limits: {cpu: 1000m}}
        readinessProbe: {httpGet: {path: /, port: 80}}
        volumeMounts: [{name: v, mountPath: /v}]
      volumes: [{name: v, configMap: {name: v}}]`)),
	}},
	{"the status of a deployment", []*step{
		post("deploy", deployment("x", `status: {replicas: 5}`)),
		put("deploy/x/status?fieldManager=s", deployment("x", `status: {replicas: 2, readyReplicas: 1}`, `metadata: {labels: {by: status}}`)),
		merge("deploy/x/status?fieldManager=s", `{"spec":{"replicas":9},"status":{"readyReplicas":2}}`),
		put("deploy/x", deployment("x", `status: {replicas: 8}`)),
		get("deploy/x/status"),
		get("deploy/x/status").accept(asPartial),
	}},
	{"a stateful set", []*step{
		post("sts", object("StatefulSet", "x", `
spec:
  serviceName: x
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}
  volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]`)),
		merge("sts/x", `{"spec":{"replicas":2}}`),
	}},
	{"a service", []*step{
		post("svc", service("x", `{ports: [{port: 80}], selector: {app: web}}`)).save("made"),
		put("svc/x", service("x", `{ports: [{port: 81}], selector: {app: web}}`)),
		merge("svc/x/status", `{"status":{"conditions":[{"type":"A","status":"True","reason":"B","message":"C","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`),
	}},
	{"a headless service", []*step{
		post("svc", service("x", `{clusterIP: None, ports: [{port: 80}]}`)),
		put("svc/x", service("x", `{clusterIP: None, ports: [{port: 81}]}`)),
	}},
	{"a service with an external name", []*step{
		post("svc", service("x", `{type: ExternalName, externalName: a.test}`)),
	}},
	{"a service account", []*step{
		post("sa", object("ServiceAccount", "x")),
		merge("sa/x", `{"imagePullSecrets":[{"name":"a"}]}`),
		apply("sa/x?fieldManager=a", object("ServiceAccount", "x", `secrets: [{name: b}]`)),
	}},
	{"a token", []*step{
		post("sa", object("ServiceAccount", "x")),
		post("sa/x/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`).only(tokenAudience),
		post("sa/x/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":60}}`).want(unprocessable),
		post("sa/y/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":3600}}`).want(notFound),
		get("sa/x"),
	}},
	{"a role binding", []*step{
		post("role", object("Role", "x", `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`)),
		post("rb", object("RoleBinding", "x", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}`, `subjects: [{kind: User, name: u}, {kind: ServiceAccount, name: s, namespace: $ns}]`)),
		put("rb/x", object("RoleBinding", "x", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}`)),
	}},
	{"a cluster role", []*step{
		post("cr", object("ClusterRole", "$ns", `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`)),
		apply("cr/$ns?fieldManager=a", object("ClusterRole", "$ns", `rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]`)).want(conflict),
		del("cr/$ns"),
	}},
	{"a pod", []*step{
		post("pod", object("Pod", "x", `spec: {containers: [{name: a, image: "a:1"}]}`)),
		merge("pod/x/status", `{"status":{"phase":"Running"}}`),
	}},
	{"a network policy", []*step{
		post("netpol", object("NetworkPolicy", "x", `spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}`)),
		merge("netpol/x", `{"spec":{"policyTypes":["Ingress","Egress"]}}`),
	}},
	{"a horizontal pod autoscaler", []*step{
		post("hpa", object("HorizontalPodAutoscaler", "x", `spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}, maxReplicas: 3}`)),
	}},
	{"a pod disruption budget", []*step{
		post("/apis/policy/v1/namespaces/$ns/poddisruptionbudgets", `{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"x"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}`),
		merge("/apis/policy/v1/namespaces/$ns/poddisruptionbudgets/x", `{"spec":{"minAvailable":2}}`),
	}},
}

// tokenAudience takes out what names the issuer.
func tokenAudience(doc, _ any) any {
	spec, _ := field(doc, "spec").(map[string]any)
	delete(spec, "audiences")
	return doc
}
