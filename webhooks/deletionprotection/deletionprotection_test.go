package deletionprotection_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
)

var target = clustercache.ClusterKey{Namespace: "shoot--foo--a", Name: "a"}

// lister is what a target has.
type lister struct {
	objects   []metav1.PartialObjectMetadata
	err       error
	calls     int
	namespace string
	selector  string
}

func (l *lister) List(
	_ context.Context, key clustercache.ClusterKey, _ schema.GroupVersionKind, namespace string,
	selector labels.Selector,
) ([]metav1.PartialObjectMetadata, error) {
	if key != target {
		return nil, fmt.Errorf("target %s", key)
	}
	l.calls++
	l.namespace, l.selector = namespace, selector.String()
	return l.objects, l.err
}

// named is an object with an annotation; empty: without.
func named(name, confirmation string) metav1.PartialObjectMetadata {
	o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if confirmation != "" {
		o.Annotations = map[string]string{deletionprotection.ConfirmationAnnotation: confirmation}
	}
	return o
}

func raw(object any) runtime.RawExtension {
	document, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: document}
}

var infrastructures = metav1.GroupVersionResource{
	Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "infrastructures",
}

// deletion is a request to delete an object by its name.
func deletion(resource metav1.GroupVersionResource) *admission.Request {
	return &admission.Request{Target: target, AdmissionRequest: &admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Resource: resource, Name: "x", Namespace: "shoot--foo--bar",
		Kind: metav1.GroupVersionKind{Group: resource.Group, Version: resource.Version, Kind: "Kind"},
	}}
}

func handle(t testing.TB, l *lister, r *admission.Request) admission.Response {
	t.Helper()
	response, err := deletionprotection.Webhook(l).Handler.Handle(t.Context(), r)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return response
}

func code(response admission.Response) int {
	if response.Denied == nil {
		return http.StatusOK
	}
	return int(response.Denied.Code)
}

func TestCDP1_OtherOperations(t *testing.T) {
	for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update, admissionv1.Connect} {
		r := deletion(infrastructures)
		r.Operation = operation
		response := handle(t, &lister{}, r)
		NewWithT(t).Expect(response).To(Equal(admission.Response{Message: "the operation is not DELETE"}))
	}
}

// CDP-2, CDP-17
func TestCDP_OtherResources(t *testing.T) {
	for _, resource := range []metav1.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "bastions"},
		{Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: "clusters"},
		{Group: "extensions.gardener.cloud", Version: "v1", Resource: "workers"},
		{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcdcopybackupstasks"},
		{Group: "apiextensions.k8s.io", Version: "v2", Resource: "customresourcedefinitions"},
	} {
		r := deletion(resource)
		r.OldObject = raw(named("x", ""))
		response := handle(t, &lister{}, r)
		NewWithT(t).Expect(response).To(Equal(admission.Response{
			Message: "objects of this resource are not deletion-protected",
		}), resource.Resource)
	}
}

// CDP-3, CDP-4, CDP-5, CDP-6, CDP-7, CDP-8, CDP-9, CDP-10, CDP-11, CDP-12, CDP-13, CDP-14
func TestCDP_EachProtectedResource(t *testing.T) {
	resources := []metav1.GroupVersionResource{
		{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		{Group: "apiextensions.k8s.io", Version: "v1beta1", Resource: "customresourcedefinitions"},
		{Group: "druid.gardener.cloud", Version: "v1alpha1", Resource: "etcds"},
	}
	for _, r := range deletionprotection.Resources() {
		resources = append(resources, metav1.GroupVersionResource{
			Group: "extensions.gardener.cloud", Version: "v1alpha1", Resource: r,
		})
	}
	NewWithT(t).Expect(resources).To(HaveLen(14))
	garbage := runtime.RawExtension{Raw: []byte(`"x"`)}
	yes, no := named("x", "true"), named("x", "")
	tests := []struct {
		name        string
		object, old runtime.RawExtension
		collection  bool
		lister      lister
		code, lists int
	}{
		{name: "CDP-3 old object that cannot be decoded", old: garbage, code: 500},
		{name: "CDP-4 old object, not confirmed", old: raw(no), code: 403},
		{name: "CDP-5 old object, confirmed", old: raw(yes), code: 200},
		{name: "CDP-6 object that cannot be decoded", object: garbage, code: 500},
		{name: "CDP-7 object, not confirmed", object: raw(no), code: 403},
		{name: "CDP-8 object, confirmed", object: raw(yes), code: 200},
		{name: "CDP-9 no object", code: 500},
		{name: "CDP-10 collection that cannot be listed", collection: true, lister: lister{err: errors.New("x")},
			code: 500, lists: 1},
		{name: "CDP-11 collection that does not exist", collection: true,
			lister: lister{err: fmt.Errorf("x: %w",
				apierrors.NewNotFound(schema.GroupResource{}, "x"))}, code: 200, lists: 1},
		{name: "CDP-12 one of a collection is not confirmed", collection: true,
			lister: lister{objects: []metav1.PartialObjectMetadata{yes, no}}, code: 403, lists: 1},
		{name: "CDP-13 all of a collection are", collection: true,
			lister: lister{objects: []metav1.PartialObjectMetadata{yes, yes}}, code: 200, lists: 1},
		{name: "CDP-14 item of a collection, another one is not confirmed", collection: true, old: raw(yes),
			lister: lister{objects: []metav1.PartialObjectMetadata{yes, no}}, code: 403, lists: 1},
		{name: "CDP-14 item of a collection, itself not confirmed", collection: true, old: raw(no), code: 403},
		{name: "CDP-14 item of a collection that cannot be decoded", collection: true, old: garbage,
			lister: lister{objects: []metav1.PartialObjectMetadata{yes}}, code: 200, lists: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, resource := range resources {
				g := NewWithT(t)
				r := deletion(resource)
				r.Object, r.OldObject = test.object, test.old
				if test.collection {
					r.Name = ""
				}
				l := test.lister
				response := handle(t, &l, r)
				g.Expect(code(response)).To(Equal(test.code), resource.Resource)
				g.Expect(l.calls).To(Equal(test.lists), resource.Resource)
				switch {
				case test.code == 403:
					g.Expect(response.Denied.Message).To(And(
						ContainSubstring(deletionprotection.ConfirmationAnnotation), ContainSubstring("annotation to delete")))
				case test.lister.err == nil && test.code == 200:
					g.Expect(response).To(BeZero())
				}
				if l.calls > 0 {
					g.Expect(l.namespace).To(Equal("shoot--foo--bar"))
					if resource.Resource == "customresourcedefinitions" {
						g.Expect(l.selector).To(Equal("gardener.cloud/deletion-protected=true"))
					} else {
						g.Expect(l.selector).To(BeEmpty())
					}
				}
			}
		})
	}
}

