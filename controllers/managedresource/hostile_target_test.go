package managedresource_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// interceptor answers a request in place of an honest API server, false if it leaves it to that.
type interceptor func(honest http.Handler, w http.ResponseWriter, r *http.Request) bool

// hostile is a registered API server that answers some requests as it likes, and all others as a simulated one.
type hostile struct {
	intercept atomic.Pointer[interceptor]
	struck    atomic.Int64 // how many answers were hostile
	// kubeconfig leads to it.
	kubeconfig []byte
}

// become has it answer by f from now on. Nil: it is honest.
func (h *hostile) become(f interceptor) {
	if f == nil {
		h.intercept.Store(nil)
		return
	}
	h.intercept.Store(&f)
}

// hostile starts a hostile server and registers it under a name.
func (p place) hostile(name string, f interceptor) *hostile {
	p.t.Helper()
	honest, err := apiserver.New(apiserver.Options{Name: p.ns})
	p.Expect(err).NotTo(HaveOccurred())
	p.t.Cleanup(honest.Stop)
	h := &hostile{}
	h.become(f)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := h.intercept.Load(); f != nil && (*f)(honest, w, r) {
			h.struck.Add(1)
			return
		}
		honest.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients leave whenever they like
	p.t.Cleanup(testbed.Serve(server))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig, err := testbed.TokenKubeconfig(server.URL, ca)
	p.Expect(err).NotTo(HaveOccurred())
	h.kubeconfig = kubeconfig
	p.register(name, kubeconfig)
	return h
}

// pickDefault creates a ManagedResource with ConfigMaps of the namespace "default", for a hostile target.
func (p place) pickDefault(name, targetName string, n int) {
	p.t.Helper()
	documents := make([]string, n)
	for i := range documents {
		documents[i] = testbed.ConfigMap("default", fmt.Sprintf("%s-%d", name, i), "1")
	}
	p.content(name, documents...)
	mr := testbed.ManagedResource(p.ns, name, name)
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: targetName}
	p.inSource(mr)
}

// heal has a server be honest, and waits until a ManagedResource of it is well.
func (p place) heal(h *hostile, mr string) {
	p.t.Helper()
	h.become(nil)
	p.operation(mr, "reconcile")
	p.awaitReady(mr)
}

// compressed answers the writes of objects with 16 MiB of pieces between a beginning and an end, compressed. That is
// four times what the hub reads of such an answer.
func compressed(begin, piece, end string) interceptor {
	var answer bytes.Buffer
	zip := gzip.NewWriter(&answer)
	for _, part := range []string{begin, strings.Repeat(piece, 16<<20/len(piece)), end} {
		if _, err := io.WriteString(zip, part); err != nil {
			panic(err) // a buffer takes all
		}
	}
	if err := zip.Close(); err != nil {
		panic(err)
	}
	return func(_ http.Handler, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(answer.Bytes()) // the client has left, or it has not
		return true
	}
}

// owned answers the writes of objects honestly, but for one entry of their managedFields.
func owned(fields map[string]any) interceptor {
	encoded, err := json.Marshal(map[string]any{
		"manager": "other-client", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
	})
	if err != nil {
		panic(err) // maps of maps
	}
	return func(honest http.Handler, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPatch {
			return false
		}
		const protobuf, other = "application/vnd.kubernetes.protobuf", "application/x-none"
		r.Header.Set("Accept", strings.ReplaceAll(r.Header.Get("Accept"), protobuf, other))
		recorder := httptest.NewRecorder()
		honest.ServeHTTP(recorder, r)
		var object map[string]any
		if json.Unmarshal(recorder.Body.Bytes(), &object) != nil {
			return false
		}
		metadata, ok := object["metadata"].(map[string]any)
		if !ok {
			return false
		}
		entries, _ := metadata["managedFields"].([]any)
		metadata["managedFields"] = append(entries, json.RawMessage(encoded))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorder.Code)
		_ = json.NewEncoder(w).Encode(object) // the client has left, or it has not
		return true
	}
}

// nested are fields that are both deep and wide. A naive comparison takes time in proportion to the product.
func nested(levels, width int) map[string]any {
	fields := map[string]any{}
	for i := range width {
		fields[fmt.Sprint("f:", i)] = map[string]any{}
	}
	for range levels {
		fields = map[string]any{"f:a": fields}
	}
	return fields
}

// What is wrong with the answers of a target is said by its ManagedResources, nothing of it is taken for the state of
// an object, other targets of the namespace are served meanwhile, and all is well once the target is.
func TestAnswersOverTheBoundsAreSaid(t *testing.T) {
	t.Parallel()
	const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"mr-0","uid":"u",`
	for name, intercept := range map[string]interceptor{
		"elements": compressed(object+`"managedFields":[{}`, ",{}", "]}}"),
		"bytes":    compressed(object+`"a":"`, "aaaaaaaa", `"}}`),
		"nesting":  compressed(object+`"a":`, "[", ""),
		"spaces":   compressed(object, "        ", `"a":1}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			h := p.hostile("b", intercept)
			p.pickDefault("mr", "b", 3)
			p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed, "the answer is larger than the hub accepts"))
			p.Expect(h.struck.Load()).To(BeNumerically(">", 0))
			p.fence()
			p.awaitTarget("b", hubv1alpha1.ConditionConnected, "True", "")
			p.heal(h, "mr")
		})
	}
}

// Fields that are costly to compare do not hold up the hub: the ManagedResource says which bound they exceed. Those
// within the bounds are taken back again and again, as long as the server says that another writer owns them.
func TestFieldsThatAreCostlyToCompare(t *testing.T) {
	t.Parallel()
	fails := func(message string) gomegatypes.GomegaMatcher {
		return has(applied, no, resourcesv1alpha1.ReasonApplyFailed, message)
	}
	for name, test := range map[string]struct {
		levels  int
		width   int
		matcher gomegatypes.GomegaMatcher
	}{
		"deeper than an answer may be": {1000, 20_000, fails("levels of nesting")},
		"deeper than is compared":      {400, 20_000, fails("for the managedFields")},
		// Each answer of these is compared, one after the other: as many fields as the bounds allow would take minutes
		// with the race detector. The benchmark of the comparison has the largest.
		"as deep as is compared": {90, 2_000, has(applied, ongoing, "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			h := p.hostile("b", owned(nested(test.levels, test.width)))
			p.pickDefault("mr", "b", 5)
			p.Eventually(h.struck.Load).Should(BeNumerically(">=", 5), "each object is tried")
			p.await("mr", test.matcher)
			p.fence()
			p.heal(h, "mr")
		})
	}
}

// Discovery that is slow and fails delays nothing but the ManagedResources of its target, however many objects
// they have.
func TestDiscoveryThatIsSlowAndFails(t *testing.T) {
	t.Parallel()
	p := registered(t)
	h := p.hostile("b", func(_ http.Handler, w http.ResponseWriter, r *http.Request) bool {
		if path := strings.Trim(r.URL.Path, "/"); path != "api" && path != "apis" {
			return false
		}
		select {
		case <-r.Context().Done():
		case <-time.After(2 * time.Second):
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	p.pickDefault("mr", "b", 150)
	p.Eventually(h.struck.Load).Should(BeNumerically(">", 0))
	p.fence()
	mr := p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed))
	p.Expect(mr.Status.Resources).To(BeEmpty(), "nothing was applied")
	p.Expect(h.struck.Load()).To(BeNumerically("<", 30), "objects share the failure of one discovery")
	p.heal(h, "mr")
}
