package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// maxBody is the largest request: a CustomResourceDefinition.
const maxBody = 4 << 20

// invalid is an error of the request.
type invalid struct{ error }

func invalidf(format string, args ...any) error { return invalid{fmt.Errorf(format, args...)} }

// Handler serves the API for a fleet.
func Handler(fleet *fleetsim.Fleet) http.Handler {
	c := &controller{fleet}
	mux := http.NewServeMux()
	mux.Handle("/targets", call(c.targets))
	mux.Handle("/secrets", call(c.secrets))
	mux.Handle("/set-fault", call(c.setFault))
	mux.Handle("/clear-faults", call(c.clearFaults))
	mux.Handle("/rotate", call(c.rotate))
	mux.Handle("/skew", call(c.skew))
	mux.Handle("/do", call(c.do))
	mux.Handle("/set-crd", call(c.setCRD))
	mux.Handle("/fail-discovery", call(c.failDiscovery))
	mux.Handle("/journal", call(c.journal))
	mux.Handle("/reset-journal", call(c.resetJournal))
	mux.Handle("/stats", call(c.stats))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusNotFound, failure{fmt.Sprintf("there is no call %q", r.URL.Path)})
	})
	return mux
}

// call makes a handler of a function.
func call[Request, Answer any](do func(context.Context, Request) (Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			answer(w, http.StatusForbidden, failure{"calls from a browser are refused"})
			return
		}
		if r.Method != http.MethodPost {
			answer(w, http.StatusMethodNotAllowed, failure{fmt.Sprintf("the call %s is a POST, not a %s", r.URL.Path, r.Method)})
			return
		}
		var request Request
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&request)
		if err == nil && decoder.Decode(&struct{}{}) != io.EOF {
			err = errors.New("there is something behind the object")
		}
		if err != nil {
			answer(w, http.StatusBadRequest, failure{fmt.Sprintf("the body of %s is no JSON object as it takes: %v", r.URL.Path, err)})
			return
		}
		result, err := do(r.Context(), request)
		switch {
		case errors.As(err, &invalid{}):
			answer(w, http.StatusBadRequest, failure{err.Error()})
		case err != nil:
			answer(w, http.StatusInternalServerError, failure{err.Error()})
		default:
			answer(w, http.StatusOK, result)
		}
	})
}

func answer(w http.ResponseWriter, code int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(content) // the client may have left
}

type controller struct{ fleet *fleetsim.Fleet }

func (c *controller) pick(s fleetsim.Selection) ([]*fleetsim.Target, error) {
	targets, err := c.fleet.Select(s)
	if err != nil {
		return nil, invalid{err}
	}
	return targets, nil
}

// each does something to the targets picked.
func (c *controller) each(ctx context.Context, s fleetsim.Selection, do func(*fleetsim.Target) error) (Done, error) {
	targets, err := c.pick(s)
	if err != nil {
		return Done{}, err
	}
	var done Done
	var failed []error
	for _, t := range targets {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if err := do(t); err != nil {
			failed = append(failed, err)
			continue
		}
		done.Targets = append(done.Targets, t.Name())
	}
	if len(failed) > 0 {
		return done, fmt.Errorf("%d of %d targets failed, the first one: %w", len(failed), len(targets), failed[0])
	}
	return done, nil
}

func (c *controller) targets(_ context.Context, s fleetsim.Selection) (Targets, error) {
	picked, err := c.pick(s)
	if err != nil {
		return Targets{}, err
	}
	targets := make([]Target, 0, len(picked))
	for _, t := range picked {
		targets = append(targets, Target{
			Name: t.Name(), Host: t.Host(), UID: string(t.UID()), State: t.State(), Skew: metav1.Duration{Duration: t.Skewed()},
			Connections: t.Connections(), Objects: t.Server().Count(), Faults: t.Faults().List(),
		})
	}
	return Targets{targets}, nil
}

func (c *controller) secrets(_ context.Context, r GetSecrets) (Secrets, error) {
	if (r.Namespace == "") == (r.NamespacePrefix == "") {
		return Secrets{}, invalidf("one of namespace and namespacePrefix is required")
	}
	picked, err := c.pick(r.Selection)
	if err != nil {
		return Secrets{}, err
	}
	return MakeSecrets(picked, r)
}

