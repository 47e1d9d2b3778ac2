package v1alpha1_test

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	. "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// asGardenerWritesIt has every field of the API, in the form in which Gardener's producers and resource manager write
// it.
const asGardenerWritesIt = `{
  "apiVersion": "resources.gardener.cloud/v1alpha1",
  "kind": "ManagedResource",
  "metadata": {
    "name": "extension-networking",
    "namespace": "shoot--foo--bar",
    "labels": {"origin": "networking"},
    "finalizers": ["resources.gardener.cloud/gardener-resource-manager"]
  },
  "spec": {
    "class": "seed",
    "secretRefs": [{"name": "managedresource-extension-networking-1a2b3c4d"}, {}],
    "injectLabels": {"shoot.gardener.cloud/no-cleanup": "true"},
    "forceOverwriteLabels": true,
    "forceOverwriteAnnotations": false,
    "keepObjects": true,
    "equivalences": [[{"group": "apps", "kind": "Deployment"}, {"group": "extensions", "kind": "Deployment"}]],
    "deletePersistentVolumeClaims": false
  },
  "status": {
    "conditions": [{
      "type": "ResourcesApplied", "status": "Progressing", "reason": "DeletionPending", "message": "m",
      "lastTransitionTime": "2026-03-01T12:00:00Z", "lastUpdateTime": "2026-03-01T12:30:00Z", "codes": ["ERR_CONFIGURATION_PROBLEM"]
    }],
    "observedGeneration": 3,
    "resources": [{
      "apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "kube-system",
      "labels": {"a": "b"}, "annotations": {"c": "d"}
    }],
    "secretsDataChecksum": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
  }
}`

func TestManagedResourceOfGardenerRoundTrips(t *testing.T) {
	g := NewWithT(t)

	mr := &ManagedResource{}
	g.Expect(json.Unmarshal([]byte(asGardenerWritesIt), mr)).To(Succeed())
	written, err := json.Marshal(mr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(written).To(MatchJSON(asGardenerWritesIt))
}

func TestNoSecretRefsAreWrittenAsAnEmptyList(t *testing.T) {
	g := NewWithT(t)
	mr := &ManagedResource{}
	g.Expect(json.Unmarshal([]byte(`{"spec": {"secretRefs": []}}`), mr)).To(Succeed())
	written, err := json.Marshal(mr)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(written)).To(ContainSubstring(`"spec":{"secretRefs":[]}`))
}

func TestAddToScheme(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(AddToScheme(scheme)).To(Succeed())
	g.Expect(scheme.Recognizes(GroupVersion.WithKind("ManagedResource"))).To(BeTrue())
	g.Expect(scheme.Recognizes(GroupVersion.WithKind("ManagedResourceList"))).To(BeTrue())
}
