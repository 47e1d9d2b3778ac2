package ownership_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/engine/ownership"
)

const manager = "trellis"

type entries []metav1.ManagedFieldsEntry

func (e entries) of(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) entries {
	f := &metav1.FieldsV1{}
	f.SetRawBytes([]byte(fields))
	return append(e, metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: f,
	})
}

func (e entries) ours(fields string) entries {
	return e.of(manager, metav1.ManagedFieldsOperationApply, "", fields)
}
func (e entries) update(fields string) entries {
	return e.of("kubectl", metav1.ManagedFieldsOperationUpdate, "", fields)
}

func object(e entries) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.Labels = map[string]string{"ours": "1", "theirs": "1"}
	o.ManagedFields = e
	return o
}

func TestState(t *testing.T) {
	base := entries{}.ours(`{"f:metadata":{"f:labels":{"f:ours":{}}},"f:spec":{"f:replicas":{}}}`)
	was := ownership.Observe(object(base), manager)
	for name, c := range map[string]struct {
		now     entries
		labels  map[string]string
		drifted bool
	}{
		"nothing changed":                 {now: base},
		"status was written":              {now: base.of("kcm", metav1.ManagedFieldsOperationUpdate, "status", `{"f:status":{"f:replicas":{}}}`)},
		"status without a subresource":    {now: base.update(`{"f:status":{"f:phase":{}}}`)},
		"a label of others":               {now: base.update(`{"f:metadata":{"f:labels":{"f:theirs":{}}}}`)},
		"others own our value as well":    {now: base.update(`{"f:spec":{"f:replicas":{}}}`)},
		"the parent of our value, too":    {now: base.update(`{"f:spec":{".":{},"f:replicas":{}}}`)},
		"a parent of nothing of ours":     {now: base.update(`{"f:spec":{"f:strategy":{".":{}}}}`), drifted: true},
		"payload of others":               {now: base.update(`{"f:spec":{"f:paused":{}}}`), drifted: true},
		"scaled":                          {now: base.of("hpa", metav1.ManagedFieldsOperationUpdate, "scale", `{"f:spec":{"f:minReadySeconds":{}}}`), drifted: true},
		"a field of ours was changed":     {now: entries{}.ours(`{"f:metadata":{"f:labels":{"f:ours":{}}}}`), drifted: true},
		"our label has another value":     {now: base, labels: map[string]string{"ours": "2"}, drifted: true},
		"our entry is gone":               {now: nil, drifted: true},
		"an entry that is unreadable":     {now: base.update(`not JSON`), drifted: true},
		"an apply entry of another hub":   {now: base.of("other", metav1.ManagedFieldsOperationApply, "", `{"f:spec":{"f:x":{}}}`), drifted: true},
		"an update entry of our own name": {now: base.of(manager, metav1.ManagedFieldsOperationUpdate, "", `{"f:spec":{"f:x":{}}}`), drifted: true},
		"our entry is of another write":   {now: retimed(base), drifted: true}, // of other values, before a restore of etcd
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := object(c.now)
			if c.labels != nil {
				o.Labels = c.labels
			}
			if c.drifted {
				g.Expect(ownership.Observe(o, manager)).NotTo(Equal(was))
			} else {
				g.Expect(ownership.Observe(o, manager)).To(Equal(was))
			}
		})
	}
}

func retimed(e entries) entries {
	now := metav1.Now()
	out := append(entries{}, e...)
	out[0].Time = &now
	return out
}

