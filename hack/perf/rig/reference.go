package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// reference is the user agent of Reference, and the name of its object.
const reference = "reference"

// referenceEditor is the user agent of who edits that object.
const referenceEditor = "reference-editor"

// referencePath is where its object is.
const referencePath = "/api/v1/namespaces/default/configmaps/" + reference

const referencePatch = `{"data":{"key":%q}}`

// Reference does in some targets what the hub does in all, and nothing else: it watches one ConfigMap, and applies it as soon
// as a watch shows a change, knowing beforehand what to write. What it takes is what machine, simulator and network take.
type Reference struct {
	targets   []*fleetsim.Target
	foreigner *Foreigner
}

// NewReference is at work in the given targets until ctx ends; then the function that is returned returns.
func NewReference(ctx context.Context, targets []*fleetsim.Target) (*Reference, func(), error) {
	r := &Reference{targets: targets, foreigner: NewForeigner([]Victim{{path: referencePath, patch: referencePatch}})}
	r.foreigner.name = referenceEditor
	group, ctx := errgroup.WithContext(ctx)
	wait := func() { _ = group.Wait() } // it ends with its context
	for _, target := range targets {
		config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
		if err != nil {
			return nil, wait, fmt.Errorf("reference in %s: %w", target.Name(), err)
		}
		config.QPS, config.UserAgent = -1, reference
		web, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, wait, fmt.Errorf("reference in %s: %w", target.Name(), err)
		}
		clients, err := dynamic.NewForConfigAndClient(config, web)
		if err != nil {
			return nil, wait, fmt.Errorf("reference in %s: %w", target.Name(), err)
		}
		objects := clients.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(metav1.NamespaceDefault)
		if err := applyReference(ctx, objects); err != nil {
			return nil, wait, fmt.Errorf("reference in %s: %w", target.Name(), err)
		}
		group.Go(func() error {
			defer web.CloseIdleConnections()
			for ctx.Err() == nil {
				// Watches end now and then, and some trials make servers fail.
				if err := watchReference(ctx, objects); err != nil {
					_ = Pause(ctx, 200*time.Millisecond)
				}
			}
			return nil
		})
	}
	return r, wait, nil
}

func applyReference(ctx context.Context, objects dynamic.ResourceInterface) error {
	_, err := objects.Patch(ctx, reference, types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+reference+`"},"data":{"key":"value"}}`),
		metav1.PatchOptions{FieldManager: reference, Force: new(true)})
	return err
}

func watchReference(ctx context.Context, objects dynamic.ResourceInterface) error {
	w, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + reference})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return errors.New("the watch failed")
		}
		if value, _, _ := unstructured.NestedString(object.Object, "data", "key"); value != "value" {
			if err := applyReference(ctx, objects); err != nil {
				return err
			}
		}
	}
	return nil
}

// Pace edits the objects of the reference, so many a second, for a time.
func (r *Reference) Pace(ctx context.Context, perSecond float64, length time.Duration) error {
	return r.foreigner.Pace(ctx, r.targets, perSecond, length)
}

// Millis are the times from edits to corrections.
func (r *Reference) Millis(from, to time.Time) []float64 {
	return correctionsIn(r.targets, from, to, journal.ByUserAgent(referenceEditor), journal.ByUserAgent(reference)).Millis
}

// Drift is what a window of drift measured.
type Drift struct {
	journal.Corrections
	Reference []float64
	From, To  time.Time
	CPU       CPU   // used
	Looks     []CPU // at what was used so far, about one a second
	// Collections are those of the source's API server that were under way, as far as Beside knows. It has the same
	// processors.
	Collections []controlplane.Collection
}

