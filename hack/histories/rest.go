package histories

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	// patience is how long the hub may take to bring a mended world to rest.
	patience = 2 * time.Minute
	// late is after what time the world's reasons for not being at rest are noted.
	late = 10 * time.Second
	// quiet is for how long the hub must not have written before the world counts as being at rest.
	quiet = 150 * time.Millisecond
)

// rest mends everything and waits until all is as it should be.
func (w *world) rest() error {
	begin := time.Now()
	w.wire.mend()
	w.hubs.running()
	if err := w.mendSource(); err != nil {
		return fmt.Errorf("mending the source: %w", err)
	}
	if err := w.mendTargets(); err != nil {
		return fmt.Errorf("mending the targets: %w", err)
	}
	var complaints []string
	noted := false
	for deadline := time.Now().Add(patience); ; {
		idle := time.Since(time.Unix(0, w.wire.lastWrite.Load()))
		if complaints = w.judge.complaints(); len(complaints) == 0 && idle > quiet {
			break
		}
		if !noted && time.Since(begin) > late {
			noted = true
			w.judge.noteSlow(complaints)
		}
		if time.Now().After(deadline) {
			w.judge.notAtRest(complaints)
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-w.judge.violated:
			return nil
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
	w.judge.attribute()
	if err := w.clear(); err != nil {
		return fmt.Errorf("clearing what is left behind: %w", err)
	}
	w.judge.atRest(time.Since(begin))
	return nil
}

// mendSource undoes what keeps the hub from its work, and has every object of a cluster listed by one ManagedResource.
func (w *world) mendSource() error {
	goal := w.state().clone()
	for r := range goal.registrations {
		reg := &goal.registrations[r]
		reg.exists, reg.confirm, reg.classB, reg.paused = true, true, r%registrations == 1, false
	}
	for m := range goal.resources {
		r := &goal.resources[m]
		r.ignore, r.force, r.pick, r.refs = false, false, -1, []int{m * secretsEach, m*secretsEach + 1}
		if c := classes[r.class]; c == "foreign" || c == "seed" && spaceOfResource(m) != seedSpace {
			r.class = m % 2
		}
	}
	for i := range goal.secrets {
		goal.secrets[i].exists, goal.secrets[i].fault = true, faultNone
	}
	for c := range clusters {
		for o := range objects {
			taken := false
			for i := range allResources {
				m := (i + o + w.values) % allResources // not always the same wins
				if !goal.resources[m].wanted || goal.target(m) != c {
					continue
				}
				has := false
				for _, s := range goal.resources[m].refs {
					if _, ok := goal.secrets[s].entries[o]; ok && taken {
						delete(goal.secrets[s].entries, o)
					} else if ok {
						has = true
					}
				}
				taken = taken || has
			}
		}
	}
	return w.become(goal)
}

// become changes the source to a goal, thing by thing.
func (w *world) become(goal *state) error {
	for r := range goal.registrations {
		if w.state().registrations[r].paused {
			if _, err := w.do(Step{Op: "pause", A: r}); err != nil {
				return err
			}
		}
		// A TargetCluster may have come back without what was asked of it.
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.space(r / registrations), Name: registrationName(r)}}
		if w.judge.paused(r) {
			w.judge.unpause(r)
			if err := client.IgnoreNotFound(w.source.Patch(w.ctx, tc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":false}}`)))); err != nil {
				return err
			}
		}
		if !w.state().registrations[r].exists {
			if err := w.toggleRegistration(Step{A: r}); err != nil {
				return err
			}
		}
		if w.state().registrations[r] != goal.registrations[r] {
			if err := w.editRegistration(r, func(reg *registration) { paused := reg.paused; *reg = goal.registrations[r]; reg.paused = paused }); err != nil {
				return err
			}
		}
	}
	for i := range goal.secrets {
		if !w.state().secrets[i].exists {
			if err := w.toggleSecret(Step{A: i}); err != nil {
				return err
			}
		}
		if !sameSecret(w.state().secrets[i], goal.secrets[i]) {
			if err := w.editSecret(i, func(s *secret) { *s = goal.secrets[i].clone() }); err != nil {
				return err
			}
		}
	}
	for m := range goal.resources {
		if !sameResource(w.state().resources[m], goal.resources[m]) {
			if err := w.editResource(m, func(r *resource) { *r = goal.resources[m]; r.refs = slices.Clone(r.refs) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func sameSecret(a, b secret) bool {
	if a.exists != b.exists || a.brotli != b.brotli || a.fault != b.fault || len(a.entries) != len(b.entries) {
		return false
	}
	for o, e := range a.entries {
		if other, ok := b.entries[o]; !ok || other != e {
			return false
		}
	}
	return true
}

func sameResource(a, b resource) bool {
	return a.wanted == b.wanted && a.class == b.class && a.keep == b.keep && a.ignore == b.ignore && a.force == b.force && a.pick == b.pick &&
		slices.Equal(a.refs, b.refs)
}

// mendTargets takes foreign finalizers and keep-object annotations off.
func (w *world) mendTargets() error {
	for c := range clusters {
		for o := range objects {
			l := w.judge.alive(c, o)
			if l == nil {
				continue
			}
			if a := l.live.GetAnnotations(); len(l.live.GetFinalizers()) == 0 && a[resourcesv1alpha1.KeepObjectAnnotation] == "" {
				continue
			}
			metadata := map[string]any{"finalizers": nil, "annotations": map[string]any{resourcesv1alpha1.KeepObjectAnnotation: nil}}
			if err := ignoreVoid(w.patchLive(l, map[string]any{"metadata": metadata})); err != nil {
				return err
			}
		}
	}
	return nil
}

func ignoreVoid(err error) error {
	if err == errVoid { //nolint:errorlint // it is never wrapped
		return nil
	}
	return err
}

func (j *judge) paused(r int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.targets[r].paused.on
}

// unpause ends a pause. It is called before the hub can learn of it.
func (j *judge) unpause(r int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.targets[r].paused.set(false, time.Now())
}

// complaints lists what is not yet as it should be.
func (j *judge) complaints() (out []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	complain := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	wantedBy := [clusters][objects]int{}
	for m := range j.seen {
		v, r := &j.seen[m], j.state.resources[m]
		if !r.wanted {
			if v.exists {
				complain("%s is not gone: %s", j.origin(m), describeConditions(v.status))
			}
			continue
		}
		target := j.state.target(m)
		entries, _, _ := j.state.bundle(m)
		applied := resourcesv1alpha1.GetCondition(v.status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
		switch {
		case !v.exists || v.deleting:
			complain("%s does not exist or goes", j.origin(m))
			continue
		case v.bound != target:
			complain("%s is bound to %d instead of %d: %s", j.origin(m), v.bound, target, describeConditions(v.status))
		case v.status.ObservedGeneration != v.generation || applied == nil || applied.Status != resourcesv1alpha1.ConditionTrue ||
			applied.Reason != resourcesv1alpha1.ReasonApplySucceeded:
			complain("%s generation %d/%d: %s", j.origin(m), v.status.ObservedGeneration, v.generation, describeConditions(v.status))
		case !slices.Equal(hubFinalizers(v.finalizers), []string{resourcesv1alpha1.Finalizer(classes[r.class])}):
			complain("%s has finalizers %v", j.origin(m), v.finalizers)
		case len(v.unknown) > 0:
			complain("%s has in its inventory %v", j.origin(m), v.unknown)
		}
		for o, e := range entries {
			if e.modeIgnore {
				if _, listed := v.inventory[o]; listed {
					complain("%s lists %s, which is not to be managed", j.origin(m), j.describe(o))
				}
				continue
			}
			wantedBy[target][o] = m + 1
			if _, listed := v.inventory[o]; !listed {
				complain("%s does not list %s", j.origin(m), j.describe(o))
			}
			if problem := j.wrong(target, o, m, e); problem != "" {
				complain("%s: %s %s", clusterNames[target], j.describe(o), problem)
			}
		}
		for o := range v.inventory {
			if e, ok := entries[o]; !ok || e.modeIgnore {
				complain("%s still lists %s", j.origin(m), j.describe(o))
			}
		}
	}
	for c := range clusters {
		for o, l := range j.current[c] {
			if l == nil || wantedBy[c][o] > 0 {
				continue
			}
			if l.going {
				complain("%s: %s is not gone", clusterNames[c], j.describe(o))
				continue
			}
			if l.exempt != "" {
				continue
			}
			annotations := l.live.GetAnnotations()
			origin := annotations[resourcesv1alpha1.OriginAnnotation]
			if m := j.resourceOfOrigin(origin); m >= 0 && !j.mayLeaveBehind(m, c) {
				complain("%s: %s is left behind by %s", clusterNames[c], j.describe(o), j.origin(m))
			}
			// Those that share it may not leave it to each other: the last one deletes it. Objects to be ignored bear no marks.
			if origin == "" && l.byHub && !l.released && annotations[resourcesv1alpha1.IgnoreAnnotation] == "" && !j.anyMayLeaveBehind(o, c) {
				complain("%s: %s is left behind, and its origin was taken off by the hub", clusterNames[c], j.describe(o))
			}
		}
	}
	return out
}

// wrong says what is wrong with an object that a ManagedResource wants.
func (j *judge) wrong(cluster, o, m int, e entry) string {
	l := j.current[cluster][o]
	switch {
	case l == nil || l.going:
		return "does not exist or goes"
	case e.ignore:
		return ""
	}
	a := l.live.GetAnnotations()
	switch {
	case a[resourcesv1alpha1.OriginAnnotation] != j.origin(m):
		return fmt.Sprintf("has origin %q instead of %s", a[resourcesv1alpha1.OriginAnnotation], j.origin(m))
	case a[valueAnnotation] != fmt.Sprint(e.value):
		return fmt.Sprintf("has value %s instead of %d", a[valueAnnotation], e.value)
	case l.live.GetLabels()[resourcesv1alpha1.ManagedByLabel] != resourcesv1alpha1.ManagedByDefault:
		return "has no managed-by label"
	}
	for field, value := range content(o, e.value) {
		if field == "stringData" {
			continue // not readable; the annotation was compared
		}
		if live := fmt.Sprint(l.live.Object[field]); live != fmt.Sprint(value) {
			return fmt.Sprintf("has %s %s instead of %v", field, live, value)
		}
	}
	return ""
}

func describeConditions(s resourcesv1alpha1.ManagedResourceStatus) string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, fmt.Sprintf("%s=%s/%s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(out, "; ")
}

func (j *judge) noteSlow(complaints []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trace.add("slow: %v", complaints)
	j.stats.Slow = append(j.stats.Slow, fmt.Sprintf("step %d: %s", j.step, strings.Join(complaints, " | ")))
}

func (j *judge) notAtRest(complaints []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var about []string
	for _, c := range complaints {
		for _, word := range strings.FieldsFunc(c, func(r rune) bool { return strings.ContainsRune(" ():,;", r) }) {
			if strings.HasPrefix(word, j.prefix) {
				about = append(about, word)
			}
		}
	}
	j.violate("everything converges", about, "after %s:\n  %s", patience, strings.Join(complaints, "\n  "))
}

// clear deletes what stays behind rightly, so that it does not hide anything in what follows.
func (w *world) clear() error {
	st := w.state()
	wanted := [clusters][objects]bool{}
	for m := range st.resources {
		if t := st.target(m); st.resources[m].wanted && t >= 0 {
			entries, _, _ := st.bundle(m)
			for o := range entries {
				wanted[t][o] = true
			}
		}
	}
	for c := range clusters {
		for o := range objects {
			l := w.judge.alive(c, o)
			if l == nil || wanted[c][o] || !l.byHub {
				continue
			}
			if err := ignoreVoid(w.deleteLive(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// atRest begins a new epoch.
func (j *judge) atRest(took time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rest = time.Now()
	j.epoch, j.gone = [allResources]epoch{}, [spaces][clusters]bool{}
	j.note(j.state)
	for _, l := range j.lives {
		l.exempt = ""
		if l.live == nil {
			continue
		}
		// What was left behind, and is listed by a manifest that asks not to touch it, bears the origin of another one.
		m := j.resourceOfOrigin(l.live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation])
		if m < 0 {
			continue
		}
		if _, listed := j.seen[m].inventory[l.object]; !listed || j.seen[m].bound != l.cluster {
			l.exempt = "it was left behind before"
		}
	}
	j.stats.Rests++
	j.stats.Resting += took
	j.stats.LongestRest = max(j.stats.LongestRest, took)
}
