package histories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// errVoid is the result of a step that does not apply to the world as it is.
var errVoid = errors.New("void")

// change makes a change of the state and sends it. If sending fails, nothing has changed.
func (w *world) change(f func(s *state), send func(ctx context.Context, s *state) error) error {
	next := w.judge.state.clone()
	f(next)
	w.judge.narrow(next)
	err := send(w.ctx, next)
	if err != nil {
		next = nil
	}
	w.judge.commit(next)
	return err
}

// state is what the world is supposed to be. Only the driver changes it.
func (w *world) state() *state { return w.judge.state }

func (w *world) secretObject(st *state, i int) *corev1.Secret {
	sec := st.secrets[i]
	key, value := "objects.yaml", []byte(w.manifests(sec))
	if sec.brotli || sec.fault == faultBrotli {
		key, value = key+resourcesv1alpha1.BrotliSuffix, testbed.Brotli(value)
	}
	if sec.fault == faultBrotli {
		value = value[:len(value)/2]
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.space(spaceOfSecret(i)), Name: secretName(i)},
		Data:       map[string][]byte{key: value},
	}
}

// editSecret changes a Secret and writes it if it exists.
func (w *world) editSecret(i int, f func(s *secret)) error {
	return w.change(
		func(st *state) { f(&st.secrets[i]) },
		func(ctx context.Context, st *state) error {
			if !st.secrets[i].exists {
				return nil
			}
			return w.source.Update(ctx, w.secretObject(st, i))
		})
}

func (w *world) nextValue() int {
	w.values++
	return w.values
}

func (w *world) toggle(s Step) error {
	v := w.nextValue()
	return w.editSecret(s.A, func(sec *secret) {
		if _, ok := sec.entries[s.B]; ok {
			delete(sec.entries, s.B)
		} else {
			sec.entries[s.B] = entry{value: v}
		}
	})
}

func (w *world) value(s Step) error {
	v := w.nextValue()
	return w.editSecret(s.A, func(sec *secret) {
		for o, e := range sec.entries {
			e.value = v
			sec.entries[o] = e
		}
	})
}

// nth is the object at a place in a Secret, -1 if it is empty.
func nth(s secret, n int) int {
	all := slices.Sorted(maps.Keys(s.entries))
	if len(all) == 0 {
		return -1
	}
	return all[n%len(all)]
}

