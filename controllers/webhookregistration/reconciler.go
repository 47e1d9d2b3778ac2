package webhookregistration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/metrics"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

const (
	// probeTries is how often an API server is asked to call the hub until it has taken up the configuration,
	// failedTries how often it may fail to call it, for it may still use the former one. probePause is the time between
	// two tries.
	probeTries, failedTries, probePause = 20, 3, 500 * time.Millisecond
	// retryPause is the time until a target is looked at again that cannot be attached at present.
	retryPause = 30 * time.Second
)

// reconciler is the Reconciler.
type reconciler struct {
	Options
	faults *multicluster.Faults

	mu    sync.Mutex
	known map[clustercache.ClusterKey]*known
}

// known is what is known of a target that is engaged.
type known struct {
	// hash is that of the material that its configurations are known to have; empty if it is not known.
	hash string
	// user is that of the hub's credential, in the connection that it was asked for.
	user       string
	connection int64
	// written is when something was last written to the target; zero if that is not known.
	written time.Time
}

// Engage implements multicluster.Engager.
func (r *reconciler) Engage(status clustercache.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[status.Cluster] = &known{}
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) {
	r.faults.Forget(cluster)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, cluster)
}

func (r *reconciler) engaged() (keys []clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range r.known {
		keys = append(keys, key)
	}
	return keys
}

func (r *reconciler) note(key clustercache.ClusterKey, change func(*known)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.known[key]; k != nil {
		change(k)
	}
}

// progress counts the targets that do not have the configuration with a hash.
func (r *reconciler) progress(hash string) (p certificates.Progress) {
	all := r.Environment.Clusters.List("")
	for _, key := range r.engaged() {
		if key.Namespace != "" {
			continue
		}
		if source, registered := r.Environment.Clusters.GetStatus(key); registered { // it is not listed
			all = append(all, source)
		}
	}
	for _, status := range all {
		if !r.wanted(status) {
			continue
		}
		r.mu.Lock()
		k := r.known[status.Cluster]
		has := k != nil && k.hash == hash
		r.mu.Unlock()
		switch {
		case has:
		case r.paused(context.Background(), status.Cluster):
			p.Unreachable++ // nothing is written there
		case status.State == clustercache.StateConnected, status.State == clustercache.StateConnecting:
			p.Pending++
		default:
			p.Unreachable++
		}
	}
	return p
}

// wanted reports whether a target is to be attached.
func (r *reconciler) wanted(status clustercache.Status) bool {
	if len(r.Webhooks) == 0 {
		return false
	}
	settings := r.Settings(status)
	for i := range r.Webhooks {
		if r.registers(i, &settings) {
			return true
		}
	}
	return false
}

// leftOver reports whether a target may be attached, whether or not it is to be.
func (r *reconciler) leftOver(key clustercache.ClusterKey) bool {
	if key.Namespace == "" {
		return len(r.Webhooks) > 0 // the source has no TargetCluster that would say so
	}
	tc := r.targetCluster(context.Background(), key) // the callers have no context
	// The condition is written after the configurations.
	return r.Attached.has(key) || tc != nil && conditionOf(tc) != nil
}

