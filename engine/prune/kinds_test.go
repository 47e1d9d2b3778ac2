package prune_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
	"github.com/trellis-hub/trellis/engine/prune"
)

// pooled is the target with the mapper that the hub uses, and how long that one takes an unknown kind for unknown.
func pooled(t *testing.T, believes time.Duration) prune.Target {
	g := NewWithT(t)
	config := cluster.RESTConfig()
	http, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	target := access
	target.Mapper = mapperpool.New(mapperpool.Options{MinRefresh: believes}).Mapper(context.Background(), config, http, nil)
	return target
}

func create(g *WithT, manifest string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	g.Expect(yaml.Unmarshal([]byte(manifest), &obj.Object)).To(Succeed())
	g.Expect(cluster.Client.Create(context.Background(), obj)).To(Succeed())
	return obj
}

func outcomeOf(t *testing.T, target prune.Target, ref resourcesv1alpha1.ObjectReference) prune.Outcome {
	return prune.Objects(t.Context(), target, []resourcesv1alpha1.ObjectReference{ref}, policy)[0]
}

// A server behind the API server that is down has its objects all the same.
func TestKindOfAServerThatIsDownIsNotGone(t *testing.T) {
	g := NewWithT(t)
	target := pooled(t, time.Second)
	ref := reference("down.example.com/v1", "Thing", "default", "a", "")
	g.Expect(outcomeOf(t, target, ref).Result).To(Equal(prune.Gone))
	service := create(g, `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.down.example.com},
spec: {group: down.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100,
  insecureSkipTLSVerify: true, service: {namespace: default, name: missing}}}`)
	g.Eventually(func() prune.Outcome { return outcomeOf(t, target, ref) }).Should(SatisfyAll(
		HaveField("Result", prune.Pending), HaveField("Err", MatchError(ContainSubstring("down.example.com/v1")))))
	g.Expect(cluster.Client.Delete(t.Context(), service)).To(Succeed())
	g.Eventually(func() prune.Result { return outcomeOf(t, target, ref).Result }).Should(Equal(prune.Gone))
}

// An APIService goes after the objects that are reached through it.
func TestObjectsGoBeforeTheirAPIService(t *testing.T) {
	g := NewWithT(t)
	target := pooled(t, time.Second)
	service := create(g, `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.behind.example.com, annotations: {resources.gardener.cloud/origin: `+origin+`}},
spec: {group: behind.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100,
  insecureSkipTLSVerify: true, service: {namespace: default, name: missing}}}`)
	thing := reference("behind.example.com/v1", "Thing", "default", "a", "uid-of-thing")
	own := reference(service.GetAPIVersion(), service.GetKind(), "", service.GetName(), service.GetUID())
	g.Eventually(func() prune.Result { return outcomeOf(t, target, thing).Result }).Should(Equal(prune.Pending))
	out := prune.Objects(t.Context(), target, []resourcesv1alpha1.ObjectReference{thing, own}, policy)
	g.Expect(out[0]).To(HaveField("Reason", "waits for Thing.behind.example.com default/a"))
	g.Expect(out[1].Err).To(HaveOccurred())
	g.Expect(outcomeOf(t, target, own).Result).To(Equal(prune.Gone))
}

// The objects of a definition of which no version is served are still there.
func TestKindThatIsDefinedButNotServedIsNotGone(t *testing.T) {
	w := newWorld(t, []string{"crd", "thing"})
	target := pooled(t, time.Hour)
	serve := func(yes bool) {
		crd := w.object("crd")
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/versions/0/served","value":%t}]`, yes)
		w.Expect(cluster.Client.Patch(w.ctx, crd, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
	}
	serve(false)
	w.Eventually(func() prune.Outcome { return outcomeOf(t, target, w.refs["thing"]) }).Should(SatisfyAll(
		HaveField("Result", prune.Pending), HaveField("Err", MatchError("CustomResourceDefinition things."+w.group+" is not served"))))
	serve(true)
	w.Eventually(func() prune.Result { return outcomeOf(t, target, w.refs["thing"]).Result }).Should(Equal(prune.Gone))
	w.Expect(w.intact()).To(ConsistOf("crd"))
}

// What the mapper knew when it was asked last is not what is.
func TestKindThatIsNewIsNotGone(t *testing.T) {
	target := pooled(t, time.Hour)
	w := newWorld(t, []string{"lease"})
	ref := reference(w.group+"/v1", "Thing", w.ns, "a", "")
	w.Expect(outcomeOf(t, target, ref).Result).To(Equal(prune.Gone)) // the mapper will not ask again so soon by itself
	crd := w.object("crd")
	w.Expect(cluster.Client.Create(w.ctx, crd)).To(Succeed())
	thing := w.object("thing")
	thing.SetAnnotations(map[string]string{resourcesv1alpha1.OriginAnnotation: origin})
	thing.SetFinalizers([]string{hold})
	w.Eventually(func() error { return cluster.Client.Create(w.ctx, thing) }).Should(Succeed())
	w.Expect(outcomeOf(t, target, ref)).To(SatisfyAll(HaveField("Result", prune.Pending), HaveField("Deleted", true)))
}

// forgetful counts how often discovery is asked for refresh.
type forgetful struct {
	meta.ResettableRESTMapper
	resets atomic.Int32
}

func (f *forgetful) Reset() {
	f.resets.Add(1)
	f.ResettableRESTMapper.Reset()
}

// An absent kind is looked up once a run, however many objects of it there were.
func TestObjectsOfAnAbsentKindAreReleasedWithOneLookUp(t *testing.T) {
	g := NewWithT(t)
	target := pooled(t, time.Hour)
	pooled, ok := target.Mapper.(meta.ResettableRESTMapper)
	g.Expect(ok).To(BeTrue())
	mapper := &forgetful{ResettableRESTMapper: pooled}
	target.Mapper = mapper
	releaser := prune.NewReleaser(target, origin, "trellis")
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			errs[i] = releaser.Release(t.Context(), reference("absent.example.com/v1", "Absent", "default", "a"+strconv.Itoa(i), ""))
		})
	}
	wg.Wait()
	g.Expect(errors.Join(errs...)).To(Succeed())
	g.Expect(mapper.resets.Load()).To(BeEquivalentTo(1))
}

// The version under which an object was applied may be gone while its kind is not.
func TestVersionThatIsGone(t *testing.T) {
	w := newWorld(t, []string{"crd", "thing"})
	ref := w.refs["thing"]
	ref.APIVersion = w.group + "/v1alpha1"
	w.Expect(outcomeOf(t, pooled(t, time.Hour), ref)).To(SatisfyAll(HaveField("Result", prune.Gone), HaveField("Deleted", true)))
	w.Expect(w.intact()).To(ConsistOf("crd"))
}

// Names that no object has would lead to other objects in an address.
func TestNamesThatAreNoNamesAreGone(t *testing.T) {
	for _, name := range []string{"", "..", "../secrets/a", "a/b", "a%2fb"} {
		g := NewWithT(t)
		out := outcomeOf(t, access, reference("v1", "ConfigMap", "default", name, ""))
		g.Expect(out.Err).NotTo(HaveOccurred())
		g.Expect(out.Result).To(Equal(prune.Gone), name)
	}
}
