package clustercache

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadataclient "k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is a CRD.
func definition(kind schema.GroupVersionKind, plural, scope string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + kind.Group},
		"spec": map[string]any{"group": kind.Group, "scope": scope, "names": map[string]any{"plural": plural, "kind": kind.Kind},
			"versions": []any{map[string]any{"name": kind.Version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}}},
	}}
}

func TestRealCRDThatComesBackWithAnotherScope(t *testing.T) {
	cp := realCluster(t)
	scopes := map[string]meta.RESTScopeName{"Namespaced": meta.RESTScopeNameNamespace, "Cluster": meta.RESTScopeNameRoot}
	for from, to := range map[string]string{"Namespaced": "Cluster", "Cluster": "Namespaced"} {
		t.Run("from "+from, func(t *testing.T) {
			h := start(t, patiently())
			ctx := t.Context()
			admin, namespace := realNamespace(t, cp)
			key := h.register("scope", cp.Kubeconfig())
			h.expectState(key, StateConnected)
			kind := schema.GroupVersionKind{Group: namespace + ".example.com", Version: "v1", Kind: "Gadget"}
			// write creates an object and patches its metadata, with the mapper and clients looked up for each call, as
			// consumers do.
			write := func(scope meta.RESTScopeName, name string) error {
				target, err := h.cache.GetUncachedClient(ctx, key)
				h.Expect(err).NotTo(HaveOccurred())
				metadata, err := h.cache.GetMetadataClient(ctx, key)
				h.Expect(err).NotTo(HaveOccurred())
				mapper, err := h.cache.GetRESTMapper(ctx, key)
				h.Expect(err).NotTo(HaveOccurred())
				mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
				if err != nil {
					return err
				}
				gadget := &unstructured.Unstructured{}
				gadget.SetGroupVersionKind(kind)
				gadget.SetName(name)
				resource := metadataclient.ResourceInterface(metadata.Resource(mapping.Resource))
				if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
					gadget.SetNamespace(namespace)
					resource = metadata.Resource(mapping.Resource).Namespace(namespace)
				}
				if err := client.IgnoreAlreadyExists(target.Create(ctx, gadget)); err != nil {
					return err
				}
				patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
				if _, err = resource.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					return err
				}
				h.Expect(mapping.Scope.Name()).To(Equal(scope))
				return nil
			}
			crd := definition(kind, "gadgets", from)
			h.Expect(admin.Create(ctx, crd.DeepCopy())).To(Succeed())
			h.Eventually(func() error { return write(scopes[from], "one") }).WithTimeout(2 * patience).Should(Succeed())

			h.Expect(admin.Delete(ctx, crd.DeepCopy())).To(Succeed())
			h.Eventually(func() error { return admin.Create(ctx, definition(kind, "gadgets", to)) }).WithTimeout(2 * patience).Should(Succeed())
			h.Eventually(func() error { return write(scopes[to], "two") }).WithTimeout(4 * patience).Should(Succeed())
		})
	}
}

// An object that is not there is the usual case, and says nothing about its kind.
func TestObjectsThatAreNotThereBringNoDiscovery(t *testing.T) {
	cp := realCluster(t)
	h := start(t, patiently())
	key := h.register("absent", cp.Kubeconfig())
	h.expectState(key, StateConnected)
	target, err := h.cache.GetUncachedClient(t.Context(), key)
	h.Expect(err).NotTo(HaveOccurred())
	for range 3 {
		cm := configMap("default", "absent")
		h.Expect(apierrors.IsNotFound(target.Get(t.Context(), client.ObjectKeyFromObject(cm), cm))).To(BeTrue())
		h.Expect(apierrors.IsNotFound(target.Delete(t.Context(), configMap("absent", "absent")))).To(BeTrue())
	}
	again, err := h.cache.GetUncachedClient(t.Context(), key)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(again).To(BeIdenticalTo(target), "what is known of kinds is kept")
}
