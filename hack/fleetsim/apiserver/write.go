package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds"
	"github.com/trellis-hub/trellis/hack/fleetsim/storage"
)

// errChanged says that an object is no longer what a write was computed from.
var errChanged = errors.New("the object has changed meanwhile")

// attempts is how often a write is computed again because another write was quicker.
const attempts = 10

// patch reads what kind of a patch it is.
func (c *call) patch() error {
	kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	c.verb = "patch"
	switch t := types.PatchType(kind); t {
	case types.JSONPatchType, types.MergePatchType:
		return c.writePatch(kinds.Patch, t)
	case types.StrategicMergePatchType:
		if c.builtIn() {
			return c.writePatch(kinds.Patch, t)
		}
	case types.ApplyYAMLPatchType:
		c.verb = "apply"
		return c.writePatch(kinds.Apply, t)
	}
	if c.builtIn() {
		return serverError(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	return unsupportedMediaType("the body of the request was in an unknown format - accepted media types include: " +
		strings.Join([]string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyYAMLPatchType)}, ", "))
}

// write is a create or an update.
func (c *call) write(verb kinds.Verb) error {
	if err := c.mediaType(); err != nil {
		return err
	}
	return c.writePatch(verb, "")
}

// writePatch reads the request, writes, and answers with what was written.
func (c *call) writePatch(verb kinds.Verb, patch types.PatchType) error {
	if err := c.negotiate(); err != nil {
		return err
	}
	w, dryRun, err := c.writeOptions(verb, patch)
	if err != nil {
		return err
	}
	if err := c.readBody(); err != nil {
		return err
	}
	w.Body = c.body
	done, err := c.commit(w, dryRun)
	c.warn(done.warnings)
	if err != nil {
		return err
	}
	code := http.StatusOK
	if done.created {
		code = http.StatusCreated
	}
	c.sendObject(code, done.object)
	return nil
}

// writeOptions reads the parameters of a write.
func (c *call) writeOptions(verb kinds.Verb, patch types.PatchType) (w kinds.Write, dryRun bool, err error) {
	q := c.r.URL.Query()
	w = kinds.Write{
		Verb: verb, Subresource: c.subresource, PatchType: patch, Manager: q.Get("fieldManager"),
		FieldValidation: q.Get("fieldValidation"), Namespace: c.namespace, Name: c.name, Now: c.o.Clock(),
	}
	o := metav1.PatchOptions{DryRun: q["dryRun"], FieldManager: w.Manager, FieldValidation: w.FieldValidation}
	if q.Has("force") {
		w.Force = q.Get("force") != "false" && q.Get("force") != "0"
		o.Force = &w.Force
	}
	var errs field.ErrorList
	var kind string
	switch verb {
	case kinds.Create:
		kind = "CreateOptions"
		errs = validation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
	case kinds.Update:
		kind = "UpdateOptions"
		errs = validation.ValidateUpdateOptions(&metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation})
	default:
		kind = "PatchOptions"
		errs = validation.ValidatePatchOptions(&o, patch)
	}
	if len(errs) > 0 {
		return w, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
	}
	if w.Manager == "" {
		w.Manager = managerOf(c.agentName)
	}
	return w, len(o.DryRun) > 0, nil
}

