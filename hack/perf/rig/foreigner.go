package rig

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

// foreigner is the user agent of the writer that changes objects of targets.
const foreigner = "foreigner"

// Victim is an object that can be edited.
type Victim struct {
	path string
	// patch is a merge patch, with a place for a value that is new each time; empty: the object is deleted.
	patch string
}

// Victims are those among objects whose edit one write of their owner undoes, and which start nothing else in a target:
// workloads would roll out, and definitions would take their objects with them.
func Victims(objects []*unstructured.Unstructured) []Victim {
	var out []Victim
	for _, object := range objects {
		patch := `{"metadata":{"labels":{"origin":%q}}}`
		switch object.GetKind() {
		case "ConfigMap":
			data, _, _ := unstructured.NestedStringMap(object.Object, "data") // what is none has no keys
			for key := range data {
				patch = fmt.Sprintf(`{"data":{%q:%%q}}`, key)
				break
			}
		case "Secret", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget", "PriorityClass", "StorageClass":
		case "Service":
			patch = ""
		default:
			continue
		}
		out = append(out, Victim{path: path(object), patch: patch})
	}
	return out
}

// path is where an object is.
func path(object *unstructured.Unstructured) string {
	gvk := object.GroupVersionKind()
	gvr, _ := meta.UnsafeGuessKindToResource(gvk) // no kind here has an irregular plural
	prefix := "/apis/" + gvk.Group + "/" + gvk.Version
	if gvk.Group == "" {
		prefix = "/api/" + gvk.Version
	}
	if ns := object.GetNamespace(); ns != "" {
		prefix += "/namespaces/" + ns
	}
	return prefix + "/" + gvr.Resource + "/" + object.GetName()
}

// Foreigner edits objects in targets. In each target it goes through all victims before it comes back to one, because
// the hub delays corrections of an object that is edited again and again.
type Foreigner struct {
	name    string
	victims []Victim

	mu    sync.Mutex
	turns map[string]int // by target
	edits int
}

// NewForeigner makes one who edits these in any target.
func NewForeigner(victims []Victim) *Foreigner {
	return &Foreigner{name: foreigner, victims: victims, turns: map[string]int{}}
}

// Edit edits the next object in a target.
func (f *Foreigner) Edit(ctx context.Context, target *fleetsim.Target) error {
	f.mu.Lock()
	turn, ok := f.turns[target.Name()]
	if !ok {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(target.Name())) // it never fails
		turn = int(hash.Sum32() % 1009)          // so that not all begin with the same object
	}
	f.turns[target.Name()] = turn + 1
	f.edits++
	victim, value := f.victims[turn%len(f.victims)], fmt.Sprintf("edit-%d", f.edits)
	f.mu.Unlock()
	return f.edit(ctx, target, victim, value)
}

func (f *Foreigner) edit(ctx context.Context, target *fleetsim.Target, victim Victim, value string) error {
	call := fleetsim.Call{Method: http.MethodDelete, Path: victim.path, UserAgent: f.name}
	if victim.patch != "" {
		call.Method, call.ContentType, call.Body = http.MethodPatch, "application/merge-patch+json", fmt.Appendf(nil, victim.patch, value)
	}
	_, err := target.Call(ctx, call)
	var answer *fleetsim.CallError
	if errors.As(err, &answer) && answer.Code == http.StatusNotFound {
		return nil // it is not corrected yet, and is counted as pending
	}
	if err != nil {
		return fmt.Errorf("editing %s in %s: %w", victim.path, target.Name(), err)
	}
	return nil
}

// EditEach edits one object in each target, as quickly as it goes.
func (f *Foreigner) EditEach(ctx context.Context, targets []*fleetsim.Target) error {
	return EachOf(ctx, targets, nil, f.Edit)
}

// Pace edits objects in one target after the other, so many a second, for a time.
func (f *Foreigner) Pace(ctx context.Context, targets []*fleetsim.Target, perSecond float64, length time.Duration) error {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	over := time.NewTimer(length)
	defer over.Stop()
	for i := 0; ; i++ {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			if err := f.Edit(ctx, targets[i%len(targets)]); err != nil {
				return err
			}
		}
	}
}

// CorrectionsIn reads the journals: what became of edits, and of changes that were sent, from a time on until another one. Only
// the end of a correction may be later.
func CorrectionsIn(targets []*fleetsim.Target, from, to time.Time) journal.Corrections {
	return correctionsIn(targets, from, to, journal.ByUserAgent(foreigner), ByHub)
}

func correctionsIn(targets []*fleetsim.Target, from, to time.Time, editor, owner journal.Writers) journal.Corrections {
	journals := make([]*journal.Target, 0, len(targets))
	for _, target := range targets {
		journals = append(journals, target.Journal())
	}
	return journal.CorrectionsIn(journals, from, to, editor, owner)
}

// AwaitCorrections waits until nothing that was edited in targets since a time is pending.
func (r *Rig) AwaitCorrections(ctx context.Context, targets []*fleetsim.Target, from time.Time, patience time.Duration) error {
	var pending map[string][]string
	every := 50*time.Millisecond + time.Duration(len(targets))*time.Millisecond // looking takes time of the processors that are measured
	err := r.Until(ctx, patience, every, "all edits are corrected", func() (bool, error) {
		// Those that had none left need not be read again.
		left := targets[:0:0]
		pending = map[string][]string{}
		for _, target := range targets {
			c := CorrectionsIn([]*fleetsim.Target{target}, from, time.Now())
			if len(c.Pending) > 0 {
				left = append(left, target)
				pending[target.Name()] = c.Pending[target.Name()]
			}
		}
		targets = left
		return len(left) == 0, nil
	})
	if err != nil {
		for name, objects := range pending {
			return fmt.Errorf("%w: %d targets have some, such as %s: %s", err, len(pending), name, objects[0])
		}
	}
	return err
}