func TestTakeBackLeavesWhatIsExempt(t *testing.T) {
	annotated := func(name string) map[string]any {
		return map[string]any{"annotations": map[string]any{"resources.gardener.cloud/" + name: "true"}}
	}
	manifest := func(apiVersion, kind string, extra map[string]any) *unstructured.Unstructured {
		content := map[string]any{"apiVersion": apiVersion, "kind": kind}
		for k, v := range extra {
			content[k] = v
		}
		return &unstructured.Unstructured{Object: content}
	}
	for name, c := range map[string]struct {
		manifest *unstructured.Unstructured
		own      string
		foreign  string
		taken    bool
		// the replicas of autoscaled objects are set by an autoscaler.
		autoscaled bool
	}{
		"a CA bundle of a webhook": {manifest("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", nil),
			`{"f:webhooks":{"k:{\"name\":\"a\"}":{".":{}}}}`, `{"f:webhooks":{"k:{\"name\":\"a\"}":{"f:clientConfig":{"f:caBundle":{}}}}}`, false, false},
		"the URL of a webhook": {manifest("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", nil),
			`{}`, `{"f:webhooks":{"k:{\"name\":\"a\"}":{"f:clientConfig":{"f:url":{}}}}}`, true, false},
		"the CA bundle of an APIService": {manifest("apiregistration.k8s.io/v1", "APIService", nil), `{}`, `{"f:spec":{"f:caBundle":{}}}`, false, false},
		"the CA bundle of a conversion": {manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", nil),
			`{}`, `{"f:spec":{"f:conversion":{"f:webhook":{"f:clientConfig":{"f:caBundle":{}}}}}}`, false, false},
		"rules of an aggregated role":                       {manifest("rbac.authorization.k8s.io/v1", "ClusterRole", map[string]any{"aggregationRule": map[string]any{}}), `{}`, `{"f:rules":{}}`, false, false},
		"rules of a role whose aggregation rule is nothing": {manifest("rbac.authorization.k8s.io/v1", "ClusterRole", map[string]any{"aggregationRule": nil}), `{}`, `{"f:rules":{}}`, true, false},
		"rules of a plain role":                             {manifest("rbac.authorization.k8s.io/v1", "ClusterRole", nil), `{}`, `{"f:rules":{}}`, true, false},
		"data of a token Secret":                            {manifest("v1", "Secret", map[string]any{"type": "kubernetes.io/service-account-token"}), `{}`, `{"f:data":{"f:token":{}}}`, false, false},
		"data of another Secret":                            {manifest("v1", "Secret", map[string]any{"type": "Opaque"}), `{}`, `{"f:data":{"f:token":{}}}`, true, false},
		"secrets of an account":                             {manifest("v1", "ServiceAccount", nil), `{}`, `{"f:secrets":{".":{},"k:{\"name\":\"a\"}":{}}}`, false, false},
		"the volume of a claim":                             {manifest("v1", "PersistentVolumeClaim", nil), `{}`, `{"f:spec":{"f:volumeName":{}}}`, false, false},
		"the claim of a volume":                             {manifest("v1", "PersistentVolume", nil), `{}`, `{"f:spec":{"f:claimRef":{"f:name":{}}}}`, false, false},
		"the spec of a Node":                                {manifest("v1", "Node", nil), `{}`, `{"f:spec":{"f:podCIDR":{},"f:taints":{}}}`, false, false},
		"the node of a Pod":                                 {manifest("v1", "Pod", nil), `{}`, `{"f:spec":{"f:nodeName":{},"f:tolerations":{}}}`, false, false},
		"the image of a Pod":                                {manifest("v1", "Pod", nil), `{}`, `{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:image":{}}}}}`, true, false},
		"finalizers of a Namespace":                         {manifest("v1", "Namespace", nil), `{}`, `{"f:spec":{"f:finalizers":{}}}`, false, false},
		"a cluster IP":                                      {manifest("v1", "Service", nil), `{}`, `{"f:spec":{"f:clusterIP":{},"f:clusterIPs":{}}}`, false, false},
		"the node port of our port": {manifest("v1", "Service", nil),
			`{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`, `{"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:nodePort":{}}}}}`, false, false},
		"the node port of a foreign port": {manifest("v1", "Service", nil),
			`{}`, `{"f:spec":{"f:ports":{"k:{\"port\":81,\"protocol\":\"TCP\"}":{"f:nodePort":{}}}}}`, true, false},
		"replicas that the manifest leaves out": {manifest("apps/v1", "Deployment", nil), `{}`, `{"f:spec":{"f:replicas":{}}}`, false, false},
		"replicas that the manifest sets": {manifest("apps/v1", "Deployment", map[string]any{"spec": map[string]any{"replicas": int64(1)}}),
			`{}`, `{"f:spec":{"f:replicas":{}}}`, true, false},
		"a restart": {manifest("apps/v1", "Deployment", nil), `{}`,
			`{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`, false, false},
		"another template annotation": {manifest("apps/v1", "Deployment", nil), `{}`,
			`{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:other":{}}}}}}`, true, false},
		"the selector of a Job": {manifest("batch/v1", "Job", nil), `{}`, `{"f:spec":{"f:selector":{}}}`, false, false},
		"replicas that something scales": {manifest("apps/v1", "Deployment", map[string]any{"spec": map[string]any{"replicas": int64(1)}}),
			`{}`, `{"f:spec":{"f:replicas":{}}}`, false, true},
		"replicas that are preserved": {manifest("apps/v1", "StatefulSet", map[string]any{"spec": map[string]any{"replicas": int64(1)}, "metadata": annotated("preserve-replicas")}),
			`{}`, `{"f:spec":{"f:replicas":{}}}`, false, false},
		"preserved CPU of our container": {manifest("apps/v1", "DaemonSet", map[string]any{"metadata": annotated("preserve-resources")}),
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{}}}}}}}`,
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:resources":{".":{},"f:requests":{".":{},"f:cpu":{}},"f:limits":{"f:memory":{}}}}}}}}}`, false, false},
		"other preserved resources": {manifest("apps/v1", "DaemonSet", map[string]any{"metadata": annotated("preserve-resources")}),
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{}}}}}}}`,
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:resources":{"f:requests":{"f:ephemeral-storage":{}}}}}}}}}`, true, false},
		"preserved CPU of a foreign container": {manifest("apps/v1", "DaemonSet", map[string]any{"metadata": annotated("preserve-resources")}),
			`{}`, `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"b\"}":{"f:resources":{"f:requests":{"f:cpu":{}}}}}}}}}`, true, false},
		"CPU without preservation": {manifest("apps/v1", "DaemonSet", nil),
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{".":{}}}}}}}`,
			`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"a\"}":{"f:resources":{"f:requests":{"f:cpu":{}}}}}}}}}`, true, false},
		"claim templates of a StatefulSet": {manifest("apps/v1", "StatefulSet", nil), `{}`, `{"f:spec":{"f:volumeClaimTemplates":{}}}`, false, false},
		"a load balancer's address":        {manifest("v1", "Service", map[string]any{"spec": map[string]any{"type": "LoadBalancer"}}), `{}`, `{"f:spec":{"f:loadBalancerIP":{}}}`, false, false},
		"the same without a load balancer": {manifest("v1", "Service", nil), `{}`, `{"f:spec":{"f:loadBalancerIP":{}}}`, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := object(entries{}.ours(c.own).update(c.foreign))
			exempt := ownership.ExemptFor(c.manifest, c.autoscaled)
			foreign, err := ownership.ForeignPayload(o, manager, exempt)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(foreign).To(HaveLen(map[bool]int{true: 1}[c.taken]))
			after, changed, err := ownership.Read(o, manager).Rewrite("v1", exempt, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(changed).To(Equal(c.taken))
			o.ManagedFields = after
			g.Expect(ownership.ForeignPayload(o, manager, exempt)).To(BeEmpty())
		})
	}
}

func TestTakeBackKeepsTheRest(t *testing.T) {
	g := NewWithT(t)
	o := object(entries{}.
		update(`{"f:metadata":{"f:labels":{"f:theirs":{}}},"f:spec":{"f:paused":{}}}`).
		of("kcm", metav1.ManagedFieldsOperationUpdate, "status", `{"f:status":{"f:replicas":{}}}`))
	after, changed, err := ownership.Read(o, manager).Rewrite("apps/v1", nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed).To(BeTrue())
	g.Expect(after).To(HaveLen(3))
	g.Expect(after[0].Manager).To(Equal(manager))
	g.Expect(after[0].APIVersion).To(Equal("apps/v1"))
	g.Expect(after[0].FieldsV1.GetRawString()).To(MatchJSON(`{"f:spec":{"f:paused":{}}}`))
	g.Expect(after[1].FieldsV1.GetRawString()).To(MatchJSON(`{"f:metadata":{"f:labels":{"f:theirs":{}}}}`))
	g.Expect(after[2].Subresource).To(Equal("status"))
}

func TestLostTo(t *testing.T) {
	g := NewWithT(t)
	intent := map[string]any{"spec": map[string]any{"replicas": int64(1), "paused": true}, "data": map[string]any{"a": "x"}}
	o := object(entries{}.ours(`{"f:spec":{"f:paused":{}},"f:data":{"f:a":{}}}`).
		of("scaler", metav1.ManagedFieldsOperationUpdate, "scale", `{"f:spec":{"f:replicas":{}}}`).
		update(`{"f:spec":{"f:minReadySeconds":{}}}`))
	lost := ownership.LostTo(o, manager, ownership.Fields(intent), nil)
	g.Expect(lost).To(HaveLen(1))
	g.Expect(lost[0].Manager).To(Equal("scaler"))
	g.Expect(lost[0].Paths(5)).To(Equal([]string{".spec.replicas"}))
}

func BenchmarkObserve(b *testing.B) {
	o := benchObject()
	b.ReportAllocs()
	for b.Loop() {
		ownership.Observe(o, manager)
	}
}

func TestStateOfLabelsAndAnnotations(t *testing.T) {
	base := entries{}.ours(`{"f:metadata":{"f:labels":{"f:ours":{}},"f:annotations":{"f:ours":{}}}}`)
	with := func(change func(o *metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
		o := object(base)
		o.Labels, o.Annotations = map[string]string{"ours": "1"}, map[string]string{"ours": "1"}
		change(o)
		return o
	}
	was := ownership.Observe(with(func(*metav1.PartialObjectMetadata) {}), manager)
	for name, c := range map[string]struct {
		change                      func(o *metav1.PartialObjectMetadata)
		always, labels, annotations bool
	}{
		"nothing":                {change: func(*metav1.PartialObjectMetadata) {}},
		"a foreign label":        {change: func(o *metav1.PartialObjectMetadata) { o.Labels["theirs"] = "1" }, labels: true},
		"an empty foreign label": {change: func(o *metav1.PartialObjectMetadata) { o.Labels["theirs"] = "" }, labels: true},
		"a foreign annotation":   {change: func(o *metav1.PartialObjectMetadata) { o.Annotations["theirs"] = "1" }, annotations: true},
		"our label":              {change: func(o *metav1.PartialObjectMetadata) { o.Labels["ours"] = "2" }, always: true},
		"an owner that the hub did not set": {change: func(o *metav1.PartialObjectMetadata) {
			o.OwnerReferences = []metav1.OwnerReference{{Kind: "ConfigMap", Name: "a", UID: "u"}}
		}, always: true},
		"a revision that the controller manager notes": {change: func(o *metav1.PartialObjectMetadata) {
			o.Annotations["revision"] = "2"
			o.ManagedFields = base.of("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status", `{"f:metadata":{"f:annotations":{"f:revision":{}}}}`)
		}},
		"a note of the scheduler": {change: func(o *metav1.PartialObjectMetadata) {
			o.Annotations["node"] = "a"
			o.ManagedFields = base.of("kube-scheduler", metav1.ManagedFieldsOperationUpdate, "", `{"f:metadata":{"f:annotations":{".":{},"f:node":{}}}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			now := ownership.Observe(with(c.change), manager)
			same := func(labels, annotations bool) bool {
				return now.Within(labels, annotations) == was.Within(labels, annotations)
			}
			g.Expect(same(false, false)).To(Equal(!c.always))
			g.Expect(same(true, false)).To(Equal(!c.always && !c.labels))
			g.Expect(same(false, true)).To(Equal(!c.always && !c.annotations))
			g.Expect(same(true, true)).To(Equal(!c.always && !c.labels && !c.annotations))
		})
	}
}