// managerOf is the field manager of those who give none.
func managerOf(userAgent string) string {
	name, _, _ := strings.Cut(userAgent, "/")
	var b strings.Builder
	for _, r := range name {
		if b.Len()+len(string(r)) > validation.FieldManagerMaxLength {
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		return "unknown"
	}
	return b.String()
}

// written is what came of a write.
type written struct {
	object   *storage.Object
	created  bool
	warnings []string
}

// commit computes what the write makes of the object and stores that, again if another write was quicker.
func (c *call) commit(w kinds.Write, dryRun bool) (written, error) {
	for range attempts {
		done, err := c.tryCommit(w, dryRun)
		if !errors.Is(err, errChanged) {
			return done, err
		}
	}
	return written{}, apierrors.NewConflict(c.group(), c.name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

func (c *call) tryCommit(w kinds.Write, dryRun bool) (done written, err error) {
	var live *storage.Object
	var before *unstructured.Unstructured
	if w.Verb != kinds.Create {
		if live = c.store.Get(c.group(), c.key()); live != nil {
			before = c.decode(live)
		} else if w.Verb == kinds.Patch || w.Subresource != "" {
			return done, c.notFound()
		}
	}
	result, err := c.resource.Next(before, w)
	done.warnings = result.Warnings
	if err != nil {
		if live == nil && (apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err)) {
			if refused := c.mayCreate(c.store.Get, nameIn(w)); refused != nil {
				return done, refused
			}
		}
		return done, err
	}
	if live != nil && !result.Changed {
		done.object = live
		return done, c.record(w, live, live, dryRun)
	}

	after := result.Object
	done.created = live == nil
	if done.created {
		if after.GetName() == "" {
			after.SetName(generateName(after.GetGenerateName()))
		}
		if after.GetUID() == "" {
			after.SetUID(types.UID(c.uids.next().String()))
		}
		after.SetCreationTimestamp(metav1.NewTime(w.Now))
	}
	next, err := storage.New(after)
	if err != nil {
		return done, apierrors.NewInternalError(err)
	}
	if live != nil && live.SameContent(next) {
		done.object = live
		return done, c.record(w, live, live, dryRun)
	}
	remove := live != nil && live.Terminating() && len(after.GetFinalizers()) == 0 && graceIsOver(before) && c.finalized(after)

	err = c.store.Write(func(tx storage.Tx) error {
		now := tx.Get(c.group(), next.Key())
		switch {
		case done.created && now != nil && w.Verb == kinds.Create:
			err := apierrors.NewAlreadyExists(c.group(), next.Name())
			if now.Terminating() {
				err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
			}
			if refused := c.mayCreate(tx.Get, next.Name()); refused != nil {
				return refused
			}
			return err
		case now != live:
			return errChanged
		}
		if done.created {
			if err := c.mayCreate(tx.Get, next.Name()); err != nil {
				return err
			}
		}
		if dryRun {
			done.object = next
			if live != nil {
				done.object = next.WithVersion(live.Version())
			}
			return nil
		}
		if remove {
			version := c.erase(tx, next.Key())
			done.object = next.WithVersion(live.Version())
			c.wrote(w, live, nil, version)
			return nil
		}
		done.object = tx.Put(c.group(), next)
		c.wrote(w, live, done.object, done.object.Version())
		return nil
	})
	if err != nil {
		return done, err
	}
	if !dryRun {
		c.afterWrite(done.object)
	}
	return done, nil
}

// nameIn is what an object that cannot be created was to be called.
func nameIn(w kinds.Write) string {
	var o metav1.PartialObjectMetadata
	_ = json.Unmarshal(w.Body, &o) // what cannot be read has no name
	return cmp.Or(w.Name, o.Name, o.GenerateName, "Unknown")
}

// generateName makes a name of a prefix as kube-apiserver does.
func generateName(prefix string) string { return prefix[:min(len(prefix), 58)] + rand.String(5) }

// graceIsOver reports whether an object that is being deleted waits for nothing but finalizers.
func graceIsOver(o *unstructured.Unstructured) bool {
	grace := o.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// finalized reports whether nothing but finalizers of its metadata keeps an object: namespaces have others
// in their spec.
func (c *call) finalized(o *unstructured.Unstructured) bool {
	if c.group() != namespaces {
		return true
	}
	finalizers, _, _ := unstructured.NestedSlice(o.Object, "spec", "finalizers")
	return len(finalizers) == 0
}

// mayCreate refuses to create something whose definition or namespace is not there, or is on its way out: nothing would
// delete it.
func (c *call) mayCreate(get func(schema.GroupResource, string) *storage.Object, name string) error {
	if c.resource.Custom() {
		switch definition := get(customResources, c.group().String()); {
		case definition == nil: // it has gone since the request was routed
			return serverError(http.StatusNotFound, "")
		case definition.Terminating():
			return apierrors.NewForbidden(c.group(), name, errors.New("create not allowed while custom resource definition is terminating"))
		}
	}
	if !c.resource.Namespaced {
		return nil
	}
	namespace := get(namespaces, c.namespace)
	if namespace == nil {
		return apierrors.NewNotFound(namespaces, c.namespace)
	}
	if !namespace.Terminating() {
		return nil
	}
	err := apierrors.NewForbidden(c.group(), name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", c.namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", c.namespace), Field: "metadata.namespace",
	})
	return err
}

// record writes to the journal that a write changed nothing, if the object is still the one it was computed from.
func (c *call) record(w kinds.Write, live, next *storage.Object, dryRun bool) error {
	if dryRun {
		return nil
	}
	return c.store.Write(func(tx storage.Tx) error {
		if tx.Get(c.group(), live.Key()) != live {
			return errChanged
		}
		c.wrote(w, live, next, live.Version())
		return nil
	})
}

// wrote adds a write to the journal. The store is locked.
func (c *call) wrote(w kinds.Write, before, after *storage.Object, version uint64) {
	if c.o.Journal == nil {
		return
	}
	o := before
	change := journal.Change{
		Time: time.Now(), Verb: string(w.Verb), Resource: c.journalResource(), ResourceVersion: version,
		Manager: w.Manager, UserAgent: c.agentName, User: c.user.Name, Changed: before != after,
	}
	if c.r != nil && c.agentName == c.r.UserAgent() { // neither a controller nor kube-apiserver itself
		change.Connection = c.r.RemoteAddr
	}
	if before != nil {
		change.Before = before.Digest()
	}
	if after != nil {
		o = after
		change.After = after.Digest()
		if sent, err := time.Parse(time.RFC3339Nano, after.Annotation(journal.SentAtAnnotation)); err == nil {
			change.SentAt = sent
		}
	}
	change.Namespace, change.Name, change.UID = o.Namespace(), o.Name(), o.UID()
	c.o.Journal.Wrote(change)
}
