package webhooks_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// neighbour is a target that is none of the fleet's, and hangs one whose API server answers nothing.
var (
	neighbour = clustercache.ClusterKey{Namespace: "shoot--neighbour", Name: "target"}
	hangs     = clustercache.ClusterKey{Namespace: "shoot--hangs", Name: "target"}
)

// hanging is the state of a target that answers nothing, within the second that the hub waits.
type hanging struct{ admission.State }

func (hanging) ServiceAccount(ctx context.Context, _ types.NamespacedName) (*corev1.ServiceAccount, error) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return nil, admission.ErrUnknown
}

// BenchmarkNeighbours measures what the fleet gets while another target floods the hub, or does not answer it, and
// without that. The flood is five times what a target may send. It comes from a process of its own that gets only the
// processor time that is left, since a target has other processors than the hub. The same flood is also sent to a
// second hub: what it costs the fleet then is no fault of the limits.
func BenchmarkNeighbours(b *testing.B) {
	c := ofSamples(b)
	var all []admission.Webhook
	for _, w := range webhooks.All(nil) {
		if !w.Validating && w.Enabled(&c.Settings) {
			all = append(all, w)
		}
	}
	for _, beside := range []struct {
		name   string
		target clustercache.ClusterKey
		rate   int  // requests a second; 0: none
		served int  // HTTP status of those that are worked on
		second bool // they are sent to a second hub
	}{
		{"none", neighbour, 0, 0, false},
		{"one that floods", neighbour, 1000, http.StatusOK, false},
		{"one that floods a second hub", neighbour, 1000, http.StatusOK, true},
		{"one that hangs", hangs, 300, http.StatusServiceUnavailable, false},
	} {
		b.Run(beside.name, func(b *testing.B) {
			f := newFleet(b, c, all)
			called := f
			if beside.second {
				called = newFleet(b, c, all)
			}
			end := func() map[int]int { return nil }
			if beside.rate > 0 {
				end = called.flood(b, beside.target, beside.rate)
			}
			f.measure(b)
			statuses := end()
			if beside.rate > 0 && b.N > 1000 {
				served, refused := statuses[beside.served], statuses[http.StatusTooManyRequests]
				f.Expect(served).To(BeNumerically(">", 0))
				f.Expect(refused).To(BeNumerically(">", 0))
				b.ReportMetric(100*float64(refused)/float64(served+refused), "refused-%")
			}
		})
	}
}

// flood is what a process that floods a hub is given.
type flood struct {
	URL             string
	Authority, Body []byte
	Rate            int // requests a second
}

// floodEnv makes a process of the tests one that floods a hub.
const floodEnv = "TRELLIS_TEST_FLOOD"

func TestMain(m *testing.M) {
	if os.Getenv(floodEnv) == "" {
		os.Exit(m.Run())
	}
	if err := beFlood(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// flood has a target send reviews of its pods at a rate, whatever becomes of them, until the benchmark ends or end is
// called, which counts the answers by their HTTP status.
func (f *fleet) flood(b *testing.B, target clustercache.ClusterKey, rate int) (end func() (statuses map[int]int)) {
	b.Helper()
	// The first webhook reads the ServiceAccount.
	route := routes.Route{Target: target, UID: "uid", Webhook: f.webhooks[0].Path}
	command := exec.CommandContext(b.Context(), "nice", "-n", "19", os.Args[0])
	command.Env = append(os.Environ(), floodEnv+"=true")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	f.Expect(err).NotTo(HaveOccurred())
	output, err := command.StdoutPipe()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(command.Start()).To(Succeed())
	wait := sync.OnceValue(command.Wait)
	b.Cleanup(func() { _ = input.Close(); _ = wait() })
	f.Expect(json.NewEncoder(input).Encode(flood{
		URL: f.address + route.Path(fleetSecret), Authority: f.authority, Body: f.bodies[0], Rate: rate,
	})).To(Succeed())
	return func() (statuses map[int]int) {
		f.Expect(input.Close()).To(Succeed())
		f.Expect(json.NewDecoder(output).Decode(&statuses)).To(Succeed())
		f.Expect(wait()).To(Succeed())
		return statuses
	}
}

// beFlood floods a hub until the input ends.
func beFlood(input io.Reader, output io.Writer) error {
	var what flood
	if err := json.NewDecoder(input).Decode(&what); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, input)
	}()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(what.Authority)
	client := newFleetClient(roots, what.Rate)
	defer client.CloseIdleConnections()
	var work sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	begun := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(what.Rate))))
		work.Go(func() {
			response, err := client.Post(what.URL, "application/json", bytes.NewReader(what.Body))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			statuses[response.StatusCode]++
		})
	}
	work.Wait()
	return json.NewEncoder(output).Encode(statuses)
}