// MakeSecrets returns the registrations of targets, and the namespaces that they need.
func MakeSecrets(targets []*fleetsim.Target, r GetSecrets) (Secrets, error) {
	var made Secrets
	for _, t := range targets {
		namespace := r.Namespace
		if namespace == "" {
			namespace = r.NamespacePrefix + t.Name()
		}
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return Secrets{}, invalidf("%q is no name of a namespace: %s", namespace, problems[0])
		}
		if r.Namespace == "" || len(made.Namespaces) == 0 {
			made.Namespaces = append(made.Namespaces, corev1.Namespace{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: namespace},
			})
		}
		made.Secrets = append(made.Secrets, *t.Registration(namespace))
	}
	return made, nil
}

func (c *controller) setFault(ctx context.Context, r SetFault) (Done, error) {
	if err := r.Fault.Validate(); err != nil {
		return Done{}, invalid{err}
	}
	return c.each(ctx, r.Selection, func(t *fleetsim.Target) error {
		_, err := t.Faults().Set(r.Fault)
		return named(t, err)
	})
}

func (c *controller) clearFaults(ctx context.Context, r ClearFaults) (Done, error) {
	targets, err := c.pick(r.Selection)
	if err != nil {
		return Done{}, err
	}
	for _, name := range r.Faults {
		if !slices.Contains(fault.Kinds(), fault.Kind(name)) && !slices.ContainsFunc(targets, func(t *fleetsim.Target) bool { return hasFault(t, name) }) {
			return Done{}, invalidf("%q is neither the ID of a fault nor a kind: kinds are %v", name, fault.Kinds())
		}
	}
	cleared := map[string]bool{}
	done, err := c.each(ctx, r.Selection, func(t *fleetsim.Target) error {
		n, err := t.Faults().Clear(r.Faults...)
		cleared[t.Name()] = n > 0
		return named(t, err)
	})
	done.Targets = slices.DeleteFunc(done.Targets, func(name string) bool { return !cleared[name] })
	return done, err
}

func hasFault(t *fleetsim.Target, id string) bool {
	return slices.ContainsFunc(t.Faults().List(), func(f fault.State) bool { return f.ID == id })
}

func named(t *fleetsim.Target, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name(), err)
	}
	return nil
}

var rotations = map[string]func(*fleetsim.Target, fleetsim.Rotation) error{
	RotateToken:              (*fleetsim.Target).RotateToken,
	RotateClientCertificate:  (*fleetsim.Target).RotateClientCertificate,
	RotateServingCertificate: (*fleetsim.Target).RotateServingCertificate,
	RotateCA:                 (*fleetsim.Target).RotateCA,
}

func (c *controller) rotate(ctx context.Context, r Rotate) (Done, error) {
	rotate, ok := rotations[r.What]
	if !ok {
		return Done{}, invalidf("%q cannot be rotated: what can is %v", r.What, slices.Sorted(maps.Keys(rotations)))
	}
	return c.each(ctx, r.Selection, func(t *fleetsim.Target) error {
		return rotate(t, fleetsim.Rotation{Revoke: r.Revoke, Lifetime: r.Lifetime.Duration})
	})
}

func (c *controller) skew(ctx context.Context, r Skew) (Done, error) {
	return c.each(ctx, r.Selection, func(t *fleetsim.Target) error {
		t.Skew(r.By.Duration)
		return nil
	})
}

var actions = map[string]func(*fleetsim.Target) error{
	Stop:             (*fleetsim.Target).Stop,
	Start:            (*fleetsim.Target).Start,
	Hibernate:        (*fleetsim.Target).Hibernate,
	Replace:          func(t *fleetsim.Target) error { return t.Replace(nil) },
	Revoke:           func(t *fleetsim.Target) error { t.Revoke(); return nil },
	Compact:          func(t *fleetsim.Target) error { t.Server().Compact(); return nil },
	EndWatches:       func(t *fleetsim.Target) error { t.Server().EndWatches(); return nil },
	ResetConnections: func(t *fleetsim.Target) error { t.ResetConnections(); return nil },
}

