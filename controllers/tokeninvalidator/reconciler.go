package tokeninvalidator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// Reason and action of the event on a TargetCluster.
const (
	reasonFailed = "TokenInvalidationFailed"
	action       = "InvalidateTokens"
)

// reconciler is the Reconciler.
type reconciler struct {
	controller *multicluster.Controller
	reported   *lru.Cache // the faults that were reported last
	pageSize   int64
	maxPods    int
}

// Reconcile labels a Secret, or finds those to label.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (reconcile.Result, error) {
	if name == wholeTarget {
		r.watchesHaveChanged(target)
		return reconcile.Result{}, nil
	}
	if account, ok := strings.CutPrefix(name.Name, accountPrefix); ok {
		r.enqueue(target, func(namespace string, s secret) bool {
			return namespace == name.Namespace && s.account == account
		})
		return reconcile.Result{}, nil
	}
	result, err := r.secret(ctx, target, name)
	if err != nil {
		r.report(target, err)
	}
	return result, err
}

// watchesHaveChanged reports a watch that fails, or has all Secrets reconciled: what was found while a watch was not
// complete is void.
func (r *reconciler) watchesHaveChanged(target *multicluster.Target) {
	for _, objects := range []*multicluster.Objects{secrets, accounts} {
		if _, err := r.controller.Objects(target.Key(), objects); err != nil {
			r.report(target, fmt.Errorf("watching objects of kind %s: %w", objects.Kind.Kind, err))
			return
		}
	}
	r.enqueue(target, func(string, secret) bool { return true })
}

// enqueue has those Secrets of ServiceAccounts reconciled for which match is true.
func (r *reconciler) enqueue(target *multicluster.Target, match func(namespace string, s secret) bool) {
	var found []types.NamespacedName
	target.Objects(secrets).Range(func(name types.NamespacedName, value any) bool {
		if s, _ := value.(secret); s.account != "" && match(name.Namespace, s) {
			found = append(found, name)
		}
		return true
	})
	r.controller.Enqueue(target.Key(), found...)
}

// secret labels a Secret. It is called again when the watches are complete, if they are not.
func (r *reconciler) secret(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (reconcile.Result, error) {
	kept, found, synced := target.Objects(secrets).Lookup(name)
	s, _ := kept.(secret)
	if !synced || !found || s.account == "" {
		return reconcile.Result{}, nil
	}
	owner := types.NamespacedName{Namespace: name.Namespace, Name: s.account}
	kept, found, synced = target.Objects(accounts).Lookup(owner)
	a, _ := kept.(account)
	switch {
	case !synced:
		return reconcile.Result{}, nil
	case !found:
		return reconcile.Result{}, fmt.Errorf("ServiceAccount %s of the Secret does not exist", untrusted.Name(s.account))
	}
	w := writer{Target: target, name: name, resourceVersion: s.resourceVersion}
	if !s.purpose && !w.label(ctx, PurposeLabel, ptr.To(Purpose)) {
		return reconcile.Result{}, w.err
	}
	switch {
	case !a.rejectsTokens() && s.considered:
		if w.label(ctx, ConsiderLabel, nil) {
			target.Log.Info("Token of a Secret is valid again")
		}
		return reconcile.Result{}, w.err
	case !a.rejectsTokens() || s.considered:
		return reconcile.Result{}, nil
	}
	return r.invalidate(ctx, &w, owner)
}

// invalidate marks a Secret whose token is to be invalid, unless a pod uses it.
func (r *reconciler) invalidate(ctx context.Context, w *writer, owner types.NamespacedName) (reconcile.Result, error) {
	// There is no way back to the same token, so the watch does not do.
	now := &corev1.ServiceAccount{}
	if err := w.Client.Get(ctx, owner, now); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading ServiceAccount %s: %w", untrusted.Name(owner.Name), err)
	}
	_, skipped := now.Labels[SkipLabel]
	if a := (account{automount: now.AutomountServiceAccountToken, skipped: skipped}); !a.rejectsTokens() {
		return reconcile.Result{}, nil // it has changed, and the watch will show that
	}
	pod, err := r.mounting(ctx, w.Client, w.name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if pod != "" {
		w.Log.V(1).Info("Token of a Secret is used by a pod", "pod", pod)
		//nolint:staticcheck // a pod may stay for months: the pause has to grow, as after errors, without being one
		return reconcile.Result{Requeue: true}, nil
	}
	if w.label(ctx, ConsiderLabel, ptr.To("true")) {
		w.Log.Info("Token of a Secret is to be invalid")
	}
	return reconcile.Result{}, w.err
}

// writer changes labels of one Secret.
type writer struct {
	*multicluster.Target
	name            types.NamespacedName
	resourceVersion string // that the Secret has to have
	err             error
}

// label gives the Secret a label, or takes it away if value is nil, and returns whether it did. It did not if there was
// an error, or if the Secret is gone or was replaced, which the watch will show.
func (w *writer) label(ctx context.Context, key string, value *string) bool {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": w.resourceVersion, "labels": map[string]*string{key: value},
	}})
	if err != nil {
		w.err = err
		return false
	}
	object := &metav1.PartialObjectMetadata{} // the answer is to have no data
	object.SetGroupVersionKind(secrets.Kind)
	object.Namespace, object.Name = w.name.Namespace, w.name.Name
	switch err := w.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false
	case err != nil:
		w.err = fmt.Errorf("setting label %s of the Secret: %w", key, err)
		return false
	}
	w.resourceVersion = object.ResourceVersion
	return true
}

// fault identifies what was reported.
type fault struct {
	cluster clustercache.ClusterKey
	what    string
}

// report writes one event about a fault that does not go away by itself, on the TargetCluster. The source as a target
// has none; then there is the log.
func (r *reconciler) report(target *multicluster.Target, err error) {
	key := target.Key()
	lasting := apierrors.IsForbidden(err) || errors.Is(err, errTooMany) || errors.Is(err, untrusted.ErrExceeded) ||
		errors.Is(err, clustercache.ErrTooManyObjects)
	if key.Namespace == "" || !lasting {
		return
	}
	message := untrusted.Message(err.Error())
	f := fault{key, message}
	if _, known := r.reported.Get(f); known {
		return
	}
	about := &hubv1alpha1.TargetCluster{}
	about.Namespace, about.Name = key.Namespace, key.Name
	target.Warn(about, reasonFailed, action, message)
	r.reported.Add(f, nil)
}
