package apply_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/managedresource/apply"
)

// immutableMap is a ConfigMap that cannot be changed.
func immutableMap(ns, annotations, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: a, annotations: {%s}}\nimmutable: true\ndata: {key: %q}\n", ns, annotations, value)
}

// claimed is a StatefulSet that has a field which nobody may change.
func statefulSet(ns, annotations, service string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: %s, name: db, annotations: {%s}}
spec:
  replicas: 1
  serviceName: %s
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: example/db:1}]}
`, ns, annotations, service)
}

const onInvalid = `resources.gardener.cloud/delete-on-invalid-update: "true"`

func TestMR16ImmutableObjectsAreReplaced(t *testing.T) {
	for name, text := range map[string]func(ns, value string) string{
		"a ConfigMap": func(ns, value string) string { return immutableMap(ns, "", value) },
		"a Secret": func(ns, value string) string {
			return "apiVersion: v1\nkind: Secret\nmetadata: {namespace: " + ns + ", name: a}\nimmutable: true\nstringData: {key: " + value + "}\n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, text(ns, "one"))
			g.Expect(first.Err).NotTo(HaveOccurred())
			g.Expect(run1(t, text(ns, "one")).Recreated).To(BeFalse())
			second := run1(t, text(ns, "two"))
			g.Expect(second.Err).NotTo(HaveOccurred())
			g.Expect(second.Recreated).To(BeTrue())
			g.Expect(second.UID).NotTo(Equal(first.UID))
			g.Expect(run1(t, text(ns, "two")).UID).To(Equal(second.UID))
		})
	}
}

func TestMR15InvalidUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		text      func(ns, service string) string
		prepare   func(g *WithT, t *testing.T, ns string)
		in        func(in *apply.Intent)
		recreated bool
		err       string
	}{
		"without the annotation": {
			text: func(ns, s string) string { return statefulSet(ns, "", s) }, err: "is invalid:",
		},
		"with the annotation": {
			text: func(ns, s string) string { return statefulSet(ns, onInvalid, s) }, recreated: true,
		},
		"with a propagation": {
			text: func(ns, s string) string {
				return statefulSet(ns, onInvalid+", resources.gardener.cloud/deletion-propagation-on-invalid-update: Background", s)
			}, recreated: true,
		},
		"with a propagation that leaves the object for others to finish": {
			text: func(ns, s string) string {
				return statefulSet(ns, onInvalid+", resources.gardener.cloud/deletion-propagation-on-invalid-update: Foreground", s)
			}, err: apply.ErrTerminating.Error(),
		},
		"MR36 with a propagation that does not exist": {
			text: func(ns, s string) string {
				return statefulSet(ns, onInvalid+", resources.gardener.cloud/deletion-propagation-on-invalid-update: foreground", s)
			}, err: `has the value "foreground"`,
		},
		"with the annotation on the live object only": {
			text:      func(ns, s string) string { return statefulSet(ns, "", s) },
			prepare:   annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/delete-on-invalid-update":"1"}}}`),
			recreated: true,
		},
		"that is to be kept": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/keep-object":"true"}}}`),
			err:     "keep-object",
		},
		"that somebody else has the origin of": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":"other/mr"}}}`),
			err:     "not known to be ours",
		},
		"that somebody else has the origin of, although the inventory has it": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":"other/mr"}}}`),
			in:      func(in *apply.Intent) { in.UID = live(t, in.Object).GetUID() },
			err:     "not known to be ours",
		},
		"that somebody took our origin from, but the inventory has it": {
			text:      func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare:   annotate(`{"metadata":{"annotations":{"resources.gardener.cloud/origin":null}}}`),
			in:        func(in *apply.Intent) { in.UID = live(t, in.Object).GetUID() },
			recreated: true,
		},
		"with a finalizer": {
			text:    func(ns, s string) string { return statefulSet(ns, onInvalid, s) },
			prepare: annotate(`{"metadata":{"finalizers":["example.com/hold"]}}`),
			err:     apply.ErrTerminating.Error(),
		},
		"whose manifest is invalid for a new object, too": {
			text: func(ns, s string) string {
				if s == "two" {
					return strings.Replace(statefulSet(ns, onInvalid, s), "app: db}}\n    spec", "app: other}}\n    spec", 1)
				}
				return statefulSet(ns, onInvalid, s)
			},
			err: "a new object would be invalid as well",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			first := run1(t, c.text(ns, "one"))
			g.Expect(first.Err).NotTo(HaveOccurred())
			if c.prepare != nil {
				c.prepare(g, t, ns)
			}
			in := prepare(t, manifest(t, c.text(ns, "two")))
			if c.in != nil {
				c.in(&in[0])
			}
			out := applier.Run(t.Context(), access, in, nil)[0]
			g.Expect(out.Recreated).To(Equal(c.recreated || c.err == apply.ErrTerminating.Error()))
			if c.err != "" {
				g.Expect(out.Err).To(MatchError(ContainSubstring(c.err)))
				g.Expect(live(t, in[0].Object).GetUID()).To(Equal(first.UID))
				return
			}
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.UID).NotTo(Equal(first.UID))
		})
	}
}

// annotate changes the StatefulSet of a namespace as somebody else.
func annotate(patch string) func(g *WithT, t *testing.T, ns string) {
	return func(g *WithT, t *testing.T, ns string) {
		obj := live(t, manifest(t, statefulSet(ns, "", "one")))
		g.Expect(cluster.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("someone"))).To(Succeed())
	}
}
