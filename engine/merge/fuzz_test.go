package merge_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/engine/merge"
)

// FuzzMerge merges whatever two objects: nothing panics, merging the result again changes nothing, and what no rule
// keeps is as the manifest says.
func FuzzMerge(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"NodePort","ports":[{"port":80},{"port":81,"name":"x"}]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","uid":"u"},"spec":{"type":"LoadBalancer","clusterIP":"10.0.0.1","ports":[{"port":80,"nodePort":30000}]}}`},
		{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"resources.gardener.cloud/preserve-resources":"true"}},"spec":{"template":{"spec":{"containers":[{"name":"a"},null,3]}}}}`,
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"uid":"u","labels":{"a":"b"}},"spec":{"replicas":3,"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"1"}}}]}}}}`},
		{`{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"volumeClaimTemplates":[{}]}}`, `{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"volumeClaimTemplates":[{"metadata":{"name":"a"}}]}}`},
		{`{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{}}}`, `{"apiVersion":"batch/v1","kind":"Job","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}}}`},
		{`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":[]}}}}`, `{"apiVersion":"batch/v1","kind":"CronJob","spec":"text"}`},
		{`{"apiVersion":"v1","kind":"ServiceAccount","secrets":[{"name":"a"}]}`, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"finalizers":["a"]}}`},
		{`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token"}`, `{"apiVersion":"v1","kind":"Secret","data":{"token":"x"}}`},
		{`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","webhooks":[{"name":"a","clientConfig":{}}]}`,
			`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","webhooks":[{"name":"a","clientConfig":{"caBundle":"x"}}]}`},
		{`{"kind":"0"}`, `{"kind":"0","metadata":{"ownerReferences":null}}`},
		{`{"kind":"0"}`, `{"kind":"0","metadata":{"labels":{}}}`},
		{`{"apiVersion":"v1","kind":"Node"}`, `{"apiVersion":"v1","kind":"Node","spec":{"podCIDR":"10.0.0.0/24"}}`},
		{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"a":1},"annotations":[]},"data":{"a":"b"}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":"text"}`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]), true, false)
		f.Add([]byte(pair[0]), []byte(pair[1]), false, true)
	}
	f.Fuzz(func(t *testing.T, desiredText, liveText []byte, autoscaled, force bool) {
		g := NewWithT(t)
		desired, live := parsed(desiredText), parsed(liveText)
		if desired == nil || live == nil {
			return
		}
		options := merge.Options{Autoscaled: autoscaled, ForceLabels: force, ForceAnnotations: force, BaseLabels: live.GetLabels(), BaseAnnotations: live.GetAnnotations()}
		before := string(encoded(desired))
		_ = merge.NeedsLive(desired, options, true)
		_ = merge.Passing(desired)
		body := desired.DeepCopy()
		_ = merge.Keep(body, live, fieldpath.NewSet(), options)

		once, err := merge.Object(desired, live, options)
		g.Expect(string(encoded(desired))).To(Equal(before), "the manifest is not changed")
		if err != nil {
			return
		}
		twice, err := merge.Object(desired, once, options)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(encoded(twice))).To(Equal(string(encoded(once))))
		for field, v := range desired.Object { // of fields at the top, only these can be anything else
			switch field {
			case "metadata", "status", "spec", "secrets", "imagePullSecrets", "data", "rules", "webhooks":
			default:
				g.Expect(once.Object[field]).To(Equal(v))
			}
		}
		for k, v := range desired.GetLabels() {
			g.Expect(once.GetLabels()).To(HaveKeyWithValue(k, v))
		}
	})
}

func parsed(text []byte) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(text); err != nil {
		return nil
	}
	return obj
}

func encoded(obj *unstructured.Unstructured) []byte {
	raw, err := json.Marshal(obj.Object)
	if err != nil {
		panic(err)
	}
	return raw
}