// targetCluster returns that of a target; nil if there is none. It belongs to the informer.
func (r *reconciler) targetCluster(ctx context.Context, key clustercache.ClusterKey) *hubv1alpha1.TargetCluster {
	if key.Namespace == "" {
		return nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	if r.Environment.Source.Get(ctx, key, tc, client.UnsafeDisableDeepCopy) != nil {
		return nil // it answers from memory
	}
	return tc
}

func (r *reconciler) paused(ctx context.Context, key clustercache.ClusterKey) bool {
	tc := r.targetCluster(ctx, key)
	return tc != nil && tc.Spec.Paused
}

// Reconcile attaches a target, or detaches it.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, _ types.NamespacedName,
) (reconcile.Result, error) {
	if r.paused(ctx, target.Key()) {
		r.Attached.remove(target.Key())
		return reconcile.Result{}, nil // nothing is written; what is registered is served
	}
	if !r.wanted(target.Status) {
		var result reconcile.Result
		if r.Attached.has(target.Key()) {
			result.RequeueAfter = retryPause // the informer may not have the condition of the last run yet
		}
		return result, r.detach(ctx, target)
	}
	again, err := r.attach(ctx, target)
	if err == nil {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	r.faults.Report(target, err)
	if errors.Is(err, clustercache.ErrConnectionReplaced) || apierrors.IsConflict(err) || ctx.Err() != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, errors.Join(err, r.report(ctx, target, &metav1.Condition{
		Status: metav1.ConditionFalse, Reason: hubv1alpha1.ReasonWebhooksFailed, Message: err.Error(),
	}))
}

// attach brings policies and configurations in line, in the order that the documentation of the package gives.
func (r *reconciler) attach(ctx context.Context, target *multicluster.Target) (again time.Duration, err error) {
	if target.Key().Namespace != "" { // the source has no registration that could go
		r.Attached.add(target.Key())
	}
	settings := r.Settings(target.Status)
	name := r.configurationName(target.Key())
	live, err := readPolicies(ctx, target.Client, name)
	if err != nil {
		return 0, err
	}
	p := r.plan(name, &settings, live)
	reg := &registration{
		endpoint: r.Endpoint, settings: &settings, webhooks: p.calls,
		route: routes.Route{Target: target.Key(), UID: target.Status.UID},
	}
	written, err := writePolicies(ctx, target.Client, p, live, metav1.ObjectMeta{
		Labels:      map[string]string{hubv1alpha1.WebhooksLabel: "true"},
		Annotations: map[string]string{hubv1alpha1.WebhooksTargetAnnotation: metrics.TargetName(target.Key())},
	})
	r.wrote(target, written)
	if err != nil {
		return 0, err
	}
	// What is new has to be in use before what it replaces is deleted.
	after := r.inUse(target)
	if after > 0 && len(p.replaced) > 0 {
		if still, err := r.called(ctx, target, p.replaced); err != nil {
			return 0, err
		} else if len(still) > 0 {
			reg.webhooks, again = r.inOrder(p.calls, still), after
		}
	}
	called, others := p.obsolete(name, &settings, live)
	if err := removePolicies(ctx, target.Client, others); err != nil {
		return 0, err
	}
	condition := p.condition(name)
	if len(reg.webhooks) == 0 {
		if err := removeConfigurations(ctx, target.Client, name); err != nil {
			return 0, err
		}
		if material, _ := r.Store.Material(); material != nil {
			r.note(target.Key(), func(k *known) { k.hash = material.Hash }) // it needs none
		}
		return 0, r.report(ctx, target, condition)
	}
	pause, fault, err := r.attachCalls(ctx, target, reg)
	if err != nil {
		return 0, err
	}
	if fault != nil {
		p.complete(fault)
		return pause, r.report(ctx, target, fault)
	}
	if pause > 0 {
		return pause, nil
	}
	if len(called) > 0 {
		if after := r.inUse(target); after > 0 {
			again = max(again, after)
		} else if err := removePolicies(ctx, target.Client, called); err != nil {
			return 0, err
		}
	}
	return again, r.report(ctx, target, condition)
}

// wrote notes whether something was written just now.
func (r *reconciler) wrote(target *multicluster.Target, written bool) {
	r.note(target.Key(), func(k *known) {
		if written || k.written.IsZero() {
			k.written = r.Environment.Clock.Now()
		}
	})
}

// inUse returns the time until the API server of a target uses what was written last; zero if it does.
func (r *reconciler) inUse(target *multicluster.Target) (after time.Duration) {
	r.note(target.Key(), func(k *known) { after = k.written.Add(r.propagation).Sub(r.Environment.Clock.Now()) })
	return max(0, after)
}

// called are those of some webhooks that a configuration in the target has entries of.
func (r *reconciler) called(
	ctx context.Context, target *multicluster.Target, webhooks []admission.Webhook,
) (called []admission.Webhook, err error) {
	name := types.NamespacedName{Name: r.configurationName(target.Key())}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		if err := target.Client.Get(ctx, name, configuration); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading the configurations of webhooks: %w", err)
		}
	}
	paths := sets.New[string]()
	for i := range mutating.Webhooks {
		paths.Insert(pathsOf(&mutating.Webhooks[i].ClientConfig)...)
	}
	for i := range validating.Webhooks {
		paths.Insert(pathsOf(&validating.Webhooks[i].ClientConfig)...)
	}
	for i := range webhooks {
		if paths.Has(webhooks[i].Path) {
			called = append(called, webhooks[i])
		}
	}
	return called, nil
}

// inOrder returns the webhooks of two lists in the order in which they are called.
func (r *reconciler) inOrder(lists ...[]admission.Webhook) (all []admission.Webhook) {
	in := sets.New[string]()
	for _, list := range lists {
		for i := range list {
			in.Insert(list[i].Name)
		}
	}
	for i := range r.Webhooks {
		if in.Has(r.Webhooks[i].Name) {
			all = append(all, r.Webhooks[i])
		}
	}
	return all
}