func TestObjectsWithoutManagedFields(t *testing.T) {
	with := func(change func(o *metav1.PartialObjectMetadata)) ownership.State {
		o := object(nil)
		o.Generation, o.ResourceVersion, o.Annotations = 1, "1", map[string]string{"a": "1"}
		change(o)
		return ownership.Observe(o, manager)
	}
	was := with(func(*metav1.PartialObjectMetadata) {})
	for name, c := range map[string]struct {
		now     ownership.State
		drifted bool
	}{
		"a status was written":   {now: with(func(o *metav1.PartialObjectMetadata) { o.ResourceVersion = "2" })},
		"the payload changed":    {now: with(func(o *metav1.PartialObjectMetadata) { o.Generation = 2 }), drifted: true},
		"a label changed":        {now: with(func(o *metav1.PartialObjectMetadata) { o.Labels["ours"] = "2" }), drifted: true},
		"an annotation is there": {now: with(func(o *metav1.PartialObjectMetadata) { o.Annotations["b"] = "1" }), drifted: true},
		"no generation":          {now: with(func(o *metav1.PartialObjectMetadata) { o.Generation = 0 }), drifted: true},
	} {
		t.Run(name, func(t *testing.T) {
			drifted := c.now != was
			NewWithT(t).Expect(drifted).To(Equal(c.drifted))
		})
	}
	t.Run("the resourceVersion counts where there is no generation", func(t *testing.T) {
		version := func(v string) ownership.State {
			return with(func(o *metav1.PartialObjectMetadata) { o.Generation, o.ResourceVersion = 0, v })
		}
		NewWithT(t).Expect(version("1")).NotTo(Equal(version("2")))
	})
}

