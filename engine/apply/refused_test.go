package apply_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Maps that are empty, and keys with nothing behind them, are applied as they are created and updated.
func TestEmptyMapsAndNullsOfCustomResources(t *testing.T) {
	g := NewWithT(t)
	const group = "empty.example.com"
	const schema = "{type: object, properties: {size: {type: integer}, " +
		"csi: {type: object, properties: {cephfs: {type: object, properties: {a: {type: string}}}}}, " +
		"strategy: {type: object, properties: {type: {type: string}}}, " +
		"rules: {type: object, properties: {alert: {type: object, properties: {a: {type: string}, b: {type: integer}}}}}, " +
		"maybe: {type: string, nullable: true}}}"
	g.Expect(run1(t, thingsOf(group, schema, "v1")).Err).NotTo(HaveOccurred())
	for name, c := range map[string]struct {
		first, others, now string
		want               map[string]any
	}{
		"a null at the first apply": {now: "size: 1, csi: {cephfs: }", want: map[string]any{"size": int64(1), "csi": map[string]any{}}},
		"a null in the place of an object": {
			first: "csi: {cephfs: {a: x}}", now: "csi: {cephfs: }", want: map[string]any{"csi": map[string]any{}},
		},
		"a null that may be": {now: "maybe: ", want: map[string]any{"maybe": nil}},
		"an empty map whose field another client set": {
			first: "strategy: {}", others: `{"spec":{"strategy":{"type":"None"}}}`, now: "strategy: {}",
			want: map[string]any{"strategy": map[string]any{}},
		},
		"an empty map that had a field": {
			first: "rules: {alert: {a: x}}", now: "rules: {alert: {}}",
			want: map[string]any{"rules": map[string]any{"alert": map[string]any{}}},
		},
		"an empty map whose parent had another field": {
			first: "rules: {alert: {b: 1}}", others: `{"spec":{"rules":{"alert":{"a":"y"}}}}`, now: "rules: {alert: {}}",
			want: map[string]any{"rules": map[string]any{"alert": map[string]any{}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			now := manifest(t, thing(group, "v1", ns, c.now))
			if c.first != "" {
				g.Eventually(func() error { return run1(t, thing(group, "v1", ns, c.first)).Err }).Should(Succeed())
			}
			if c.others != "" {
				change(t, now, "someone", c.others)
			}
			g.Eventually(func() error { return run1(t, thing(group, "v1", ns, c.now)).Err }).Should(Succeed())
			g.Expect(live(t, now).Object["spec"]).To(Equal(c.want))
			again := run1(t, thing(group, "v1", ns, c.now))
			g.Expect(again.Err).NotTo(HaveOccurred())
			g.Expect(again.ResourceVersion).To(Equal(live(t, now).GetResourceVersion()))
			g.Expect(live(t, now).Object["spec"]).To(Equal(c.want))
		})
	}
}

// While a policy refuses a correction, managedFields must keep the other client as the owner of its values: by that the
// hub knows later that the object is still to be corrected.
func TestOwnershipIsNotTakenWhileTheContentIsRefused(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := configMap(ns, "a", "1")
	first := run1(t, text)
	g.Expect(first.Err).NotTo(HaveOccurred())
	obj := manifest(t, text)
	change(t, obj, "someone", `{"data":{"key":"wrong","more":"wrong"}}`)

	policy := manifest(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [UPDATE]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
  validations: [{expression: "object.data == oldObject.data", message: "content is frozen"}]
`, ns))
	binding := manifest(t, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, ns))
	for _, o := range []client.Object{policy, binding} {
		g.Expect(cluster.Client.Create(t.Context(), o)).To(Succeed())
	}
	g.Eventually(func() error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"key":"probe"}}`))
		return cluster.Client.Patch(t.Context(), obj.DeepCopy(), patch, client.DryRunAll)
	}).Should(MatchError(ContainSubstring("content is frozen")))

	before := live(t, obj)
	for range 2 {
		g.Expect(run1(t, text).Err).To(MatchError(ContainSubstring("content is frozen")))
		g.Expect(live(t, obj).GetManagedFields()).To(Equal(before.GetManagedFields()))
	}
	g.Expect(cluster.Client.Delete(t.Context(), binding)).To(Succeed())
	g.Expect(cluster.Client.Delete(t.Context(), policy)).To(Succeed())
	g.Eventually(func() error { return run1(t, text).Err }).Should(Succeed())
	g.Expect(live(t, obj).Object["data"]).To(Equal(map[string]any{"key": "1"}))
}

// An immutable object that was replaced by hand is replaced again, as one that is not immutable is overwritten.
func TestMR16ImmutableObjectReplacedByHandIsReplaced(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := immutableMap(ns, "", "1")
	first := run1(t, text)
	g.Expect(first.Err).NotTo(HaveOccurred())
	obj := manifest(t, text)
	g.Expect(cluster.Client.Delete(t.Context(), obj.DeepCopy())).To(Succeed())
	theirs := manifest(t, immutableMap(ns, "", "2"))
	g.Expect(cluster.Client.Create(t.Context(), theirs)).To(Succeed())

	in := prepare(t, obj)
	stranger := applier.Run(t.Context(), access, in, nil)[0]
	g.Expect(stranger.Err).To(MatchError(ContainSubstring("not known to be ours")), "of an object that was never applied")
	in[0].UID = first.UID
	out := applier.Run(t.Context(), access, in, nil)[0]
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(out.Recreated).To(BeTrue())
	g.Expect(live(t, obj).Object["data"]).To(Equal(map[string]any{"key": "1"}))

	t.Run("unless it says that it belongs to another ManagedResource", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(cluster.Client.Delete(t.Context(), obj.DeepCopy())).To(Succeed())
		theirs := manifest(t, immutableMap(ns, "resources.gardener.cloud/origin: other/mr", "2"))
		g.Expect(cluster.Client.Create(t.Context(), theirs)).To(Succeed())
		in[0].UID = out.UID
		g.Expect(applier.Run(t.Context(), access, in, nil)[0].Err).To(MatchError(ContainSubstring("not known to be ours")))
		g.Expect(live(t, obj).GetUID()).To(Equal(theirs.GetUID()))
	})
}

// A caBundle that another client added is removed when insecureSkipTLSVerify, which excludes it, is set again.
func TestBundleOfAnInsecureAPIGoes(t *testing.T) {
	g := NewWithT(t)
	text := `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.insecure.example.com}
spec:
  group: insecure.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: default, name: backend}
`
	g.Expect(run1(t, text).Err).NotTo(HaveOccurred())
	obj := manifest(t, text)
	t.Cleanup(func() { _ = cluster.Client.Delete(context.WithoutCancel(t.Context()), obj) })
	change(t, obj, "someone", `{"spec":{"insecureSkipTLSVerify":false,"caBundle":"Zm9v"}}`)
	for range 2 {
		g.Expect(run1(t, text).Err).NotTo(HaveOccurred())
	}
	expectKept(g, live(t, obj), kept{"spec|insecureSkipTLSVerify": true, "spec|caBundle": nil})
}
