package health

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// object parses a live object from YAML as it would come from a cluster, where no more is asked for than Fields.
func object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	text = strings.ReplaceAll(text, "\t", "  ")
	document, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var parsed map[string]any
	NewWithT(t).Expect(json.Unmarshal(document, &parsed)).To(Succeed())
	asked := map[string]any{}
	for _, path := range append([][]string{{"apiVersion"}, {"kind"}, {"metadata"}}, Fields...) {
		if value, found, err := unstructured.NestedFieldNoCopy(parsed, path...); found && err == nil {
			NewWithT(t).Expect(setField(asked, value, path...)).To(Succeed())
		}
	}
	return &unstructured.Unstructured{Object: asked}
}

// Heads of objects in generation 2; a test appends spec and status.
const (
	deployment   = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b, generation: 2}\n"
	statefulSet  = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a, namespace: b, generation: 2}\n"
	daemonSet    = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a, namespace: b, generation: 2}\n"
	replicaSet   = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: b, generation: 2}\n"
	controller   = "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: a, namespace: b, generation: 2}\n"
	job          = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: b}\n"
	pod          = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\n"
	service      = "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: b}\n"
	autoscaler   = "apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: a, namespace: b, generation: 2}\n"
	prometheus   = "apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\nmetadata: {name: a, namespace: b, generation: 2}\n"
	alertmanager = "apiVersion: monitoring.coreos.com/v1\nkind: Alertmanager\nmetadata: {name: a, namespace: b, generation: 2}\n"
	certificate  = "apiVersion: cert.gardener.cloud/v1alpha1\nkind: Certificate\nmetadata: {name: a, namespace: b, generation: 2}\n"
	issuer       = "apiVersion: cert.gardener.cloud/v1alpha1\nkind: Issuer\nmetadata: {name: a, namespace: b, generation: 2}\n"
	custom       = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a, namespace: b, generation: 2}\n"
	crd          = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\n"
)

// isSound reports whether a problem has both a severity and a message, or neither.
func isSound(p Problem) bool { return (p.Severity == Fine) == (p.Message == "") }

// setField sets a field without copying it.
func setField(content map[string]any, value any, path ...string) error {
	parent, _, err := unstructured.NestedFieldNoCopy(content, path[:len(path)-1]...)
	if len(path) == 1 {
		parent, err = content, nil
	}
	if parent == nil && err == nil {
		beneath := map[string]any{}
		parent, err = beneath, setField(content, beneath, path[:len(path)-1]...)
	}
	if fields, isMap := parent.(map[string]any); isMap && err == nil {
		fields[path[len(path)-1]] = value
	}
	return err
}
