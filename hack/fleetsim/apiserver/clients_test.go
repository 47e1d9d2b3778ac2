package apiserver_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

func pemOf(h *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
}

func TestTheTypedClientWorks(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	s := start(t, apiserver.Options{UID: "6ba7b810-9dad-11d1-80b4-00c04fd430c8"})
	c := kubernetes.NewForConfigOrDie(s.config)

	system, err := c.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(system.UID).To(BeEquivalentTo("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))

	maps := c.CoreV1().ConfigMaps("default")
	created, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(created.Name).To(HavePrefix("x-"))
	created.Data["a"] = "2"
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(updated.UID).To(Equal(created.UID))
	g.Expect(updated.ResourceVersion).NotTo(Equal(created.ResourceVersion))
	_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
	g.Expect(err).To(Satisfy(beReason(metav1.StatusReasonConflict)))
	patched, err := maps.Patch(ctx, created.Name, types.StrategicMergePatchType, []byte(`{"data":{"b":"3"}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patched.Data).To(Equal(map[string]string{"a": "2", "b": "3"}))
	_, err = maps.Apply(ctx, applycorev1.ConfigMap(created.Name, "default").WithData(map[string]string{"a": "9"}), metav1.ApplyOptions{FieldManager: "other"})
	g.Expect(err).To(Satisfy(beReason(metav1.StatusReasonConflict)))
	applied, err := maps.Apply(ctx, applycorev1.ConfigMap(created.Name, "default").WithData(map[string]string{"a": "9"}), metav1.ApplyOptions{FieldManager: "other", Force: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(applied.Data).To(Equal(map[string]string{"a": "9", "b": "3"}))
	g.Expect(maps.Delete(ctx, created.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")})).To(Satisfy(beReason(metav1.StatusReasonConflict)))
	g.Expect(maps.Delete(ctx, created.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(created.UID))})).To(Succeed())
	_, err = maps.Get(ctx, created.Name, metav1.GetOptions{})
	g.Expect(err).To(Satisfy(beReason(metav1.StatusReasonNotFound)))
}

func deployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}},
	}
}

func TestSubresourcesWork(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	s := start(t, apiserver.Options{})
	c := kubernetes.NewForConfigOrDie(s.config)
	deployments := c.AppsV1().Deployments("default")
	d, err := deployments.Create(ctx, deployment("web"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	d.Status.Replicas, d.Spec.Paused = 7, true
	d, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.Status.Replicas).To(BeEquivalentTo(7))
	g.Expect(d.Spec.Paused).To(BeFalse())
	g.Expect(d.Generation).To(BeEquivalentTo(1))
}

func TestReviewsAndTokensWork(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var asked []any
	s := start(t, apiserver.Options{
		IssueToken: func(namespace, name string, uid types.UID, seconds int64) (string, time.Time, error) {
			asked = []any{namespace, name, uid, seconds}
			return "secret", expires, nil
		},
	})
	c := kubernetes.NewForConfigOrDie(s.config)
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(review.Status.UserInfo.Username).To(Equal("system:admin"))
	access, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(access.Status.Allowed).To(BeTrue())
	g.Expect(access.Spec.ResourceAttributes.Resource).To(Equal("pods"))

	accounts := c.CoreV1().ServiceAccounts("default")
	_, err = accounts.CreateToken(ctx, "hub", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).To(Satisfy(beReason(metav1.StatusReasonNotFound)))
	account, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "hub"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	token, err := accounts.CreateToken(ctx, "hub", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(token.Status.Token).To(Equal("secret"))
	g.Expect(token.Status.ExpirationTimestamp.Time).To(BeTemporally("==", expires))
	g.Expect(asked).To(Equal([]any{"default", "hub", account.UID, int64(3600)}))
}

func TestInformersFollow(t *testing.T) {
	for name, informer := range map[string]func(g *WithT, s *simulator, stop <-chan struct{}) cache.Store{
		"typed": func(_ *WithT, s *simulator, stop <-chan struct{}) cache.Store {
			factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(s.config), 0)
			store := factory.Core().V1().ConfigMaps().Informer().GetStore()
			factory.Start(stop)
			factory.WaitForCacheSync(stop)
			return store
		},
		"dynamic": func(_ *WithT, s *simulator, stop <-chan struct{}) cache.Store {
			factory := dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(s.config), 0)
			store := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer().GetStore()
			factory.Start(stop)
			factory.WaitForCacheSync(stop)
			return store
		},
		"metadata": func(_ *WithT, s *simulator, stop <-chan struct{}) cache.Store {
			factory := metadatainformer.NewSharedInformerFactory(metadata.NewForConfigOrDie(s.config), 0)
			store := factory.ForResource(corev1.SchemeGroupVersion.WithResource("configmaps")).Informer().GetStore()
			factory.Start(stop)
			factory.WaitForCacheSync(stop)
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), context.Background()
			s := start(t, apiserver.Options{})
			maps := kubernetes.NewForConfigOrDie(s.config).CoreV1().ConfigMaps("default")
			for _, name := range []string{"one", "two"} {
				_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
			stop := make(chan struct{})
			defer close(stop)
			store := informer(g, s, stop)
			g.Expect(store.ListKeys()).To(ConsistOf("default/one", "default/two"))
			version := func(key string) string {
				o, ok, err := store.GetByKey(key)
				if err != nil || !ok {
					return ""
				}
				m, ok := o.(metav1.Object)
				if !ok {
					return ""
				}
				return m.GetResourceVersion()
			}
			change := func(name string) {
				changed, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"at":"`+time.Now().String()+`"}}`), metav1.PatchOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Eventually(version, patience, shortly).WithArguments("default/" + name).Should(Equal(changed.ResourceVersion))
			}
			change("one")
			s.EndWatches()
			change("two")
			s.Compact()
			g.Expect(maps.Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
			g.Eventually(store.ListKeys, patience, shortly).Should(ConsistOf("default/two"))
		})
	}
}