func TestObjectsThatWereUpdatedByUs(t *testing.T) {
	g := NewWithT(t)
	updated := entries{}.of(manager, metav1.ManagedFieldsOperationUpdate, "", `{"f:metadata":{"f:labels":{"f:ours":{}}},"f:spec":{"f:replicas":{}}}`)
	g.Expect(ownership.ForeignPayload(object(updated), manager, nil)).To(BeEmpty())
	was := ownership.Observe(object(updated), manager)
	g.Expect(was.Own).NotTo(BeZero())
	g.Expect(was.Foreign).To(BeZero())
	relabelled := object(updated)
	relabelled.Labels["ours"] = "2"
	g.Expect(ownership.Observe(relabelled, manager)).NotTo(Equal(was))
	g.Expect(ownership.Observe(object(updated.update(`{"f:spec":{"f:paused":{}}}`)), manager)).NotTo(Equal(was))
}

func TestRewriteTakesFromAllAndLetsGo(t *testing.T) {
	g := NewWithT(t)
	finalizers := "finalizers"
	meta := "metadata"
	o := object(entries{}.ours(`{"f:metadata":{"f:finalizers":{".":{},"v:\"a\"":{}}},"f:spec":{"f:replicas":{}}}`).
		update(`{"f:spec":{"f:paused":{}}}`).of("other", metav1.ManagedFieldsOperationUpdate, "", `{"f:spec":{"f:paused":{}}}`))
	after, changed, err := ownership.Read(o, manager).Rewrite("apps/v1", nil, []fieldpath.Path{{{FieldName: &meta}, {FieldName: &finalizers}}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changed).To(BeTrue())
	g.Expect(after).To(HaveLen(1), "what two own is taken from both")
	g.Expect(after[0].FieldsV1.GetRawString()).To(MatchJSON(`{"f:spec":{"f:replicas":{},"f:paused":{}}}`))
}

// benchObject is a Deployment as it is in a cluster, with what its controller notes on it.
func benchObject() *metav1.PartialObjectMetadata {
	o := object(entries{}.
		ours(`{"f:metadata":{"f:annotations":{"f:resources.gardener.cloud/description":{},"f:resources.gardener.cloud/origin":{}},"f:labels":{"f:app":{},"f:ours":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}}}}}}}}`).
		of("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, "status", `{"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:status":{}}},"f:replicas":{}}}`))
	o.Labels = map[string]string{"app": "web", "ours": "1"}
	o.Annotations = map[string]string{"resources.gardener.cloud/description": "d", "resources.gardener.cloud/origin": "o", "deployment.kubernetes.io/revision": "1"}
	return o
}

// BenchmarkSettle is what an answer to an apply costs: is there anything foreign, and how is the object now.
func BenchmarkSettle(b *testing.B) {
	o := benchObject()
	exempt := ownership.ExemptFor(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}}, false)
	b.ReportAllocs()
	for b.Loop() {
		r := ownership.Read(o, manager)
		if foreign, err := r.Foreign(exempt); err != nil || len(foreign) > 0 {
			b.Fatal(foreign, err)
		}
		r.State()
	}
}

// Fields of the manifest are reverted if another manager takes them, except those whose live value wins.
func TestLostToNamesWritersOfManifestFields(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		field    fieldpath.Path
		kept     bool
	}{
		"caBundle of one webhook of the manifest": {
			`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","webhooks":[{"name":"a"},{"name":"b","clientConfig":{"caBundle":"b3Vycw=="}}]}`,
			fieldpath.MakePathOrDie("webhooks", fieldpath.KeyByFields("name", "b"), "clientConfig", "caBundle"), false,
		},
		"caBundle that a webhook of the manifest leaves empty": {
			`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","webhooks":[{"name":"a"},{"name":"b","clientConfig":{"caBundle":"b3Vycw=="}}]}`,
			fieldpath.MakePathOrDie("webhooks", fieldpath.KeyByFields("name", "a"), "clientConfig", "caBundle"), true,
		},
		"caBundle of the manifest": {
			`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","spec":{"caBundle":"b3Vycw=="}}`, fieldpath.MakePathOrDie("spec", "caBundle"), false,
		},
		"replicas of the manifest": {`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1}}`, fieldpath.MakePathOrDie("spec", "replicas"), false},
		"preserved replicas": {
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"resources.gardener.cloud/preserve-replicas":"true"}},"spec":{"replicas":1}}`,
			fieldpath.MakePathOrDie("spec", "replicas"), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			manifest := &unstructured.Unstructured{}
			g.Expect(manifest.UnmarshalJSON([]byte(c.manifest))).To(Succeed())
			taken, err := fieldpath.NewSet(c.field).ToJSON()
			g.Expect(err).NotTo(HaveOccurred())
			fields := &metav1.FieldsV1{}
			fields.SetRawBytes(taken)
			live := &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", FieldsV1: fields}}}
			lost := ownership.LostTo(live, "trellis", ownership.Fields(manifest.Object), ownership.KeptFor(manifest, false))
			if c.kept {
				g.Expect(lost).To(BeEmpty())
			} else {
				g.Expect(lost).To(HaveLen(1))
			}
		})
	}
}

// Removing a field leaves no owner. Missing fields are found nevertheless, if they are not in a list.
func TestGone(t *testing.T) {
	const text = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a","finalizers":["x"],"labels":{"mine":"1","other":"1"}},
"spec":{"height":3,"colours":["red"],"soil":{"ph":7,"wet":true},"empty":{},"nodeName":"n"},"data":{"a":"1"}}`
	const all = `{"f:metadata":{"f:labels":{"f:mine":{},"f:other":{}}},"f:spec":{"f:height":{},"f:colours":{"v:\"red\"":{}},"f:soil":{"f:ph":{},"f:wet":{}},"f:empty":{},"f:nodeName":{}},"f:data":{"f:a":{}}}`
	for name, c := range map[string]struct {
		now  entries
		gone string
	}{
		"nothing": {entries{}.ours(all), ""},
		"a key":   {entries{}.ours(strings.Replace(all, `,"f:wet":{}`, "", 1)), ".spec.soil.wet"},
		"a map":   {entries{}.ours(strings.Replace(all, `,"f:data":{"f:a":{}}`, "", 1)), ".data.a"},
		"a label": {entries{}.ours(strings.Replace(all, `"f:mine":{},`, "", 1)), ".metadata.labels.mine"},
		"a list":  {entries{}.ours(strings.Replace(all, `,"f:colours":{"v:\"red\"":{}}`, "", 1)), ".spec.colours"},
		"what another took over": {
			entries{}.ours(strings.Replace(all, `"f:height":{},`, "", 1)).update(`{"f:spec":{"f:height":{}}}`), "",
		},
		"what is owned whole":    {entries{}.ours(strings.Replace(all, `"f:soil":{"f:ph":{},"f:wet":{}}`, `"f:soil":{}`, 1)), ""},
		"all that we had, by us": {entries{}.ours(`{"f:metadata":{"f:labels":{"f:mine":{},"f:other":{}}}}`), ".data.a .spec.colours .spec.empty .spec.height .spec.soil.ph .spec.soil.wet"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			intent := map[string]any{}
			g.Expect(json.Unmarshal([]byte(text), &intent)).To(Succeed())
			kept := func(p fieldpath.Path, _ *fieldpath.Set, _ string) bool { return p.String() == ".spec.nodeName" }
			gone := ownership.Read(object(c.now), manager).Gone(ownership.Fields(intent), kept)
			g.Expect(strings.Join(ownership.Foreign{Fields: gone}.Paths(10), " ")).To(Equal(c.gone))
		})
	}
}