// move takes an object from one Secret to another one, with two writes: in between it is in both, or in none.
func (w *world) move(s Step) error {
	o := nth(w.state().secrets[s.A], s.C)
	if o < 0 || s.A == s.B {
		return errVoid
	}
	e := w.state().secrets[s.A].entries[o]
	away := func() error { return w.editSecret(s.A, func(sec *secret) { delete(sec.entries, o) }) }
	there := func() error { return w.editSecret(s.B, func(sec *secret) { sec.entries[o] = e }) }
	first, second := away, there
	if s.C%2 == 0 {
		first, second = there, away
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

func (w *world) copy(s Step) error {
	o := nth(w.state().secrets[s.A], s.C)
	if o < 0 || s.A == s.B {
		return errVoid
	}
	e := w.state().secrets[s.A].entries[o]
	return w.editSecret(s.B, func(sec *secret) { sec.entries[o] = e })
}

func (w *world) spoil(s Step) error {
	return w.editSecret(s.A, func(sec *secret) { sec.fault = faultOf(s.B) })
}

func (w *world) mendSecret(s Step) error {
	if w.state().secrets[s.A].fault == faultNone {
		return errVoid
	}
	return w.editSecret(s.A, func(sec *secret) { sec.fault = faultNone })
}

func (w *world) brotli(s Step) error {
	return w.editSecret(s.A, func(sec *secret) { sec.brotli = !sec.brotli })
}

func (w *world) toggleSecret(s Step) error {
	return w.change(
		func(st *state) { st.secrets[s.A].exists = !st.secrets[s.A].exists },
		func(ctx context.Context, st *state) error {
			if st.secrets[s.A].exists {
				return w.source.Create(ctx, w.secretObject(st, s.A))
			}
			return w.source.Delete(ctx, w.secretObject(st, s.A))
		})
}

func (w *world) recreateSecret(s Step) error {
	if !w.state().secrets[s.A].exists {
		return errVoid
	}
	if err := w.toggleSecret(s); err != nil {
		return err
	}
	return w.toggleSecret(s)
}

func (w *world) mode(s Step) error {
	o := nth(w.state().secrets[s.A], s.B)
	if o < 0 {
		return errVoid
	}
	return w.editSecret(s.A, func(sec *secret) {
		e := sec.entries[o]
		e.modeIgnore = !e.modeIgnore
		sec.entries[o] = e
	})
}

func (w *world) objectIgnore(s Step) error {
	o := nth(w.state().secrets[s.A], s.B)
	if o < 0 {
		return errVoid
	}
	return w.editSecret(s.A, func(sec *secret) {
		e := sec.entries[o]
		e.ignore = !e.ignore
		sec.entries[o] = e
	})
}

func (w *world) resourceObject(st *state, m int) *resourcesv1alpha1.ManagedResource {
	r := st.resources[m]
	mr := testbed.ManagedResource(w.space(spaceOfResource(m)), resourceName(m))
	for _, i := range r.refs {
		mr.Spec.SecretRefs = append(mr.Spec.SecretRefs, corev1.LocalObjectReference{Name: secretName(i)})
	}
	if class := classes[r.class]; class != "" {
		mr.Spec.Class = &class
	}
	keep := r.keep
	mr.Spec.KeepObjects = &keep
	mr.Annotations, mr.Labels = map[string]string{}, map[string]string{}
	if r.ignore {
		mr.Annotations[resourcesv1alpha1.IgnoreAnnotation] = "true"
	}
	if r.pick >= 0 {
		mr.Labels[hubv1alpha1.ClusterNameLabel] = registrationName(r.pick)
	}
	return mr
}

// alive reports whether a ManagedResource is there and not about to go.
func (w *world) alive(m int) bool { return w.state().resources[m].wanted }

func (w *world) toggleResource(s Step) error {
	if w.alive(s.A) {
		if s.B > 0 {
			return errVoid // most of them live most of the time
		}
		return w.change(
			func(st *state) { st.resources[s.A].wanted = false },
			func(ctx context.Context, st *state) error { return w.source.Delete(ctx, w.resourceObject(st, s.A)) })
	}
	return w.change(
		func(st *state) { st.resources[s.A].wanted, st.resources[s.A].force = true, false },
		func(ctx context.Context, st *state) error {
			err := w.source.Create(ctx, w.resourceObject(st, s.A))
			if apierrors.IsAlreadyExists(err) {
				return errVoid // its predecessor is not gone yet
			}
			return err
		})
}

func (w *world) recreateResource(s Step) error {
	if !w.alive(s.A) {
		return errVoid
	}
	if err := w.toggleResource(Step{A: s.A}); err != nil {
		return err
	}
	for range 5 {
		if err := w.toggleResource(Step{A: s.A}); !errors.Is(err, errVoid) {
			return err
		}
		time.Sleep(15 * time.Millisecond)
	}
	return nil
}

// editResource changes a ManagedResource that is there, or the next one of the name.
func (w *world) editResource(m int, f func(r *resource)) error {
	return w.change(
		func(st *state) { f(&st.resources[m]) },
		func(ctx context.Context, st *state) error {
			mr, r := w.resourceObject(st, m), st.resources[m]
			value := func(on bool, v string) any {
				if on {
					return v
				}
				return nil
			}
			spec := map[string]any{"secretRefs": mr.Spec.SecretRefs, "keepObjects": r.keep, "class": value(mr.Spec.Class != nil, classes[r.class])}
			patch, err := json.Marshal(map[string]any{
				"spec": spec,
				"metadata": map[string]any{
					"annotations": map[string]any{
						resourcesv1alpha1.IgnoreAnnotation:        value(r.ignore, "true"),
						resourcesv1alpha1.ForceDeletionAnnotation: value(r.force, "true"),
					},
					"labels": map[string]any{hubv1alpha1.ClusterNameLabel: value(r.pick >= 0, registrationName(max(r.pick, 0)))},
				},
			})
			if err != nil {
				return err
			}
			return client.IgnoreNotFound(w.source.Patch(ctx, mr, client.RawPatch(types.MergePatchType, patch)))
		})
}

func (w *world) refs(s Step) error {
	return w.editResource(s.A, func(r *resource) {
		if i := slices.Index(r.refs, s.B); i >= 0 {
			r.refs = slices.Delete(r.refs, i, i+1)
		} else {
			r.refs = append(r.refs, s.B)
		}
	})
}

func (w *world) keep(s Step) error {
	return w.editResource(s.A, func(r *resource) { r.keep = !r.keep })
}

func (w *world) ignore(s Step) error {
	return w.editResource(s.A, func(r *resource) { r.ignore = !r.ignore })
}

// class changes a class. Most of the time it is one that has a target.
func (w *world) class(s Step) error {
	class := []int{0, 1, 0, 1, 2, 0, 1, 3}[s.B]
	if w.state().resources[s.A].class == class {
		return errVoid
	}
	return w.editResource(s.A, func(r *resource) { r.class = class })
}

func (w *world) pick(s Step) error {
	return w.editResource(s.A, func(r *resource) { r.pick = s.B - 1 })
}

func (w *world) force(s Step) error {
	return w.editResource(s.A, func(r *resource) { r.force = !r.force })
}

func (w *world) reconcile(s Step) error {
	if !w.alive(s.A) {
		return errVoid
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, resourcesv1alpha1.OperationAnnotation, resourcesv1alpha1.OperationReconcile)
	return client.IgnoreNotFound(w.source.Patch(w.ctx, w.resourceObject(w.state(), s.A), client.RawPatch(types.MergePatchType, patch)))
}

func (w *world) registrationObject(st *state, r int) *corev1.Secret {
	reg := st.registrations[r]
	out := testbed.Registration(w.space(r/registrations), registrationName(r), w.kubeconfigs[reg.cluster])
	if reg.classB {
		out.Labels[hubv1alpha1.ClassLabel] = "b"
	}
	if reg.confirm {
		out.Annotations = map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: string(w.judge.uids[reg.cluster])}
	}
	return out
}

func (w *world) toggleRegistration(s Step) error {
	return w.change(
		func(st *state) { st.registrations[s.A].exists = !st.registrations[s.A].exists },
		func(ctx context.Context, st *state) error {
			if st.registrations[s.A].exists {
				return w.source.Create(ctx, w.registrationObject(st, s.A))
			}
			return w.source.Delete(ctx, w.registrationObject(st, s.A))
		})
}

func (w *world) editRegistration(r int, f func(r *registration)) error {
	return w.change(
		func(st *state) { f(&st.registrations[r]) },
		func(ctx context.Context, st *state) error {
			if !st.registrations[r].exists {
				return nil
			}
			return w.source.Update(ctx, w.registrationObject(st, r))
		})
}

func (w *world) point(s Step) error {
	return w.editRegistration(s.A, func(r *registration) { r.cluster, r.confirm = s.B, s.C == 1 })
}

func (w *world) confirm(s Step) error {
	return w.editRegistration(s.A, func(r *registration) { r.confirm = true })
}

func (w *world) registrationClass(s Step) error {
	return w.editRegistration(s.A, func(r *registration) { r.classB = !r.classB })
}

func (w *world) pause(s Step) error {
	paused := !w.state().registrations[s.A].paused
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.space(s.A / registrations), Name: registrationName(s.A)}}
	return w.change(
		func(st *state) { st.registrations[s.A].paused = paused },
		func(ctx context.Context, _ *state) error {
			err := w.source.Patch(ctx, tc, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)))
			if apierrors.IsNotFound(err) {
				return errVoid
			}
			return err
		})
}
