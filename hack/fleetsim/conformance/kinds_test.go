package conformance

func service(name, spec string) string { return object("Service", name, "spec: "+spec) }

func job(name, spec string) string { return object("Job", name, "spec: "+spec) }

const jobSpec = `{template: {spec: {restartPolicy: Never, containers: [{name: a, image: "a:1"}]}}}`

// kindRows are about what is special in one kind: defaults, immutable fields, generations, subresources.
var kindRows = []row{
	{"an immutable config map", []*step{
		post("cm", cm("x", `data: {a: one}`, `immutable: true`)),
		put("cm/x", cm("x", `data: {a: two}`, `immutable: true`)).want(unprocessable),
		merge("cm/x", `{"data":{"b":"new"},"immutable":null}`).want(unprocessable),
		apply("cm/x?fieldManager=a&force=true", cm("x", `data: {a: two}`)).want(unprocessable),
		merge("cm/x", `{"metadata":{"labels":{"a":"b"}}}`),
	}},
	{"an immutable secret", []*step{
		post("secret", object("Secret", "x", `data: {a: b25l}`, `immutable: true`)),
		put("secret/x", object("Secret", "x", `data: {a: dHdv}`, `immutable: true`)).want(unprocessable),
		merge("secret/x", `{"stringData":{"a":"two"}}`).want(unprocessable),
	}},
	{"the type of a secret", []*step{
		post("secret", object("Secret", "x", `type: conformance.test/a`)),
		put("secret/x", object("Secret", "x", `type: conformance.test/b`)).want(unprocessable),
		put("secret/x", object("Secret", "x")).want(unprocessable),
		post("secret", object("Secret", "y", `type: kubernetes.io/tls`)).want(unprocessable),
	}},
	{"a config map that is too large", []*step{
		post("cm", cm("x", `data: {"a..": "1", "../b": "1"}`)).want(unprocessable),
		post("cm", cm("x", `data: {a: one}`, `binaryData: {a: b25l}`)).want(unprocessable),
	}},
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
	{"a deployment that is wrong", []*step{
		post("deploy", object("Deployment", "x", `spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: a, image: a}]}}}`)).want(unprocessable),
		post("deploy", object("Deployment", "x", `spec: {replicas: -1, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}}`)).want(unprocessable),
		post("deploy", object("Deployment", "x", `spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: []}}}`)).want(unprocessable),
		post("deploy", object("Deployment", "x")).want(unprocessable),
	}},
	{"the selector of a deployment", []*step{
		post("deploy", deployment("x")),
		merge("deploy/x", `{"spec":{"selector":{"matchLabels":{"app":"db"}},"template":{"metadata":{"labels":{"app":"db"}}}}}`).want(unprocessable),
	}},
	{"the status of a deployment", []*step{
		post("deploy", deployment("x", `status: {replicas: 5}`)),
		put("deploy/x/status?fieldManager=s", deployment("x", `status: {replicas: 2, readyReplicas: 1}`, `metadata: {labels: {by: status}}`)),
		merge("deploy/x/status?fieldManager=s", `{"spec":{"replicas":9},"status":{"readyReplicas":2}}`),
		put("deploy/x", deployment("x", `status: {replicas: 8}`)),
		get("deploy/x/status"),
		get("deploy/x/status").accept(asPartial),
	}},
	{"the scale of a deployment", []*step{
		post("deploy", deployment("x")),
		get("deploy/x/scale"),
		put("deploy/x/scale?fieldManager=s", object("Scale", "x", `spec: {replicas: 3}`)),
		merge("deploy/x/scale?fieldManager=s", `{"spec":{"replicas":4}}`),
		apply("deploy/x?fieldManager=a", deployment("x")).want(conflict),
		get("deploy/x"),
		get("deploy/y/scale").want(notFound),
	}},
	{"the scale of a deployment that is wrong", []*step{
		post("deploy", deployment("x")),
		put("deploy/x/scale", object("Scale", "x", `spec: {replicas: -3}`)).want(unprocessable),
		put("deploy/x/scale", object("Scale", "x", `spec: {replicas: 3}`, `metadata: {resourceVersion: "1"}`)).want(conflict),
	}},
	{"a stateful set", []*step{
		post("sts", object("StatefulSet", "x", `
spec:
  serviceName: x
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: a}]}}
  volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]`)),
		merge("sts/x", `{"spec":{"serviceName":"y"}}`).want(unprocessable),
		merge("sts/x", `{"spec":{"replicas":2}}`),
	}},
	{"a job", []*step{
		post("job", job("x", jobSpec)),
		merge("job/x", `{"spec":{"template":{"spec":{"restartPolicy":"OnFailure"}}}}`).want(unprocessable),
		merge("job/x", `{"spec":{"parallelism":2}}`),
	}},
	{"a service", []*step{
		post("svc", service("x", `{ports: [{port: 80}], selector: {app: web}}`)).save("made"),
		put("svc/x", service("x", `{ports: [{port: 81}], selector: {app: web}}`)),
		merge("svc/x", `{"spec":{"clusterIP":"10.96.77.77"}}`).want(unprocessable),
		merge("svc/x/status", `{"status":{"conditions":[{"type":"A","status":"True","reason":"B","message":"C","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`),
		merge("svc/x/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]}}}`).want(unprocessable),
	}},
	{"a headless service", []*step{
		post("svc", service("x", `{clusterIP: None, ports: [{port: 80}]}`)),
		put("svc/x", service("x", `{clusterIP: None, ports: [{port: 81}]}`)),
	}},
	{"a service with node ports", []*step{
		post("svc", service("x", `{type: NodePort, ports: [{port: 80}]}`)),
		merge("svc/x", `{"metadata":{"labels":{"a":"b"}}}`),
		merge("svc/x", `{"spec":{"type":"ClusterIP"}}`),
	}},
	{"a service with a load balancer", []*step{
		post("svc", service("x", `{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{name: a, port: 80}, {name: b, port: 81}]}`)),
		apply("svc/x?fieldManager=a&force=true", service("x", `{type: LoadBalancer, externalTrafficPolicy: Local, ports: [{name: a, port: 80}]}`)),
	}},
	{"a service with an external name", []*step{
		post("svc", service("x", `{type: ExternalName, externalName: a.test}`)),
	}},
	{"a service that is wrong", []*step{
		post("svc", service("x", `{}`)).want(unprocessable),
		post("svc", service("x", `{ports: [{port: 80}, {port: 81}]}`)).want(unprocessable),
		post("svc", service("x", `{type: Odd, ports: [{port: 80}]}`)).want(unprocessable),
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
		put("rb/x", object("RoleBinding", "x", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: other}`)).want(unprocessable),
		put("rb/x", object("RoleBinding", "x", `roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}`)),
		post("rb", object("RoleBinding", "y")).want(unprocessable),
	}},
	{"a cluster role", []*step{
		post("cr", object("ClusterRole", "$ns", `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`)),
		apply("cr/$ns?fieldManager=a", object("ClusterRole", "$ns", `rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]`)).want(conflict),
		del("cr/$ns"),
	}},
	{"a pod", []*step{
		post("pod", object("Pod", "x", `spec: {containers: [{name: a, image: "a:1"}]}`)),
		merge("pod/x", `{"spec":{"nodeName":"n"}}`).want(unprocessable),
		merge("pod/x/status", `{"status":{"phase":"Running"}}`),
	}},
	{"a persistent volume claim", []*step{
		post("pvc", object("PersistentVolumeClaim", "x", `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`)),
		merge("pvc/x", `{"metadata":{"labels":{"a":"b"}}}`),
		merge("pvc/x", `{"spec":{"accessModes":["ReadOnlyMany"]}}`).want(unprocessable),
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
