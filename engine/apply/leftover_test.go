package apply_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// web is a Deployment of a namespace with more in its pods and its spec.
func web(ns, pod, spec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %s, name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  %s
  template:
    metadata: {labels: {app: web}}
    spec: {%s}
`, ns, spec, pod)
}

func networkPolicy(ns, spec string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: %s, name: fence}
spec: {podSelector: {}, %s}
`, ns, spec)
}

// Fields without an owner follow the manifest, as in an update: an apply alone leaves them.
func TestFieldsWithoutAnOwnerFollowTheManifest(t *testing.T) {
	const container = "containers: [{name: web, image: 'x:1'}]"
	for name, c := range map[string]struct {
		first, now func(ns string) string
		want       kept
	}{
		"a former name of a field": {
			func(ns string) string { return web(ns, "serviceAccountName: robot, "+container, "") },
			func(ns string) string { return web(ns, container, "") },
			kept{"spec|template|spec|serviceAccountName": nil, "spec|template|spec|serviceAccount": nil},
		},
		"a default that depends on other fields": {
			func(ns string) string { return networkPolicy(ns, "ingress: [{}]") },
			func(ns string) string { return networkPolicy(ns, "ingress: [{}], egress: [{ports: [{port: 53}]}]") },
			kept{"spec|policyTypes": []any{"Ingress", "Egress"}},
		},
		"a default that depends on a value": {
			func(ns string) string { return web(ns, "containers: [{name: web, image: 'x:latest'}]", "") },
			func(ns string) string { return web(ns, container, "") },
			kept{"spec|template|spec|containers|0|imagePullPolicy": "IfNotPresent"},
		},
		"the other branch of a union": {
			func(ns string) string { return web(ns, container, "") },
			func(ns string) string { return web(ns, container, "strategy: {type: Recreate}") },
			kept{"spec|strategy|type": "Recreate", "spec|strategy|rollingUpdate": nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, c.first(ns))
			g.Expect(first.Err).NotTo(HaveOccurred())
			now := prepare(t, manifest(t, c.now(ns)))
			preview, err := applier.Preview(t.Context(), access, now[0])
			g.Expect(err).NotTo(HaveOccurred())
			expectKept(g, preview.After, c.want)

			now[0].UID = first.UID
			out := applier.Run(t.Context(), access, now, nil)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.UID).To(Equal(first.UID))
			g.Expect(out.TakenBack).To(BeEmpty(), "no other client wrote")
			obj := live(t, manifest(t, c.now(ns)))
			expectKept(g, obj, c.want)

			now[0].Same = true
			again := applier.Run(t.Context(), access, now, nil)[0]
			g.Expect(again.Err).NotTo(HaveOccurred())
			g.Expect(again.ResourceVersion).To(Equal(out.ResourceVersion), "nothing is written where nothing differs")
			g.Expect(again.State).To(Equal(out.State))
		})
	}
}

// A Service that another writer created is given other ports: an apply merges them by number, and the names collide.
func TestPortsOfAnotherOwnerAreReplaced(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	obj := manifest(t, serviceWith(ns, "", "{name: http, port: 80}"))
	g.Expect(cluster.Client.Create(t.Context(), obj, client.FieldOwner("someone"))).To(Succeed())
	for range 2 {
		out := run1(t, serviceWith(ns, "", "{name: http, port: 8080}"))
		g.Expect(out.Err).NotTo(HaveOccurred())
		g.Expect(out.UID).To(Equal(obj.GetUID()))
	}
	expectKept(g, live(t, obj), kept{"spec|ports|0|port": 8080, "spec|ports|1": nil})
}

// thingsOf is a definition of a kind with some versions, the last of them stored, and a schema of its spec.
func thingsOf(group, schema string, versions ...string) string {
	text := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  versions:
`, group)
	for i, v := range versions {
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: %s}}}}\n",
			v, i == len(versions)-1, schema)
	}
	return text
}

// thing is an object of such a kind.
func thing(group, version, ns, spec string) string {
	text := "apiVersion: %s/%s\nkind: Thing\nmetadata: {namespace: %s, name: a}\nspec: {%s}\n"
	return fmt.Sprintf(text, group, version, ns, spec)
}

// A record of owners in a version that is not served any longer keeps nothing from being applied.
func TestOwnersOfAVersionThatIsGoneAreForgotten(t *testing.T) {
	g := NewWithT(t)
	const group, schema = "gone.example.com", "{type: object, properties: {a: {type: string}, b: {type: string}}}"
	crd := manifest(t, thingsOf(group, schema, "v1alpha1", "v1"))
	g.Expect(cluster.Client.Create(t.Context(), crd)).To(Succeed())
	ns := namespace(t)
	old := manifest(t, thing(group, "v1alpha1", ns, "a: '1', b: '1'"))
	g.Eventually(func() error {
		raw, err := old.MarshalJSON()
		if err != nil {
			return err
		}
		patch := client.RawPatch(types.ApplyPatchType, raw)
		return cluster.Client.Patch(t.Context(), old.DeepCopy(), patch, client.FieldOwner("someone"))
	}).Should(Succeed())

	g.Expect(cluster.Client.Status().Patch(t.Context(), crd.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"storedVersions":["v1"]}}`)))).To(Succeed())
	g.Expect(run1(t, thingsOf(group, schema, "v1")).Err).NotTo(HaveOccurred())
	g.Eventually(func() error { return cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old.DeepCopy()) }).
		ShouldNot(Succeed(), "the version is gone")

	now := thing(group, "v1", ns, "a: '2'")
	for range 2 {
		g.Expect(run1(t, now).Err).NotTo(HaveOccurred())
	}
	expectKept(g, live(t, manifest(t, now)), kept{"spec|a": "2", "spec|b": nil})
}