func TestTheMetadataClientWorks(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	s := start(t, apiserver.Options{})
	_, err := kubernetes.NewForConfigOrDie(s.config).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	c := metadata.NewForConfigOrDie(s.config).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("default")
	list, err := c.List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Items).To(HaveLen(1))
	g.Expect(list.Items[0].GroupVersionKind()).To(Equal(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")))
	patched, err := c.Patch(ctx, "x", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patched.Labels).To(Equal(map[string]string{"a": "b"}))
}

// A client of metadata would take JSON just as well, and never say that it got no messages.
func TestMetadataIsWrittenInProtobuf(t *testing.T) {
	const asked = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	g, ctx := NewWithT(t), context.Background()
	s := start(t, apiserver.Options{})
	_, err := kubernetes.NewForConfigOrDie(s.config).CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for path, want := range map[string]struct {
		code int
		kind string
	}{
		cms + "/x": {http.StatusOK, "application/vnd.kubernetes.protobuf"},
		cms + "?watch=1&resourceVersion=0&timeoutSeconds=1": {http.StatusOK, "application/vnd.kubernetes.protobuf;stream=watch"},
		cms:                {http.StatusNotAcceptable, "application/json"}, // a list is not the metadata of one object
		cms + "/not-there": {http.StatusNotFound, "application/json"},
	} {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
		g.Expect(err).NotTo(HaveOccurred())
		r.Header.Set("Accept", asked)
		response, err := s.client.Do(r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(want.code), path)
		g.Expect(response.Header.Get("Content-Type")).To(Equal(want.kind), path)
		g.Expect(response.Body.Close()).To(Succeed())
	}
}

func TestDiscoveryClientsWork(t *testing.T) {
	for name, legacy := range map[string]bool{"aggregated": false, "piece by piece": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := start(t, apiserver.Options{Version: "v1.35.1"})
			d := discovery.NewDiscoveryClientForConfigOrDie(s.config)
			d.UseLegacyDiscovery = legacy
			version, err := d.ServerVersion()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(version.GitVersion).To(Equal("v1.35.1"))
			g.Expect(version.Minor).To(Equal("35"))
			groups, err := restmapper.GetAPIGroupResources(d)
			g.Expect(err).NotTo(HaveOccurred())
			mapper := restmapper.NewDiscoveryRESTMapper(groups)
			mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(mapping.Resource).To(Equal(appsv1.SchemeGroupVersion.WithResource("deployments")))

			s.FailDiscovery(appsv1.SchemeGroupVersion)
			_, err = discovery.ServerPreferredResources(d)
			g.Expect(discovery.IsGroupDiscoveryFailedError(err)).To(BeTrue(), "%v", err)
			s.FailDiscovery()
			_, err = discovery.ServerPreferredResources(d)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestControllerRuntimesClientWorks(t *testing.T) {
	g, ctx := NewWithT(t), context.Background()
	s := start(t, apiserver.Options{})
	scheme := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(s.config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, StringData: map[string]string{"a": "b"}}
	g.Expect(c.Create(ctx, secret)).To(Succeed())
	g.Expect(secret.Data).To(HaveKeyWithValue("a", []byte("b")))

	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "x"}, "data": map[string]any{"a": "b"},
	}}
	g.Expect(c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("hub"))).To(Succeed())
	list := &corev1.ConfigMapList{}
	g.Expect(c.List(ctx, list, client.InNamespace("default"), client.MatchingFields{"metadata.name": "x"})).To(Succeed())
	g.Expect(list.Items).To(HaveLen(1))
	g.Expect(c.Delete(ctx, &list.Items[0], client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
	g.Eventually(func() error { return c.Get(ctx, client.ObjectKeyFromObject(&list.Items[0]), &corev1.ConfigMap{}) }, patience, shortly).
		Should(Satisfy(beReason(metav1.StatusReasonNotFound)))
	g.Expect(c.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace("default"))).To(Succeed())
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Satisfy(beReason(metav1.StatusReasonNotFound)))
}

