package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// deleteOptions reads the options from the body, or from the query if there is none.
func (c *call) deleteOptions() (*metav1.DeleteOptions, error) {
	if err := c.readBody(); err != nil {
		return nil, err
	}
	o := &metav1.DeleteOptions{}
	if len(c.body) > 0 {
		if err := c.mediaType(); err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := json.Unmarshal(c.body, &kind); err != nil {
			return nil, apierrors.NewBadRequest("couldn't get version/kind; json parse error: " + err.Error())
		}
		// Of whatever group: typed clients send the one of what they delete.
		if kind.Kind != "" && kind.Kind != "DeleteOptions" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", kind.Kind, kind.APIVersion))
		}
		if err := json.Unmarshal(c.body, o); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if err := scheme.ParameterCodec.DecodeParameters(c.r.URL.Query(), metav1.SchemeGroupVersion, o); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	return o, nil
}

// delete answers with the object that is being deleted, or a Status once it is gone.
func (c *call) delete() error {
	if err := c.negotiate(); err != nil {
		return err
	}
	o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	object, gone, err := c.remove(c.key(), o)
	if err != nil {
		return err
	}
	if gone && !returnsDeleted(c.group()) {
		c.sendValue(http.StatusOK, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusSuccess,
			Details:  &metav1.StatusDetails{Name: object.Name(), Group: c.group().Group, Kind: c.group().Resource, UID: object.UID()},
		})
		return nil
	}
	code := http.StatusOK
	if !gone && o.OrphanDependents != nil && !*o.OrphanDependents { //nolint:staticcheck // the real one looks at the deprecated field as well
		code = http.StatusAccepted
	}
	c.sendObject(code, object)
	return nil
}

// returnsDeleted reports whether the answer to a deletion is the deleted object, not a Status.
func returnsDeleted(r schema.GroupResource) bool {
	switch r.Group {
	case "":
		return slices.Contains([]string{"namespaces", "pods", "services", "serviceaccounts", "persistentvolumes", "persistentvolumeclaims",
			"podtemplates", "resourcequotas"}, r.Resource)
	case "storage.k8s.io":
		return slices.Contains([]string{"storageclasses", "csidrivers", "csinodes", "volumeattachments", "volumeattributesclasses"}, r.Resource)
	case "resource.k8s.io":
		return true
	}
	return false
}

