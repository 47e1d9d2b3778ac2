package histories

import (
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// foreigner is the field manager of those who have no business with the objects.
const foreigner = "another-client"

func (w *world) objectsOf(cluster, o int) dynamic.ResourceInterface {
	if ns := w.namespace(o); ns != "" {
		return w.dynamic[cluster].Resource(kindOf(o).GroupVersionResource).Namespace(ns)
	}
	return w.dynamic[cluster].Resource(kindOf(o).GroupVersionResource)
}

// live is the first object from a number on that exists.
func (w *world) live(cluster, from int) *life {
	for i := range objects {
		if l := w.judge.alive(cluster, (from+i)%objects); l != nil {
			return l
		}
	}
	return nil
}

// patchLive patches an object, with a merge patch.
func (w *world) patchLive(l *life, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = w.objectsOf(l.cluster, l.object).Patch(w.ctx, w.name(l.object), types.MergePatchType, raw, metav1.PatchOptions{FieldManager: foreigner})
	return ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return errVoid
	}
	return err
}

func withMetadata(field string, values map[string]any) map[string]any {
	return map[string]any{"metadata": map[string]any{field: values}}
}

// edit changes what the hub wrote: by patch, by update, or by server-side apply under another name.
func (w *world) edit(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil {
		return errVoid
	}
	value := w.nextValue()
	body := w.body(l.object, value, map[string]any{})
	switch s.C {
	case 0:
		return w.patchLive(l, body)
	case 1:
		live, err := w.objectsOf(s.A, l.object).Get(w.ctx, w.name(l.object), metav1.GetOptions{})
		if err != nil {
			return ignoreGone(err)
		}
		for k, v := range content(l.object, value) {
			live.Object[k] = v
		}
		_, err = w.objectsOf(s.A, l.object).Update(w.ctx, live, metav1.UpdateOptions{FieldManager: foreigner})
		return ignoreGone(err)
	default:
		_, err := w.objectsOf(s.A, l.object).Apply(w.ctx, w.name(l.object), &unstructured.Unstructured{Object: body},
			metav1.ApplyOptions{FieldManager: foreigner, Force: true})
		return ignoreGone(err)
	}
}

// deleteLive deletes an object that is as the oracle saw it last.
func (w *world) deleteLive(l *life) error {
	err := w.objectsOf(l.cluster, l.object).Delete(w.ctx, w.name(l.object), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.uid}})
	if err == nil {
		w.judge.deletedByDriver(l)
	}
	return ignoreGone(err)
}

func (w *world) del(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil || l.going {
		return errVoid
	}
	return w.deleteLive(l)
}

// recreate puts an object without any marks in the place of another one.
func (w *world) recreate(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil || l.going {
		return errVoid
	}
	if err := w.deleteLive(l); err != nil {
		return err
	}
	return w.make(Step{A: s.A, B: l.object})
}

// make creates an object that a bundle may list some day.
func (w *world) make(s Step) error {
	body := &unstructured.Unstructured{Object: w.body(s.B, w.nextValue(), map[string]any{})}
	body.SetLabels(map[string]string{foreignLabel: "true"})
	_, err := w.objectsOf(s.A, s.B).Create(w.ctx, body, metav1.CreateOptions{FieldManager: foreigner})
	if apierrors.IsAlreadyExists(err) {
		return errVoid
	}
	return err
}

// strip takes marks off: the label, the origin, or both.
func (w *world) strip(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil {
		return errVoid
	}
	label := map[string]any{resourcesv1alpha1.ManagedByLabel: nil}
	origin := map[string]any{resourcesv1alpha1.OriginAnnotation: nil}
	if s.C != 0 {
		w.judge.exempt(l, "its origin was taken off")
	}
	switch s.C {
	case 0:
		return w.patchLive(l, withMetadata("labels", label))
	case 1:
		return w.patchLive(l, withMetadata("annotations", origin))
	default:
		return w.patchLive(l, map[string]any{"metadata": map[string]any{"labels": label, "annotations": origin}})
	}
}

// steal gives an object a foreign origin.
func (w *world) steal(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil {
		return errVoid
	}
	w.judge.exempt(l, "it has another origin")
	return w.patchLive(l, withMetadata("annotations", map[string]any{resourcesv1alpha1.OriginAnnotation: "elsewhere:some/body"}))
}

// block puts a finalizer on an object, or takes it off.
func (w *world) block(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil {
		return errVoid
	}
	finalizers := []string{blocker}
	if len(l.live.GetFinalizers()) > 0 {
		finalizers = nil
	} else if l.going {
		return errVoid
	}
	err := w.patchLive(l, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	if apierrors.IsInvalid(err) {
		return errVoid // it is going meanwhile
	}
	return err
}

func (w *world) keepObject(s Step) error {
	l := w.live(s.A, s.B)
	if l == nil {
		return errVoid
	}
	var value any = "true"
	if l.live.GetAnnotations()[resourcesv1alpha1.KeepObjectAnnotation] != "" {
		value = nil
	}
	w.judge.exempt(l, "keep-object")
	return w.patchLive(l, withMetadata("annotations", map[string]any{resourcesv1alpha1.KeepObjectAnnotation: value}))
}

// alive is an object that exists, nil if there is none.
func (j *judge) alive(cluster, o int) *life {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l := j.current[cluster][o]; l != nil {
		snapshot := *l
		return &snapshot
	}
	return nil
}

func (j *judge) deletedByDriver(l *life) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known := j.lives[l.uid]; known != nil {
		known.byDriver = true
	}
}

// exempt notes why an object may be left behind.
func (j *judge) exempt(l *life, why string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if known := j.lives[l.uid]; known != nil {
		known.exempt = why
	}
}