func (c *controller) do(ctx context.Context, r Do) (Done, error) {
	act, ok := actions[r.What]
	if !ok {
		return Done{}, invalidf("%q cannot be done: what can is %v", r.What, slices.Sorted(maps.Keys(actions)))
	}
	return c.each(ctx, r.Selection, act)
}

func (c *controller) setCRD(ctx context.Context, r SetCRD) (Done, error) {
	switch {
	case (r.CRD == nil) == (r.Remove == ""):
		return Done{}, invalidf("one of crd and remove is required")
	case r.CRD != nil && (r.CRD.GetKind() != "CustomResourceDefinition" || r.CRD.GetName() == ""):
		return Done{}, invalidf("crd is no CustomResourceDefinition with a name, but of kind %q", r.CRD.GetKind())
	}
	return c.each(ctx, r.Selection, func(t *fleetsim.Target) error {
		if r.CRD != nil {
			return t.AddCRD(ctx, r.CRD)
		}
		return t.RemoveCRD(ctx, r.Remove)
	})
}

func (c *controller) failDiscovery(ctx context.Context, r FailDiscovery) (Done, error) {
	var gvs []schema.GroupVersion
	for _, s := range r.GroupVersions {
		gv, err := schema.ParseGroupVersion(s)
		if err != nil || gv.Version == "" {
			return Done{}, invalidf("%q is no group version such as apps/v1", s)
		}
		gvs = append(gvs, gv)
	}
	targets, err := c.pick(r.Selection)
	if err != nil {
		return Done{}, err
	}
	for _, t := range targets {
		for _, gv := range gvs {
			if !t.Server().Serves(gv) {
				return Done{}, invalidf("%s does not serve %s", t.Name(), gv)
			}
		}
	}
	return c.each(ctx, r.Selection, func(t *fleetsim.Target) error {
		t.Server().FailDiscovery(gvs...)
		return nil
	})
}

func (c *controller) journal(_ context.Context, r GetJournal) (Journal, error) {
	window := r.Window.Duration
	if window == 0 {
		window = time.Minute
	}
	if window < 0 {
		return Journal{}, invalidf("the window %s is negative", window)
	}
	j := Journal{Struck: map[fault.Kind]uint64{}}
	var histories []journal.History
	targets := c.fleet.Targets()
	if r.Target == "" {
		all := c.fleet.Journal()
		j.Counts, j.Latencies, histories = all.Counts(), all.Latencies(), all.Histories()
	} else {
		t, ok := c.fleet.Target(r.Target)
		if !ok {
			return Journal{}, invalidf("there is no target %q", r.Target)
		}
		targets = []*fleetsim.Target{t}
		j.Counts, j.Latencies, histories = t.Journal().Counts(), t.Journal().Latencies(), []journal.History{t.Journal().History()}
	}
	var writers journal.Writers
	if len(r.Programs) > 0 {
		writers = journal.ByUserAgent(r.Programs...)
	}
	j.Verdicts = []journal.Verdict{
		journal.Repeated(writers, histories...),
		journal.Flapping(window, writers, histories...),
		journal.CreatedTwice(writers, nil, histories...),
		journal.WrongDeletes(writers, journal.Deletes{Owned: c.fleet.Journal().Owned}, histories...),
		journal.TwoAtATime(window, journal.ByConnection(writers), histories...),
	}
	for _, t := range targets {
		for kind, n := range t.Faults().Struck() {
			j.Struck[kind] += n
		}
	}
	return j, nil
}

func (c *controller) resetJournal(context.Context, struct{}) (struct{}, error) {
	c.fleet.Journal().Reset()
	return struct{}{}, nil
}

func (c *controller) stats(context.Context, struct{}) (Stats, error) {
	s, err := measure()
	if err != nil {
		return s, err
	}
	for _, t := range c.fleet.Targets() {
		s.Targets++
		s.Objects += t.Server().Count()
		s.Connections += t.Connections()
	}
	return s, nil
}