// attachCalls brings the configurations in line. If that is not possible yet, pause is the time until it is tried
// again, and fault a condition that says why, unless that is a matter of moments.
func (r *reconciler) attachCalls(
	ctx context.Context, target *multicluster.Target, reg *registration,
) (pause time.Duration, fault *metav1.Condition, err error) {
	material, _ := r.Store.Material()
	if material == nil {
		return retryPause, nil, nil
	}
	reg.material = material
	if reg.user, err = r.user(ctx, target); err != nil {
		return 0, nil, err
	}
	ready := reg.route
	ready.Webhook = server.ReadyPath
	if err := r.Served(ctx, ready, material); err != nil {
		return retryPause, &metav1.Condition{ //nolint:nilerr // the condition has it
			Status: metav1.ConditionFalse, Reason: hubv1alpha1.ReasonWebhooksNotServed,
			Message: "the hub does not serve the webhooks of this target yet: " + err.Error(),
		}, nil
	}
	live := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	name := types.NamespacedName{Name: r.configurationName(target.Key())}
	switch err := target.Client.Get(ctx, name, live); {
	case err == nil:
		// Once they are there, entries with the policy Fail stay until they are switched off.
		reg.all = live.Annotations[hubv1alpha1.WebhooksAttachedAnnotation] == string(target.Status.UID)
	case !apierrors.IsNotFound(err):
		return 0, nil, fmt.Errorf("reading the configurations of webhooks: %w", err)
	}
	if err := r.write(ctx, target, reg); err != nil {
		return 0, nil, err
	}
	r.note(target.Key(), func(k *known) { k.hash = material.Hash })
	attached := reg.all
	if err := r.reach(ctx, target); err != nil {
		return retryPause, unreachable(err, attached), nil
	}
	if !attached {
		reg.all = true
		if err := r.write(ctx, target, reg); err != nil {
			return 0, nil, err
		}
		target.Log.Info("The API server of the target calls the hub's webhooks now", "configuration", name.Name)
	}
	return 0, nil, nil
}

func unreachable(err error, attached bool) *metav1.Condition {
	text := "the API server of the target cannot call the hub, so webhooks whose failure policy is Fail are not " +
		"registered"
	if attached {
		text = "the API server of the target cannot call the hub, so it refuses what webhooks are for whose failure " +
			"policy is Fail"
	}
	return &metav1.Condition{
		Status: metav1.ConditionFalse, Reason: hubv1alpha1.ReasonWebhooksUnreachable,
		Message: text + ": " + err.Error(),
	}
}

// user is that of the hub's own credential in the target, as its API server sees it.
func (r *reconciler) user(ctx context.Context, target *multicluster.Target) (string, error) {
	user := ""
	r.note(target.Key(), func(k *known) {
		if k.connection == target.Status.Connection {
			user = k.user
		}
	})
	if user != "" {
		return user, nil
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := target.Client.Create(ctx, review); err != nil {
		if account := target.Status.ServiceAccount; account.Name != "" {
			return "system:serviceaccount:" + account.Namespace + ":" + account.Name, nil
		}
		return "", fmt.Errorf("asking the target who the hub is there: %w", err)
	}
	user = review.Status.UserInfo.Username
	if user == "" || len(user) > maxUser {
		return "", errors.New("the target does not say who the hub is there")
	}
	r.note(target.Key(), func(k *known) { k.user, k.connection = user, target.Status.Connection })
	return user, nil
}

// maxUser bounds the name of a user, in bytes.
const maxUser = 1024

// write brings both configurations in line. The validating one is the last, because it bears the mark.
func (r *reconciler) write(ctx context.Context, target *multicluster.Target, reg *registration) error {
	meta := r.meta(target, reg)
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: reg.mutating()}
	first, err := put(ctx, target.Client, mutating, &admissionregistrationv1.MutatingWebhookConfiguration{},
		func(live *admissionregistrationv1.MutatingWebhookConfiguration) bool {
			return take(&live.Webhooks, mutating.Webhooks)
		})
	if err != nil {
		return err
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: reg.validating()}
	second, err := put(ctx, target.Client, validating, &admissionregistrationv1.ValidatingWebhookConfiguration{},
		func(live *admissionregistrationv1.ValidatingWebhookConfiguration) bool {
			return take(&live.Webhooks, validating.Webhooks)
		})
	r.wrote(target, first || second)
	return err
}

func (r *reconciler) meta(target *multicluster.Target, reg *registration) metav1.ObjectMeta {
	annotations := map[string]string{
		hubv1alpha1.WebhooksTargetAnnotation: metrics.TargetName(target.Key()),
		hubv1alpha1.WebhooksHashAnnotation:   reg.material.Hash,
	}
	if reg.all {
		annotations[hubv1alpha1.WebhooksAttachedAnnotation] = string(target.Status.UID)
	}
	return metav1.ObjectMeta{
		Name:        r.configurationName(target.Key()),
		Labels:      map[string]string{hubv1alpha1.WebhooksLabel: "true", hubv1alpha1.ExcludeWebhookLabel: "true"},
		Annotations: annotations,
	}
}