// Window edits objects in targets at an even pace, beside the reference at a slow one, and reads what became of it. What is not
// corrected a while after the window is pending, and counts with the time for which it has lasted.
func (r *Rig) Window(ctx context.Context, f *Foreigner, reference *Reference, targets []*fleetsim.Target, perSecond float64, length time.Duration) (Drift, error) {
	d := Drift{From: time.Now()}
	before, err := r.CPU()
	if err != nil {
		return d, err
	}
	group, pacing := errgroup.WithContext(ctx)
	group.Go(func() error { return f.Pace(pacing, targets, perSecond, length) })
	if reference != nil {
		group.Go(func() error { return reference.Pace(pacing, 10, length) })
	}
	looks := r.Accounting(ctx)
	err = group.Wait()
	d.Looks = looks()
	if err != nil {
		return d, err
	}
	d.To = time.Now()
	after, err := r.CPU()
	if err != nil {
		return d, err
	}
	d.CPU = after.Since(before)
	// What was edited last is still on its way.
	for range 50 {
		d.Corrections = CorrectionsIn(targets, d.From, d.To)
		if len(d.Pending) == 0 {
			break
		}
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			return d, err
		}
	}
	// Whose correction does not come is slower than all others, not missing.
	d.Millis = append(d.Millis, d.Lasting...)
	if reference != nil {
		d.Reference = reference.Millis(d.From, d.To)
	}
	return d, nil
}

// Slow returns when edits were made that took at least some milliseconds: in which seconds of the window, how many, and
// the most that one took. Many in a few seconds have one cause; few in many seconds have as many. Beside it stands who
// used the processors meanwhile, and whether the source's API server collected its garbage.
func (d Drift) Slow(least float64) string {
	type second struct {
		edits int
		most  float64
	}
	seconds := map[int]second{}
	for i, at := range d.Edited {
		if d.Millis[i] < least {
			continue
		}
		n := int(at.Sub(d.From).Seconds())
		seconds[n] = second{seconds[n].edits + 1, max(seconds[n].most, d.Millis[i])}
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(seconds)) {
		out = append(out, fmt.Sprintf("%d s: %d (%s)", n, seconds[n].edits, strings.Join(slices.DeleteFunc([]string{
			fmt.Sprintf("%.0f ms", seconds[n].most), ofSecond(d.Looks, d.From, n), d.collecting(n),
		}, func(s string) bool { return s == "" }), "; ")))
	}
	return strings.Join(out, ", ")
}

// SlowIn returns how many edits took longer than some milliseconds, in each part of the window that is so long.
func (d Drift) SlowIn(part time.Duration, millis float64) []int {
	out := make([]int, max(1, int(d.To.Sub(d.From)/part)))
	for i, at := range d.Edited {
		if d.Millis[i] > millis {
			out[min(int(at.Sub(d.From)/part), len(out)-1)]++
		}
	}
	return out
}

// Beside keeps those of the collections of the source's API server that were under way in the window. What was under
// way at its end is reported when it is over.
func (d *Drift) Beside(all []controlplane.Collection) {
	d.Collections = nil
	for _, c := range all {
		if c.Ended().After(d.From) && c.Began.Before(d.To) {
			d.Collections = append(d.Collections, c)
		}
	}
}

// collecting says that the source's API server collected its garbage in a second of the window; empty if it did not.
func (d Drift) collecting(n int) string {
	begin, end := d.From.Add(time.Duration(n)*time.Second), d.From.Add(time.Duration(n+1)*time.Second)
	for _, c := range d.Collections {
		if c.Began.Before(end) && c.Ended().After(begin) {
			return "the source collects"
		}
	}
	return ""
}

// Collected is for how long the source's API server collected its garbage in the window.
func (d Drift) Collected() (sum time.Duration) {
	for _, c := range d.Collections {
		sum += min(c.Ended().Sub(d.From), c.Length, d.To.Sub(c.Began), d.To.Sub(d.From))
	}
	return sum
}

// Ask asks a target for its kube-system namespace over a connection of its own, as one who connects for the first time.
func Ask(ctx context.Context, target *fleetsim.Target) (time.Duration, error) {
	began := time.Now()
	config, err := clientcmd.RESTConfigFromKubeConfig(target.Kubeconfig())
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", target.Name(), err)
	}
	config.UserAgent = reference
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", target.Name(), err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}, Timeout: time.Minute}
	defer web.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/kube-system", nil)
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", target.Name(), err)
	}
	request.Header.Set("Authorization", "Bearer "+config.BearerToken)
	request.Header.Set("User-Agent", reference)
	request.Header.Set("Accept", "application/json")
	answer, err := web.Do(request)
	if err != nil {
		return 0, fmt.Errorf("asking %s: %w", target.Name(), err)
	}
	defer func() { _ = answer.Body.Close() }() // it is not read
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("asking %s: it answers %s", target.Name(), answer.Status)
	}
	return time.Since(began), nil
}
