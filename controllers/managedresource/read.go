package managedresource

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/semaphore"
)

// secretNames are the Secrets that are read for a ManagedResource, none if there are too many.
func secretNames(mr *resourcesv1alpha1.ManagedResource) []types.NamespacedName {
	names, err := references.Of(mr)
	if err != nil {
		return nil
	}
	return names
}

// secretError is a Secret that cannot be read.
type secretError struct {
	name types.NamespacedName
	err  error
}

func (e *secretError) Error() string {
	return fmt.Sprintf("Could not read Secret %s: %v", e.name, e.err)
}
func (e *secretError) Unwrap() error { return e.err }

// tooLargeError is content that is over a bound as a whole, so that nothing of it is applied.
type tooLargeError struct{ reason, message string }

func (e *tooLargeError) Error() string { return e.message }

// isContentError tells whether an error is about the content of the ManagedResource, and is to be reported in
// its conditions.
func isContentError(err error) bool {
	var secret *secretError
	var large *tooLargeError
	return errors.As(err, &secret) || errors.As(err, &large)
}

// read gets the Secrets one by one and decodes them, within the budget for bundles: what it returns may be used until
// the end of the run or the next read. The returned input belongs to the content that was read. Errors are those of
// isContentError, a bundle.BusyError that ends the run, and those of the source and of ctx.
func (r *reconciler) read(ctx context.Context, work *run) (b *bundle.Bundle, input string, err error) {
	names, err := references.Of(work.mr)
	if err != nil {
		return nil, "", &tooLargeError{reason: resourcesv1alpha1.ReasonContentTooLarge, message: err.Error()}
	}
	session, err := r.beginSession(ctx, work)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			session.Close() // before its conditions are written
		}
	}()
	versions := make([]secretindex.Version, 0, len(names))
	for _, name := range names {
		secret, err := r.readSecret(ctx, name)
		if err != nil {
			return nil, "", &secretError{name: name, err: err}
		}
		versions = append(versions, secretindex.Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion})
		err = session.Add(bundle.Source{
			Namespace: name.Namespace, Name: name.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			Data: secret.Data,
		})
		if errors.Is(err, bundle.ErrTooManyBytes) {
			message := fmt.Sprintf("Not applied: %v. Nothing was changed; split the ManagedResource.", err)
			return nil, "", &tooLargeError{reason: resourcesv1alpha1.ReasonContentTooLarge, message: message}
		}
		if err != nil {
			return nil, "", err
		}
	}
	b, kept, err := session.Decode(ctx, !work.class.DryRun) // a dry run corrects nothing
	if err != nil {
		return nil, "", err
	}
	r.memory.hadRoom(work.name)
	input = inputOf(work, r.managedBy, versions)
	if !work.class.DryRun {
		r.memory.read(work.name, input, kept)
	}
	return b, input, nil
}

// readSecret reads a Secret from the source, and notes what it found.
func (r *reconciler) readSecret(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	if name.Name == "" {
		return nil, errors.New("the reference has no name")
	}
	secret := &corev1.Secret{}
	reading := r.secrets.Begin(name)
	err := r.live.Get(ctx, name, secret)
	switch {
	case err == nil:
		reading.Found(secretindex.Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion})
	case apierrors.IsNotFound(err):
		reading.Found(secretindex.Version{})
	}
	return secret, err
}

// lookAtSecret returns the version of a Secret in the source without its data. One that does not exist has the zero
// version.
func (r *reconciler) lookAtSecret(ctx context.Context, name types.NamespacedName) (secretindex.Version, error) {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	reading := r.secrets.Begin(name)
	err := r.live.Get(ctx, name, secret)
	if client.IgnoreNotFound(err) != nil {
		return secretindex.Version{}, fmt.Errorf("looking at Secret %s: %w", name, err)
	}
	version := secretindex.Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion} // zero if it was not found
	reading.Found(version)
	return version, nil
}

// torn tells whether a Secret has changed since read returned input. Secrets are read one after the other, so an object
// that was moved from one to another meanwhile may be in neither of what was read, although it was wanted all the time.
func (r *reconciler) torn(ctx context.Context, work *run, input string) (bool, error) {
	names, err := references.Of(work.mr)
	if err != nil || len(names) < 2 {
		return false, err
	}
	versions := make([]secretindex.Version, 0, len(names))
	for _, name := range names {
		version, err := r.lookAtSecret(ctx, name)
		if err != nil {
			return false, err
		}
		versions = append(versions, version)
	}
	return inputOf(work, r.managedBy, versions) != input, nil
}

// recall is read for an input that was applied, and reads the Secrets only if their content is not kept: correcting an
// object needs no request to the source, which may be busy. If a Secret has changed meanwhile, its event makes
// everything be applied again; and the fence of the term (package leader) prevents a former leader from writing.
func (r *reconciler) recall(ctx context.Context, work *run, input string) (*bundle.Bundle, string, error) {
	kept := r.memory.content(work.name, input)
	if kept == nil {
		return r.read(ctx, work)
	}
	session, err := r.beginSession(ctx, work)
	if err != nil {
		return nil, "", err
	}
	names := secretNames(work.mr)
	sources := make([]bundle.Source, 0, len(names))
	for _, name := range names {
		sources = append(sources, bundle.Source{Namespace: name.Namespace, Name: name.Name})
	}
	b, err := session.Open(ctx, kept, sources)
	if err != nil {
		return nil, "", err
	}
	r.memory.hadRoom(work.name)
	return b, input, nil
}

// beginSession begins the use of a bundle, which ends with the run.
func (r *reconciler) beginSession(ctx context.Context, work *run) (*bundle.Session, error) {
	work.endSession()
	owner := semaphore.Owner{Namespace: work.name.Namespace, Name: work.target.Name}
	session, err := r.bundles.Begin(ctx, owner, r.parallelObjects, r.memory.need(work.name))
	if err != nil {
		return nil, err
	}
	work.session = session
	return session, nil
}

// endSession gives back what the run has of the budget for bundles. The bundle must not be used any more.
func (r *run) endSession() {
	if r.session != nil {
		r.session.Close()
		r.session = nil
	}
}

// cannotRead reports what is wrong with the content as a whole. A missing Secret is read after its event; other
// failures are retried.
func (r *reconciler) cannotRead(ctx context.Context, work *run, err error) (reconcile.Result, error) {
	if large := (*tooLargeError)(nil); errors.As(err, &large) {
		input, _ := r.input(work)
		return r.retryAfterFailure(work, input), r.notApplied(ctx, work, large.reason, large.message)
	}
	if err := r.notApplied(ctx, work, resourcesv1alpha1.ReasonCannotReadSecret, err.Error()); err != nil {
		return reconcile.Result{}, err
	}
	if secret := (*secretError)(nil); errors.As(err, &secret) {
		if version, known := r.secrets.Get(secret.name); known && !version.Exists() {
			return reconcile.Result{}, nil
		}
	}
	return r.retryAfterFailure(work, err.Error()), nil
}