// What the state asks of our own entry is read without parsing it, where it is written as API servers write it. With a
// blank before it, it is parsed.
func TestStateIsThatOfTheParsedEntry(t *testing.T) {
	for name, own := range map[string]string{
		"nothing":                 `{}`,
		"labels":                  `{"f:metadata":{"f:labels":{"f:ours":{}}}}`,
		"labels and their parent": `{"f:metadata":{"f:labels":{".":{},"f:ours":{},"f:theirs":{}}}}`,
		"annotations":             `{"f:metadata":{"f:annotations":{"f:a":{},"f:b":{}},"f:labels":{"f:ours":{}}}}`,
		"not in order":            `{"f:metadata":{"f:annotations":{"f:b":{},"f:a":{}}}}`,
		"other metadata":          `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"x\"}":{}},"f:labels":{"f:ours":{}}},"f:spec":{"f:x":{}}}`,
		"payload":                 `{"f:metadata":{"f:labels":{"f:ours":{}}},"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}},"f:args":{"v:\"\\\"}\"":{}},"f:l":{"i:0":{}}}}`,
		"metadata of a template":  `{"f:spec":{"f:template":{"f:metadata":{"f:labels":{"f:ours":{}}}}}}`,
		"a name with an escape":   `{"f:metadata":{"f:labels":{"f:\u006furs":{}}}}`,
		"something under a label": `{"f:metadata":{"f:labels":{"f:ours":{"f:x":{}}}}}`,
		"an unknown element":      `{"f:metadata":{"f:labels":{"x:ours":{},"f:ours":{}}}}`,
		"labels that are a leaf":  `{"f:metadata":{"f:labels":{}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			state := func(own string) ownership.State {
				o := object(entries{}.ours(own).update(`{"f:spec":{"f:args":{},"f:paused":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{"f:port":{},"f:name":{}}}}}`))
				o.Annotations = map[string]string{"a": "1", "b": "2", "c": "3"}
				s := ownership.Observe(o, manager)
				g.Expect(s.Own).NotTo(BeZero())
				s.Own = 0 // it has the text in it
				return s
			}
			g.Expect(state(own)).To(Equal(state(" " + own)))
		})
	}
}

func TestUnreadableEntryOfOursIsIgnored(t *testing.T) {
	for _, text := range []string{``, `[]`, `{`, `{"f:metadata"`, `{"f:metadata":{}`, `{"f:metadata":{"f:labels":{"f:ours":1}}}`, `{"f:spec":{}}}`,
		`{"f:spec":{},}`, `{"f:spec":{"f:x":{}}`, `not JSON`} {
		g := NewWithT(t)
		with, without := ownership.Observe(object(entries{}.ours(text)), manager), ownership.Observe(object(entries{}.ours(`x`)), manager)
		g.Expect(with).To(Equal(without), text)
	}
}