// put writes an object that belongs to the hub alone, if it is not as it should be. take takes over what is not
// metadata into the live one, and returns whether that was the same.
func put[T client.Object](
	ctx context.Context, target client.Client, desired, live T, take func(T) bool,
) (written bool, err error) {
	err = target.Get(ctx, client.ObjectKeyFromObject(desired), live)
	switch {
	case apierrors.IsNotFound(err):
		if err := target.Create(ctx, desired); err != nil {
			return false, fmt.Errorf("creating the configuration of webhooks %s: %w", desired.GetName(), redacted{err})
		}
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading the configuration of webhooks %s: %w", desired.GetName(), err)
	}
	return change(ctx, target, desired, live, take)
}

// change does the same for an object that was read.
func change[T client.Object](
	ctx context.Context, target client.Client, desired, live T, take func(T) bool,
) (written bool, err error) {
	same := take(live)
	same = hasAll(live.GetLabels(), desired.GetLabels()) && same
	same = hasAll(live.GetAnnotations(), desired.GetAnnotations()) && same
	if same {
		return false, nil
	}
	live.SetLabels(with(live.GetLabels(), desired.GetLabels()))
	live.SetAnnotations(with(live.GetAnnotations(), desired.GetAnnotations()))
	if err := target.Update(ctx, live); err != nil { // it has the version that was read
		return false, fmt.Errorf("updating the configuration of webhooks %s: %w", desired.GetName(), redacted{err})
	}
	return true, nil
}

func hasAll(all, some map[string]string) bool {
	for key, value := range some {
		if all[key] != value {
			return false
		}
	}
	return true
}

func with(all, some map[string]string) map[string]string {
	merged := map[string]string{}
	for _, m := range []map[string]string{all, some} {
		for key, value := range m {
			merged[key] = value
		}
	}
	return merged
}

// errNotTaken means that the API server has not called the hub, nor tried to.
var errNotTaken = errors.New("the API server does not use the configuration of webhooks yet")

// reach has the target's API server call the hub.
func (r *reconciler) reach(ctx context.Context, target *multicluster.Target) error {
	var err error
	failed := 0
	for try := range probeTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return fmt.Errorf("probing: %w", ctx.Err())
			case <-time.After(probePause): // for another process, whatever the clock of a test says
			}
		}
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: probePath, Verb: "get"},
		}}
		switch err = target.Client.Create(ctx, review); {
		case err == nil:
			err = errNotTaken
		case strings.Contains(err.Error(), server.ReachedMessage):
			return nil
		case !apierrors.IsInternalError(err):
			return withoutCodes(err)
		default:
			if failed++; failed == failedTries {
				return withoutCodes(err)
			}
		}
	}
	return withoutCodes(err)
}

// redacted is an error without the codes of paths: API servers repeat what they do not accept.
type redacted struct{ error }

func (r redacted) Error() string { return routes.WithoutCodes(r.error.Error()) }
func (r redacted) Unwrap() error { return r.error }

func withoutCodes(err error) error { return errors.New(untrusted.Message(redacted{err}.Error())) }

// detach deletes what is registered, and sees to it that it is gone.
func (r *reconciler) detach(ctx context.Context, target *multicluster.Target) error {
	r.note(target.Key(), func(k *known) { k.hash = "" })
	name := r.configurationName(target.Key())
	if err := remove(ctx, target.Client, name); err != nil {
		return err
	}
	r.Attached.remove(target.Key())
	return r.report(ctx, target, nil)
}

// remove deletes the configurations of a name from a target, and the policies whose names begin with it. Policies that
// the hub may not list it has not made.
func remove(ctx context.Context, target client.Client, name string) error {
	if err := removeConfigurations(ctx, target, name); err != nil {
		return err
	}
	live, err := readPolicies(ctx, target, name)
	if err != nil {
		return err
	}
	return removePolicies(ctx, target, live.live)
}

// removeConfigurations deletes the configurations of a name from a target, and sees to it that they are gone.
func removeConfigurations(ctx context.Context, target client.Client, name string) error {
	for _, obj := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		err := target.Get(ctx, types.NamespacedName{Name: name}, obj)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			uid := obj.GetUID()
			err = target.Delete(ctx, obj, client.Preconditions{UID: &uid})
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the configuration of webhooks %s: %w", name, err)
		}
		if err := target.Get(ctx, types.NamespacedName{Name: name}, obj); err == nil {
			return fmt.Errorf("the configuration of webhooks %s is still there, with finalizers %q",
				name, obj.GetFinalizers())
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the configuration of webhooks %s: %w", name, err)
		}
	}
	return nil
}