// A webhook for conversions goes, although another controller has put its CA bundle there.
func TestConversionWebhookWithAnInjectedBundleGoes(t *testing.T) {
	g := NewWithT(t)
	certificate := base64.StdEncoding.EncodeToString(cluster.RESTConfig().CAData)
	const group, schema = "converted.example.com", "{type: object, properties: {a: {type: string}}}"
	plain := thingsOf(group, schema, "v1")
	first := plain + `  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: default, name: converter}}}
`
	g.Expect(run1(t, first).Err).NotTo(HaveOccurred())
	crd := manifest(t, plain)
	change(t, crd, "injector", `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"`+certificate+`"}}}}}`)
	g.Expect(run1(t, first).Err).NotTo(HaveOccurred())
	g.Expect(find(live(t, crd).Object, "spec|conversion|webhook|clientConfig|caBundle")).To(Equal(certificate))
	for range 2 {
		g.Expect(run1(t, plain).Err).NotTo(HaveOccurred())
	}
	expectKept(g, live(t, crd), kept{"spec|conversion|strategy": "None", "spec|conversion|webhook": nil})
}

// A changed object is updated before it is applied, unless nothing is in it but what we own: then an apply is enough.
func TestChangesAreUpdatesOnlyWhereAnApplyIsNotEnough(t *testing.T) {
	role := func(ns, verbs string) string {
		return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: %s, name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [%s]}]
`, ns, verbs)
	}
	const container = "containers: [{name: web, image: 'x:1'}]"
	for name, c := range map[string]struct {
		first, now func(ns string) string
		updates    int32
	}{
		"a value": {
			first: func(ns string) string { return configMap(ns, "cm", "a") },
			now:   func(ns string) string { return configMap(ns, "cm", "b") },
		},
		"a field is gone": {
			first: func(ns string) string { return configMap(ns, "cm", "a") + "immutable: false\n" },
			now:   func(ns string) string { return configMap(ns, "cm", "a") },
		},
		"a list that is replaced as a whole": {
			first: func(ns string) string { return role(ns, "get, list") },
			now:   func(ns string) string { return role(ns, "get") },
		},
		"an object with defaults": {
			first:   func(ns string) string { return web(ns, container, "") },
			now:     func(ns string) string { return web(ns, container, "paused: true") },
			updates: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, c.first(ns))
			g.Expect(first.Err).NotTo(HaveOccurred())
			counted := &limited{}
			now := prepare(t, manifest(t, c.now(ns)))
			now[0].UID = first.UID
			out := applier.Run(t.Context(), counted.target(t), now, nil)[0]
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(counted.updates.Load()).To(Equal(c.updates))
			g.Expect(out.ResourceVersion).NotTo(Equal(first.ResourceVersion))
			for _, field := range []string{"data", "rules"} {
				if want, ok := now[0].Object.Object[field]; ok {
					g.Expect(live(t, now[0].Object).Object).To(HaveKeyWithValue(field, want))
				}
			}
		})
	}
}

// Fields that an update of ours owns are not removed by the next apply alone. They are not reported as drift by another
// client.
func TestFieldsOfFormerUpdatesGoWithTheManifest(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := func(data string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: cm}\ndata: {%s}\n", ns, data)
	}
	uid := types.UID("")
	apply := func(data string) {
		t.Helper()
		in := prepare(t, manifest(t, text(data)))
		in[0].UID = uid
		out := applier.Run(t.Context(), access, in, nil)[0]
		g.Expect(out.Err).NotTo(HaveOccurred())
		for _, f := range out.TakenBack {
			g.Expect(f.Manager).To(Equal("someone"))
		}
		uid = out.UID
	}
	apply("a: '1', b: '1'")
	obj := live(t, manifest(t, text("")))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"c":"1"}}`))
	g.Expect(cluster.Client.Patch(t.Context(), obj, patch, client.FieldOwner("someone"))).To(Succeed())
	apply("a: '2', b: '1'")
	apply("b: '1'")
	g.Expect(live(t, obj).Object["data"]).To(Equal(map[string]any{"b": "1"}))
}