func TestBodiesInProtobufAreReadForBuiltInKinds(t *testing.T) {
	g := NewWithT(t)
	s := start(t, apiserver.Options{})
	const protobuf = "application/vnd.kubernetes.protobuf"
	send := func(method, path string, version schema.GroupVersion, o runtime.Object) (code int, text string) {
		info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
		g.Expect(ok).To(BeTrue())
		body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, version), o)
		g.Expect(err).NotTo(HaveOccurred())
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", protobuf)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	x := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": "one"}}
	code, text := send("POST", cms, corev1.SchemeGroupVersion, x)
	g.Expect(code).To(Equal(http.StatusCreated), text)
	x.Data["a"] = "two"
	code, text = send("PUT", cms+"/x", corev1.SchemeGroupVersion, x)
	g.Expect(code).To(Equal(http.StatusOK), text)
	g.Expect(s.send(g, "GET", cms+"/x", "").at("data")).To(Equal(map[string]any{"a": "two"}))

	uid := types.UID("6ba7b810-9dad-11d1-80b4-00c04fd430c8") // of another one
	code, text = send("DELETE", cms+"/x", corev1.SchemeGroupVersion, metav1.NewPreconditionDeleteOptions(string(uid)))
	g.Expect(code).To(Equal(http.StatusConflict), text)
	code, text = send("DELETE", cms+"/x", corev1.SchemeGroupVersion, &metav1.DeleteOptions{})
	g.Expect(code).To(Equal(http.StatusOK), text)
	g.Expect(s.send(g, "GET", cms+"/x", "").code).To(Equal(http.StatusNotFound))

	g.Expect(s.send(g, "POST", crds, crd).code).To(Equal(http.StatusCreated))
	g.Eventually(func() int { return s.send(g, "GET", things, "").code }, patience, shortly).Should(Equal(http.StatusOK))
	code, text = send("POST", things, corev1.SchemeGroupVersion, x)
	g.Expect(code).To(Equal(http.StatusUnsupportedMediaType), text)
}