// deleteCollection deletes the selected objects one by one and answers with a Status.
func (c *call) deleteCollection() error {
	if err := c.negotiate(); err != nil {
		return err
	}
	list, err := c.listOptions()
	if err != nil {
		return err
	}
	o, err := c.deleteOptions()
	if err != nil {
		return err
	}
	selected, err := c.selection(list)
	if err != nil {
		return err
	}
	p, err := c.page(list)
	if err != nil {
		return err
	}
	var deleted []*storage.Object
	for _, object := range p.objects {
		if !selected.matches(object) {
			continue
		}
		if _, _, err := c.remove(object.Key(), o.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		deleted = append(deleted, object)
	}
	p.objects = deleted
	c.sendList(p, 0, false)
	return nil
}

// remove deletes an object, or marks it as being deleted if something has to be done first.
func (c *call) remove(key string, o *metav1.DeleteOptions) (object *storage.Object, gone bool, err error) {
	for range attempts {
		object, gone, err = c.tryRemove(key, o)
		if !errors.Is(err, errChanged) {
			return object, gone, err
		}
	}
	return nil, false, apierrors.NewConflict(c.group(), key, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

func (c *call) tryRemove(key string, o *metav1.DeleteOptions) (object *storage.Object, gone bool, err error) {
	live := c.store.Get(c.group(), key)
	if live == nil {
		return nil, false, apierrors.NewNotFound(c.group(), c.name)
	}
	if err := c.preconditions(live, o.Preconditions); err != nil {
		return nil, false, err
	}
	if c.group() == namespaces && slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, live.Name()) {
		return nil, false, apierrors.NewForbidden(c.group(), live.Name(), errors.New("this namespace may not be deleted"))
	}
	dryRun := len(o.DryRun) > 0
	marked, stays := c.mark(c.decode(live), o)
	w := kinds.Write{Verb: "delete", Manager: managerOf(c.agentName)}
	if stays {
		next, err := storage.New(marked)
		if err != nil {
			return nil, false, apierrors.NewInternalError(err)
		}
		next = next.WithVersion(live.Version())
		if live.SameContent(next) {
			return live, false, c.record(w, live, live, dryRun)
		}
		object = next
	}
	err = c.store.Write(func(tx storage.Tx) error {
		switch {
		case tx.Get(c.group(), key) != live:
			return errChanged
		case dryRun:
			if object == nil {
				object = live
			}
			return nil
		case stays:
			object = tx.Put(c.group(), object)
			c.wrote(w, live, object, object.Version())
			return nil
		}
		if pod := c.ending(live); pod != nil {
			live = tx.Put(c.group(), pod)
			object = live
			c.wrote(w, live, nil, tx.Delete(c.group(), key))
			return nil
		}
		version := tx.Delete(c.group(), key)
		object = live.WithVersion(version)
		c.wrote(w, live, nil, version)
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	if !dryRun {
		c.afterWrite(object)
	}
	return object, !stays, nil
}

func (c *call) preconditions(live *storage.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	early := c.deletesInTwoSteps()
	if p.UID != nil && *p.UID != live.UID() {
		if early {
			return apierrors.NewConflict(c.group(), live.Name(), fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, live.UID())) //nolint:staticcheck // as it is worded
		}
		return apierrors.NewConflict(c.kind(), live.Name(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, live.UID()))
	}
	if version := fmt.Sprint(live.Version()); p.ResourceVersion != nil && *p.ResourceVersion != version {
		if early {
			return apierrors.NewConflict(c.group(), live.Name(), fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, version)) //nolint:staticcheck // as it is worded
		}
		return apierrors.NewConflict(c.kind(), live.Name(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, version))
	}
	return nil
}

// kind is named where kube-apiserver names the kind instead of the resource.
func (c *call) kind() schema.GroupResource {
	return schema.GroupResource{Group: c.group().Group, Resource: c.resource.Kind}
}

// deletesInTwoSteps reports whether a deletion of the resource only marks objects; a controller does the rest.
func (c *call) deletesInTwoSteps() bool {
	return c.group() == namespaces || c.group() == customResources
}

// mark makes of an object what a deletion leaves of it; false: nothing.
func (c *call) mark(u *unstructured.Unstructured, o *metav1.DeleteOptions) (marked *unstructured.Unstructured, stays bool) {
	finalizers := u.GetFinalizers()
	if policy := propagation(o); policy != "" {
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		})
		switch policy {
		case metav1.DeletePropagationOrphan:
			finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
		case metav1.DeletePropagationForeground:
			finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
		}
	}
	if c.group() == customResources && !slices.Contains(finalizers, crdFinalizer) && u.GetDeletionTimestamp() == nil {
		finalizers = append(finalizers, crdFinalizer)
	}
	grace := c.grace(u, o)
	begins := c.deletesInTwoSteps() && u.GetDeletionTimestamp() == nil
	if len(finalizers) == 0 && grace == 0 && c.finalized(u) && !begins {
		return u, false
	}
	now := c.o.Clock()
	switch t := u.GetDeletionTimestamp(); {
	case begins:
		t := metav1.NewTime(now)
		u.SetDeletionTimestamp(&t)
	case t == nil:
		if u.GetGeneration() > 0 {
			u.SetGeneration(u.GetGeneration() + 1)
		}
		setDeletion(u, now, grace)
	case u.GetDeletionGracePeriodSeconds() != nil && grace < *u.GetDeletionGracePeriodSeconds():
		setDeletion(u, now, grace) // it can only become shorter
	default:
		return u, true // nothing is added to a deletion under way
	}
	if len(finalizers) == 0 {
		finalizers = nil
	}
	u.SetFinalizers(finalizers)
	switch c.group() {
	case customResources:
		setCondition(u, now.UTC().Format(time.RFC3339), "Terminating", "True", "InstanceDeletionPending",
			"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon")
	case namespaces:
		_ = unstructured.SetNestedField(u.Object, "Terminating", "status", "phase") // a namespace's status is an object
	}
	return u, true
}

// ending returns the pod as it is seen last: it ends gracefully, if only in no time at all. Nil: it is no pod, or known to be ending.
func (c *call) ending(o *storage.Object) *storage.Object {
	if c.group() != pods || o.Terminating() {
		return nil
	}
	u := c.decode(o)
	u.SetGeneration(u.GetGeneration() + 1)
	setDeletion(u, c.o.Clock(), 0)
	pod, err := storage.New(u)
	if err != nil {
		return nil // it was one before
	}
	return pod
}

func setDeletion(u *unstructured.Unstructured, now time.Time, grace int64) {
	t := metav1.NewTime(now.Add(time.Duration(grace) * time.Second))
	u.SetDeletionTimestamp(&t)
	u.SetDeletionGracePeriodSeconds(&grace)
}

func propagation(o *metav1.DeleteOptions) metav1.DeletionPropagation {
	if orphan := o.OrphanDependents; orphan != nil { //nolint:staticcheck // old clients set it
		if *orphan {
			return metav1.DeletePropagationOrphan
		}
		return metav1.DeletePropagationBackground
	}
	if o.PropagationPolicy != nil {
		return *o.PropagationPolicy
	}
	return ""
}

// grace is how long the object may take to end: only pods that run somewhere do.
func (c *call) grace(u *unstructured.Unstructured, o *metav1.DeleteOptions) int64 {
	node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	if c.group() != pods || node == "" || phase == "Succeeded" || phase == "Failed" {
		return 0
	}
	if o.GracePeriodSeconds != nil {
		return max(*o.GracePeriodSeconds, 0)
	}
	if seconds, ok, _ := unstructured.NestedInt64(u.Object, "spec", "terminationGracePeriodSeconds"); ok {
		return seconds
	}
	return 30
}