func TestCDP16_ValuesOfTheAnnotation(t *testing.T) {
	for value, want := range map[string]int{
		"": 403, "false": 403, "yes": 403, "0": 403, "1": 200, "t": 200, "T": 200, "TRUE": 200, "True": 200,
		"true": 200,
	} {
		r := deletion(infrastructures)
		r.OldObject = raw(named("x", value))
		NewWithT(t).Expect(code(handle(t, &lister{}, r))).To(Equal(want), value)
	}
}

func TestEntries(t *testing.T) {
	g := NewWithT(t)
	w := deletionprotection.Webhook(nil)
	settings := &hubv1alpha1.TargetWebhooks{}
	g.Expect(w.Enabled(settings)).To(BeFalse())
	yes := true
	settings.CRDDeletionProtection = &hubv1alpha1.WebhookOrPolicy{Webhook: hubv1alpha1.Webhook{Enabled: &yes}}
	g.Expect(w.Enabled(settings)).To(BeTrue())
	entries := w.Entries(settings)
	g.Expect(entries).To(HaveLen(2))
	for _, e := range entries {
		g.Expect(e.FailurePolicy).To(BeEquivalentTo("Fail"))
		g.Expect(e.NamespaceSelector).To(BeZero())
		for _, rule := range e.Rules {
			g.Expect(rule.Operations).To(HaveLen(1))
		}
	}
	g.Expect(entries[0].ObjectSelector.MatchLabels).To(
		Equal(map[string]string{"gardener.cloud/deletion-protected": "true"}))
	g.Expect(entries[1].ObjectSelector).To(BeZero())
}

// clients have one target.
type clients struct{ client.Client }

func (c clients) GetUncachedClient(_ context.Context, key clustercache.ClusterKey) (client.Client, error) {
	if key != target {
		return nil, clustercache.ErrClusterUnknown
	}
	return c.Client, nil
}

func TestLists(t *testing.T) {
	g := NewWithT(t)
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	pages := 0
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(
		ctx context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		o := &client.ListOptions{}
		o.ApplyOptions(options)
		_, hasDeadline := ctx.Deadline()
		g.Expect(hasDeadline).To(BeTrue())
		g.Expect(o.Limit).To(BeEquivalentTo(500))
		g.Expect(o.Namespace).To(Equal("n"))
		into, is := list.(*metav1.PartialObjectMetadataList)
		g.Expect(is).To(BeTrue())
		into.Items = make([]metav1.PartialObjectMetadata, 500)
		if pages--; pages > 0 {
			into.Continue = fmt.Sprint(pages)
		}
		return nil
	}}).Build()
	l := deletionprotection.NewLister(clients{c})
	pages = 3
	objects, err := l.List(t.Context(), target, kind, "n", labels.Everything())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(objects).To(HaveLen(1500))
	pages = 1000
	_, err = l.List(t.Context(), target, kind, "n", labels.Everything())
	g.Expect(err).To(MatchError(ContainSubstring("more than 10000")))
	_, err = l.List(t.Context(), clustercache.ClusterKey{Name: "other"}, kind, "n", labels.Everything())
	g.Expect(err).To(MatchError(clustercache.ErrClusterUnknown))
}

func BenchmarkHandler(b *testing.B) {
	r := deletion(infrastructures)
	r.OldObject = raw(named("x", "true"))
	for b.Loop() {
		handle(b, &lister{}, r)
	}
}
