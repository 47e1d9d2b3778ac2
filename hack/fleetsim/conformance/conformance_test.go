package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/hack/controlplane"
)

var (
	compared = flag.String("compared", "simulator", `what is compared with the real server: "simulator", or "real" for a second real one`)
	genuine  *server
	rival    *server
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if testing.Short() {
		return m.Run()
	}
	ctx := context.Background()
	var stops []func()
	defer func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
		if code == 0 {
			if err := controlplane.AwaitGoroutines(); err != nil {
				code = fail(err)
			}
		}
	}()
	start := func(start func(context.Context) (*server, func(), error)) (*server, error) {
		s, stop, err := start(ctx)
		if err != nil {
			return nil, err
		}
		stops = append(stops, stop)
		return s, prepare(ctx, s)
	}
	var err error
	if genuine, err = start(startReal); err != nil {
		return fail(err)
	}
	if *compared == "real" {
		rival, err = start(startReal)
	} else {
		rival, err = start(startSimulator)
	}
	if err != nil {
		return fail(err)
	}
	return m.Run()
}

// startReal starts etcd and kube-apiserver.
func startReal(ctx context.Context) (*server, func(), error) {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return nil, nil, err
	}
	cp, err := controlplane.Start(ctx, controlplane.Options{
		Name: "conformance", Dir: dir,
		// Lists of the past come from etcd, which forgets when it is compacted, not from what the API server remembers.
		ExtraAPIServerArgs: []string{"--feature-gates=ListFromCacheSnapshot=false"},
	})
	if err != nil {
		return nil, nil, err
	}
	config := cp.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, nil, err
	}
	etcd := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "etcd.sock:0"))
	}}
	s := &server{name: "the real server", url: config.Host, client: &http.Client{Transport: transport}}
	s.compact = func(ctx context.Context) error { return compactEtcd(ctx, etcd) }
	return s, func() {
		s.client.CloseIdleConnections()
		etcd.CloseIdleConnections()
		cp.Stop()
		_ = os.RemoveAll(dir)
	}, nil
}

// prepare creates what rows share.
func prepare(ctx context.Context, s *server) error {
	p := newPlayer(s, "default")
	for _, step := range shared {
		a := p.play(ctx, step, step.code)
		if a.problem != nil {
			return fmt.Errorf("%s: %s: %w", s.name, step, a.problem)
		}
		if a.code != step.code {
			return fmt.Errorf("%s: %s: %d instead of %d: %v", s.name, step, a.code, step.code, a.body)
		}
	}
	return nil
}

// table is all rows, by topic.
func table() []row {
	return slices.Concat(applyRows, leftoverRows,
		writeRows, deleteRows, readRows, watchRows, kindRows, customRows, discoveryRows)
}

// TestSimulatorAnswersAsARealServer runs the table.
func TestSimulatorAnswersAsARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("the table needs a real API server")
	}
	names, steps := map[string]bool{}, 0
	for _, r := range slices.Concat(table(), forgettingRows) {
		steps += len(r.steps)
		if names[namespaceOf(r)] {
			t.Fatalf("two rows are called %q", r.name)
		}
		names[namespaceOf(r)] = true
	}
	t.Run("rows", func(t *testing.T) {
		for _, r := range table() {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				compare(t, r)
			})
		}
	})
	for _, r := range forgettingRows {
		t.Run(r.name, func(t *testing.T) { compare(t, r) })
	}
	t.Logf("%d rows of %d steps", len(names), steps)
}

var unnameable = regexp.MustCompile(`[^a-z0-9]+`)

// namespaceOf is the namespace of a row.
func namespaceOf(r row) string {
	name := strings.Trim(unnameable.ReplaceAllString(strings.ToLower(r.name), "-"), "-")
	return strings.Trim(name[:min(len(name), 50)], "-")
}

// compare runs a row on both servers.
func compare(t *testing.T, r row) {
	players := [2]*player{newPlayer(genuine, namespaceOf(r)), newPlayer(rival, namespaceOf(r))}
	normals := [2]*normal{newNormal(r), newNormal(r)}
	defer players[0].stop()
	defer players[1].stop()
	namespace := post("ns", object("Namespace", "$ns")).only(nothing)
	for i, s := range slices.Concat([]*step{namespace}, r.steps) {
		var answers [2]answer
		var group sync.WaitGroup
		for i, p := range players {
			group.Go(func() {
				code := s.code
				if i == 1 && s.simulated != 0 {
					code = s.simulated
				}
				answers[i] = p.play(t.Context(), s, code)
			})
		}
		group.Wait()
		if s.reduce != nil {
			first, second := answers[0].body, answers[1].body
			answers[0].body, answers[1].body = s.reduce(first, second), s.reduce(second, first)
		}
		if s.reason != "" && *compared == "real" {
			continue // two real servers do not differ there
		}
		texts := [2]string{normals[0].text(answers[0]), normals[1].text(answers[1])}
		for _, problem := range judge(s, answers, texts) {
			t.Errorf("step %d, %s:\n%s", i, s, problem)
		}
	}
}

// judge returns what is wrong with the answers to a step.
func judge(s *step, answers [2]answer, texts [2]string) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if answers[0].problem != nil || answers[0].code != s.code {
		complain("the row expects %d, the real server says\n%s", s.code, texts[0])
	}
	switch {
	case s.reason != "" && texts[0] == texts[1]:
		complain("the answers agree, though they are said to differ: %s", s.reason)
	case s.reason != "" && answers[1].code != s.simulated:
		complain("the simulator is meant to differ with %d (%s), but says\n%s", s.simulated, s.reason, texts[1])
	case s.reason == "" && texts[0] != texts[1]:
		complain("the simulator (+) does not answer as the real server (-) does:\n%s", difference(texts[0], texts[1]))
	}
	return problems
}

// shownLines is how much of a difference is shown.
const shownLines = 60

// difference shows the lines that differ, with some that do not.
func difference(want, got string) string {
	lines := strings.SplitAfter(cmp.Diff(want, got), "\n")
	if len(lines) > shownLines {
		return strings.Join(lines[:shownLines], "") + fmt.Sprintf("... and %d more lines\n", len(lines)-shownLines)
	}
	return strings.Join(lines, "")
}

// compactEtcd forgets all revisions but the latest.
func compactEtcd(ctx context.Context, transport http.RoundTripper) error {
	call := func(path string, body, into any) error {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://etcd"+path, bytes.NewReader(raw))
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("etcd answers %s with %s", path, response.Status)
		}
		return json.NewDecoder(response.Body).Decode(into)
	}
	var status struct {
		Header struct{ Revision string }
	}
	if err := call("/v3/maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	return call("/v3/kv/compaction", map[string]string{"revision": status.Header.Revision}, &struct{}{})
}
