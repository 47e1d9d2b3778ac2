package clustercache

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
)

// bomb is a text in which one piece is repeated, both plain and compressed.
type bomb struct {
	contentType  string
	begin, piece []byte
	zipped       []byte
}

// newBomb returns an answer of at least 64 MiB.
func newBomb(contentType, begin, piece string) *bomb {
	b := &bomb{contentType: contentType, begin: []byte(begin), piece: bytes.Repeat([]byte(piece), 64<<10/len(piece))}
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write(b.begin)
	for range 1024 {
		_, _ = zip.Write(b.piece)
	}
	_ = zip.Close()
	b.zipped = zipped.Bytes()
	return b
}

// answer is a fault: the bomb, in answer to all requests whose path contains a text.
func (b *bomb) answer(path string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, path) {
			return false
		}
		w.Header().Set("Content-Type", b.contentType)
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(b.zipped)
			return true
		}
		_, err := w.Write(b.begin)
		for err == nil {
			_, err = w.Write(b.piece)
		}
		return true
	}
}

var (
	emptyObjects = newBomb("application/json",
		`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`, `{},`)
	managedFields = newBomb("application/json",
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"one","managedFields":[`, `{},`)
	oneText    = newBomb("application/json", `{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"`, "aaaaaaaa")
	references = newBomb("application/vnd.kubernetes.protobuf",
		"k8s\x00\x12\x80\x80\x80\x20\x0a\x80\x80\x80\x18", "\x6a\x00")
)

// calls are the calls of controllers to a target, one for each kind of client.
func calls(h *hub, key ClusterKey) map[string]func(ctx context.Context) error {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	name := types.NamespacedName{Namespace: "default", Name: "one"}
	typed := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	}
	uncached := func(f func(ctx context.Context, c client.Client) error) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			c, err := h.cache.GetUncachedClient(ctx, key)
			if err != nil {
				return err
			}
			return f(ctx, c)
		}
	}
	all := map[string]func(ctx context.Context) error{
		"typed get": uncached(func(ctx context.Context, c client.Client) error { return c.Get(ctx, name, typed()) }),
		"typed list": uncached(func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.ConfigMapList{})
		}),
		"patch": uncached(func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, typed(), client.RawPatch(types.MergePatchType, []byte("{}")))
		}),
		"create": uncached(func(ctx context.Context, c client.Client) error { return c.Create(ctx, typed()) }),
		"update": uncached(func(ctx context.Context, c client.Client) error { return c.Update(ctx, typed()) }),
		"unstructured get": uncached(func(ctx context.Context, c client.Client) error {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			return c.Get(ctx, name, object)
		}),
		"unstructured list": uncached(func(ctx context.Context, c client.Client) error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
			return c.List(ctx, list)
		}),
		"client of the configuration": func(ctx context.Context) error {
			config, err := h.cache.GetRESTConfig(ctx, key)
			if err != nil {
				return err
			}
			config.ContentType = "application/vnd.kubernetes.protobuf"
			clients, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			_, err = clients.CoreV1().ConfigMaps("default").Get(ctx, "one", metav1.GetOptions{})
			return err
		},
	}
	for call, f := range map[string]func(ctx context.Context, c metadataOf) error{
		"metadata get": func(ctx context.Context, c metadataOf) error {
			_, err := c.Get(ctx, "one", metav1.GetOptions{})
			return err
		},
		"metadata list": func(ctx context.Context, c metadataOf) error {
			_, err := c.List(ctx, metav1.ListOptions{Limit: 500})
			return err
		},
		"metadata patch": func(ctx context.Context, c metadataOf) error {
			_, err := c.Patch(ctx, "one", types.ApplyPatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "test"})
			return err
		},
	} {
		all[call] = func(ctx context.Context) error {
			c, err := h.cache.GetMetadataClient(ctx, key)
			if err != nil {
				return err
			}
			return f(ctx, c.Resource(configMaps).Namespace("default"))
		}
	}
	return all
}

type metadataOf interface {
	Get(ctx context.Context, name string, options metav1.GetOptions,
		subresources ...string) (*metav1.PartialObjectMetadata, error)
	List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions,
		subresources ...string) (*metav1.PartialObjectMetadata, error)
}

func TestNoClientTakesAnswersOverTheBounds(t *testing.T) {
	for name, b := range map[string]*bomb{
		"empty objects": emptyObjects, "managed fields": managedFields, "one text": oneText, "protobuf": references,
	} {
		for protocol, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+", "+protocol, func(t *testing.T) {
				h := start(t, Options{})
				a := newAPIServer(t, newStore("uid-a"))
				if !http2 {
					serving := a.serving.Load().Clone()
					serving.NextProtos = []string{"http/1.1"}
					a.serving.Store(serving)
				}
				key := h.register("a", a.kubeconfig("x"))
				h.expectState(key, StateConnected)
				a.setFault(b.answer("configmaps"))
				for call, f := range calls(h, key) {
					err := f(t.Context())
					h.Expect(err).To(Or(
						MatchError(untrusted.ErrExceeded), MatchError(ContainSubstring("which was not asked for")),
					), call)
					h.Expect(err).To(MatchError(ContainSubstring("configmaps")), "it says what was asked for: "+call)
				}
				h.Expect(h.cache.answers.Held()).To(BeZero(), "all places are given back")
				h.Expect(h.state(key)).To(Equal(StateConnected), "the target answers, and is neither lost nor left out")
				a.setFault(nil)
				c, err := h.cache.GetUncachedClient(t.Context(), key)
				h.Expect(err).NotTo(HaveOccurred())
				h.Expect(c.List(t.Context(), &corev1.ConfigMapList{})).To(Succeed())
			})
		}
	}
}

