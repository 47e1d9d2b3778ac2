package admission_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/webhooks/admission"
)

// podsOfAllSorts have what types of Kubernetes have: embedded types, types that encode themselves, bytes, maps, lists
// in lists, pointers, fields that are always there and fields that are left out.
var podsOfAllSorts = []string{
	`{}`,
	`{"metadata":null,"spec":null}`,
	`{"metadata":{"name":"a","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a/b":"c"},"future":1},"spec":{
		"volumes":[{"name":"v","secret":{"secretName":"s","items":null}},{"name":"w","emptyDir":{"sizeLimit":"1Gi"}},
			{"name":"p","projected":{"sources":[{"secret":{"name":"x","future":2}},{"configMap":{"name":"y"}}]}}],
		"containers":[{"name":"a","image":"i","args":["1","2"],"ports":[{"containerPort":80},{"containerPort":81,"name":"x"}],
			"resources":{"limits":{"cpu":"1000m","memory":"1Gi"}},"livenessProbe":{"httpGet":{"port":80}},
			"env":[{"name":"A","value":"b"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}],
		"tolerations":[{"operator":"Exists"},{"key":"a","tolerationSeconds":0}],"restartPolicy":"Always"}}`,
	`{"metadata":{"name":"b","creationTimestamp":null,"labels":{},
		"ownerReferences":[{"uid":"u","controller":true}]},"spec":{
		"volumes":[{"name":"w","emptyDir":{"sizeLimit":"1024Mi","medium":"Memory"}},{"name":"v","configMap":{"name":"s"}}],
		"containers":[{"name":"b"},{"name":"a","image":"j","args":["2","1"],"ports":[{"containerPort":81,"name":"x"}],
			"resources":{"limits":{"cpu":"1"}},"livenessProbe":{"httpGet":{"port":"http"}},
			"env":[{"name":"B","valueFrom":null},{"name":"A","value":"c"}]}],
		"ephemeralContainers":[{"name":"e","targetContainerName":"a","command":["x"]}],
		"tolerations":[{"key":"a","tolerationSeconds":1},{"operator":"Exists"}],"terminationGracePeriodSeconds":0}}`,
	`{"spec":{"containers":[],"hostAliases":[{"ip":"1.1.1.1","hostnames":["a"]}],"nodeSelector":{"~":"/"},
		"terminationGracePeriodSeconds":30,"ephemeralContainers":[{"name":"e","command":["x","y"]}],
		"securityContext":{"sysctls":[{"name":"a","value":"b"}],"supplementalGroups":[1,2]},"topologySpreadConstraints":[
		{"topologyKey":"zone","maxSkew":1,"labelSelector":{"matchLabels":{"a":"b"}},"matchLabelKeys":["x","y"]}]}}`,
}

// FuzzPatchOfPods makes one pod of another, whatever is in both.
func FuzzPatchOfPods(f *testing.F) {
	for _, from := range podsOfAllSorts {
		for _, to := range podsOfAllSorts {
			f.Add([]byte(from), []byte(to))
		}
	}
	f.Fuzz(func(t *testing.T, from, to []byte) {
		g := NewWithT(t)
		var before, after, got corev1.Pod
		if json.Unmarshal(from, &map[string]any{}) != nil ||
			sigsjson.UnmarshalCaseSensitivePreserveInts(from, &before) != nil ||
			sigsjson.UnmarshalCaseSensitivePreserveInts(to, &after) != nil {
			return
		}
		patch, err := admission.Patch(from, &before, &after)
		g.Expect(err).NotTo(HaveOccurred())
		if len(patch) > 0 {
			decoded, err := jsonpatch.DecodePatch(patch)
			g.Expect(err).NotTo(HaveOccurred())
			result, err := decoded.Apply(from)
			g.Expect(err).NotTo(HaveOccurred(), string(patch))
			g.Expect(sigsjson.UnmarshalCaseSensitivePreserveInts(result, &got)).To(Succeed())
		} else {
			got = before
		}
		again, err := admission.Patch(to, &got, &after)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(again)).To(BeEmpty(), string(patch))
	})
}

// TestPatchOfPods compares what types make of two pods with what their documents do.
func TestPatchOfPods(t *testing.T) {
	for _, from := range podsOfAllSorts {
		for _, to := range podsOfAllSorts {
			g := NewWithT(t)
			var before, after corev1.Pod
			g.Expect(sigsjson.UnmarshalCaseSensitivePreserveInts([]byte(from), &before)).To(Succeed())
			g.Expect(sigsjson.UnmarshalCaseSensitivePreserveInts([]byte(to), &after)).To(Succeed())
			patch, err := admission.Patch([]byte(from), &before, &after)
			g.Expect(err).NotTo(HaveOccurred())
			encodedBefore, err := json.Marshal(before)
			g.Expect(err).NotTo(HaveOccurred())
			encodedAfter, err := json.Marshal(after)
			g.Expect(err).NotTo(HaveOccurred())
			ofDocuments, err := admission.Patch([]byte(from), json.RawMessage(encodedBefore), json.RawMessage(encodedAfter))
			g.Expect(err).NotTo(HaveOccurred())
			var operations, wanted []any
			if len(patch) > 0 {
				g.Expect(json.Unmarshal(patch, &operations)).To(Succeed())
			}
			if len(ofDocuments) > 0 {
				g.Expect(json.Unmarshal(ofDocuments, &wanted)).To(Succeed())
			}
			g.Expect(len(operations)).To(BeNumerically("<=", len(wanted)), "%s instead of %s", patch, ofDocuments)
		}
	}
}