func TestOwnCallsOverTheBoundsAreReported(t *testing.T) {
	for name, path := range map[string]string{
		"version": "/version", "identity": "kube-system", "who the hub is": "selfsubjectreviews",
	} {
		for what, b := range map[string]*bomb{"elements": managedFields, "bytes": oneText} {
			t.Run(name+", "+what, func(t *testing.T) {
				h := start(t, Options{})
				a := newAPIServer(t, newStore("uid-a"))
				a.setFault(b.answer(path))
				key := h.register("a", a.kubeconfig("x"))
				h.Eventually(func() string { return h.status(key).Message }).Should(And(
					ContainSubstring(path), ContainSubstring("more than")))
				h.Expect(h.state(key)).To(Equal(StateDisconnected))
				a.setFault(nil)
				h.expectState(key, StateConnected)
				if path != "kube-system" {
					return
				}
				a.setFault(b.answer(path))
				h.Eventually(func() Status { return h.status(key) }).Should(And(
					HaveField("Reason", ReasonProbeFailed), HaveField("Message", ContainSubstring("more than"))))
			})
		}
	}
}

// Headers that are too large are an error of the target on either protocol. On HTTP/1.1 each byte of them may be many
// in memory, so fewer are allowed.
func TestHeadersOverTheBounds(t *testing.T) {
	for protocol, most := range map[string]int{"HTTP/1.1": 64 << 10, "HTTP/2": 128 << 10} {
		t.Run(protocol, func(t *testing.T) {
			h := start(t, Options{})
			a := newAPIServer(t, newStore("uid-a"))
			if protocol == "HTTP/1.1" {
				serving := a.serving.Load().Clone()
				serving.NextProtos = []string{"http/1.1"}
				a.serving.Store(serving)
			}
			headers := func(bytes int) func(http.ResponseWriter, *http.Request) bool {
				return func(w http.ResponseWriter, _ *http.Request) bool {
					for i := range bytes >> 10 {
						w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1000))
					}
					return false
				}
			}
			a.setFault(headers(most / 2))
			key := h.register("a", a.kubeconfig("x"))
			h.expectState(key, StateConnected)
			a.setFault(headers(2 * most))
			for call, f := range calls(h, key) {
				h.Expect(f(t.Context())).NotTo(Succeed(), call)
			}
			h.Eventually(func() State { return h.state(key) }).ShouldNot(Equal(StateConnected))
			a.setFault(nil)
			h.expectState(key, StateConnected)
		})
	}
}

func TestDiscoveryOverTheBoundsIsAnErrorOfTheCall(t *testing.T) {
	h := start(t, Options{})
	a, b := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	keyA, keyB := h.register("a", a.kubeconfig("x")), h.register("b", b.kubeconfig("x"))
	aggregated := "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	a.setFault(newBomb(aggregated, `{"items":[`, `{},`).answer("/api"))
	h.expectState(keyA, StateConnected)
	h.expectState(keyB, StateConnected)
	h.Expect(calls(h, keyA)["typed get"](t.Context())).To(MatchError(untrusted.ErrExceeded))
	h.Expect(calls(h, keyB)["typed list"](t.Context())).To(Succeed())
}

// Answers of one target take a bounded amount of memory, whichever client asks for them.
func TestMemoryOfAnswersIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs ten seconds of load, skipped by -short")
	}
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	for name, b := range map[string]*bomb{
		"empty objects": emptyObjects, "managed fields": managedFields, "one text": oneText,
	} {
		a.setFault(b.answer("configmaps"))
		before := inUse()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		var callers sync.WaitGroup
		for _, f := range calls(h, key) {
			for range 3 {
				callers.Go(func() {
					for ctx.Err() == nil {
						_ = f(ctx)
					}
				})
			}
		}
		most := uint64(0)
		for ctx.Err() == nil {
			most = max(most, inUse())
			time.Sleep(time.Millisecond)
		}
		cancel()
		callers.Wait()
		grown := (int64(most) - int64(before)) >> 20 //nolint:gosec // less than an exbibyte
		t.Logf("%s: %d MiB", name, grown)
		h.Expect(grown).To(BeNumerically("<", 100), name)
	}
}

// inUse is the memory of the heap that is in use, garbage that was not collected yet included.
func inUse() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapInuse
}
