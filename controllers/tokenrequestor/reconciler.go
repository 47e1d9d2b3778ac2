package tokenrequestor

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// Reasons and actions of events.
const (
	reasonInvalidAnnotation = "InvalidAnnotation"
	reasonInvalidKubeconfig = "InvalidKubeconfig"
	reasonDenied            = "ServiceAccountDenied"
	reasonAmbiguous         = "TargetAmbiguous"
	reasonNotFound          = "TargetNotFound"
	reasonFailed            = "TokenRequestFailed"
	reasonNotAccepted       = "TokenNotAccepted"

	actionRequest = "RequestToken"
	actionReview  = "ReviewToken"
	actionAssign  = "AssignTarget"
)

// maxToken is how many bytes a token may have: it is sent with each request.
const maxToken = 16 << 10

// reconciler keeps tokens of access Secrets.
type reconciler struct {
	source   client.Client
	secrets  *informers.Metadata
	clusters clustercache.ClusterCache
	settings func(clustercache.Status) (Settings, bool)
	clock    clock.PassiveClock
	jitter   func(time.Duration, float64) time.Duration
	spread   time.Duration
	tokens   *tokens
	metrics  *Metrics
	// observe is called after each run with its result and the version of the Secret that it read; empty if none.
	// Nil: it is not called.
	observe func(clustercache.ClusterKey, types.NamespacedName, string, reconcile.Result, error)
}

// run is the work on one access Secret.
type run struct {
	*reconciler
	target   *multicluster.Target
	name     types.NamespacedName
	settings Settings
	secret   *corev1.Secret
	access   *access
	// selfAccess is true for the Secret by which the target is registered.
	selfAccess bool
	content    *content
	// into is the Secret of the target that has, or gets, the token; nil if the access Secret has. It has no UID if it
	// does not exist.
	into *corev1.Secret
	// due and expiry are those of the token that is there; expiry is zero if that is not known.
	due, expiry time.Time
}

// Reconcile implements multicluster.Reconciler.
func (r *reconciler) Reconcile(
	ctx context.Context, target *multicluster.Target, name types.NamespacedName,
) (result reconcile.Result, err error) {
	secret := &corev1.Secret{}
	if r.observe != nil {
		defer func() { r.observe(target.Key(), name, secret.ResourceVersion, result, err) }()
	}
	settings, on := r.settings(target.Status)
	known := r.secrets.Lookup(name)
	if !on || known == nil || name.Namespace != target.Namespace() || !relevant(known, settings.Class) {
		r.tokens.drop(target.Key(), name)
		return reconcile.Result{}, nil
	}
	if wait := r.first(target, known); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := r.source.Get(ctx, name, secret); err != nil {
		if apierrors.IsNotFound(err) {
			r.tokens.drop(target.Key(), name)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading access Secret %s: %w", name, err)
	}
	if !relevant(secret, settings.Class) || !r.isFor(target, secret) {
		r.tokens.drop(target.Key(), name)
		return reconcile.Result{}, nil
	}
	w := &run{reconciler: r, target: target, name: name, settings: settings, secret: secret}
	if w.due, err = time.Parse(time.RFC3339, secret.Annotations[RenewTimestampAnnotation]); err != nil {
		w.due = r.clock.Now()
	}
	w.selfAccess = name.Name == target.Status.SecretName
	result, err = w.reconcile(ctx)
	if err != nil {
		return result, w.failed(err)
	}
	return result, nil
}

// Forget implements multicluster.Forgetter.
func (r *reconciler) Forget(cluster clustercache.ClusterKey) { r.tokens.forget(cluster) }

// first returns how long to wait before a Secret is looked at that is seen for the first time, soon after the beginning
// of a term, and whose token is not due for a while: those of all targets are not to be reviewed at once.
func (r *reconciler) first(target *multicluster.Target, known client.Object) time.Duration {
	name := client.ObjectKeyFromObject(known)
	due, err := time.Parse(time.RFC3339, known.GetAnnotations()[RenewTimestampAnnotation])
	if r.spread <= 0 || err != nil || due.Sub(r.clock.Now()) < r.spread || !r.tokens.isNew(target.Key(), name, r.spread) {
		return 0
	}
	r.tokens.good(target.Key(), name, due, time.Time{})
	hash := sha256.Sum256([]byte(target.Key().String() + " " + name.String()))
	return time.Duration(binary.BigEndian.Uint64(hash[:]) % uint64(r.spread))
}

// failed remembers a failure, and reports it to the owner of the Secret if the owner can correct it.
func (w *run) failed(err error) error {
	var input *inputError
	status := apierrors.APIStatus(nil)
	switch {
	case errors.Is(err, clustercache.ErrClusterNotConnected), errors.Is(err, clustercache.ErrConnectionReplaced),
		apierrors.IsConflict(err):
		return err // it is tried again at once, or when the target is back
	case errors.As(err, &input):
		w.target.Warn(w.secret, input.reason, actionRequest, untrusted.Message(input.message))
		if input.reason == reasonDenied {
			w.metrics.requested(resultDenied)
			w.tokens.drop(w.target.Key(), w.name) // it is not meant to have a token
			return err
		}
	case errors.As(err, &status):
		w.target.Warn(w.secret, reasonFailed, actionRequest, untrusted.Message(err.Error()))
	}
	w.tokens.failed(w.target.Key(), w.name, w.due, w.expiry)
	return err
}

func (w *run) reconcile(ctx context.Context) (reconcile.Result, error) {
	if w.secret.DeletionTimestamp != nil {
		w.tokens.drop(w.target.Key(), w.name)
		return reconcile.Result{}, w.patch(ctx, w.secret.Data, time.Time{})
	}
	var ignored error
	var err error
	if w.access, ignored, err = parseAccess(w.secret, w.settings); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err) // until the Secret changes
	}
	if input := (*inputError)(nil); errors.As(ignored, &input) {
		w.target.Warn(w.secret, input.reason, actionRequest, input.message)
	}
	if err := w.settings.permit(w.access, w.target.Status.ServiceAccount, w.selfAccess); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	if err := w.read(ctx); err != nil {
		return reconcile.Result{}, err
	}
	wait, err := w.decide(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if wait > 0 {
		// A finalizer that an old version left.
		return reconcile.Result{RequeueAfter: wait}, w.patch(ctx, w.secret.Data, time.Time{})
	}
	return w.renew(ctx)
}

// read reads what has the token.
func (w *run) read(ctx context.Context) (err error) {
	w.into, w.content, err = readToken(ctx, w.target.Client, w.secret, w.access, w.selfAccess)
	if input := (*inputError)(nil); w.into == nil && errors.As(err, &input) {
		return reconcile.TerminalError(err) // until the Secret changes
	}
	return err
}

// readToken reads what has the token: the access Secret, or the Secret of the target that it names, which is into.
func readToken(ctx context.Context, target client.Reader, secret *corev1.Secret, a *access, selfAccess bool) (
	into *corev1.Secret, c *content, err error) {
	data, key := secret.Data, KeyKubeconfig
	if name := a.targetSecret; name.Name != "" {
		into = &corev1.Secret{}
		if err := target.Get(ctx, name, into); client.IgnoreNotFound(err) != nil {
			return into, nil, fmt.Errorf("reading Secret %s of the target: %w", name, err)
		}
		data = into.Data
	}
	if selfAccess {
		if used, has := kubeconfig.KeyOf(secret); has {
			key = used
		}
	}
	c, err = readContent(data, key)
	return into, c, err
}

// decide returns how long the token need not be renewed; zero: it is renewed now.
func (w *run) decide(ctx context.Context) (time.Duration, error) {
	now := w.clock.Now()
	a := assess(now, w.secret, w.into, w.access, w.content, w.target.Status.CA)
	w.expiry = a.expiry
	switch a.renew {
	case renewMissing:
		w.due = now
		return w.pause(now), nil
	case renewCA, renewDue:
		return w.pause(now), nil
	}
	good, err := w.review(ctx, w.content.token())
	switch {
	case err != nil:
		return 0, err
	case !good:
		w.due, w.expiry = now, now
		return w.pause(now), nil
	case a.invalid != nil:
		return 0, a.invalid
	}
	w.tokens.good(w.target.Key(), w.name, a.due, w.expiry)
	return min(a.due.Sub(now), maxLifetime), nil
}

// renewal is why a token is renewed without asking the target about it.
type renewal string

const (
	renewNot     renewal = ""
	renewMissing renewal = "there is no token, or nothing says when it is to be renewed"
	renewCA      renewal = "the certificates of the target's API server are not those beside the token"
	renewDue     renewal = "its time of renewal has come"
)

// assessment is what can be said of a token without asking the target about it.
type assessment struct {
	due, expiry time.Time // zero: not known
	renew       renewal
	invalid     error // of the annotation with the time; of no interest if it is renewed
}

// assess assesses the token of an access Secret. ca are the certificates of the target's API server.
func assess(now time.Time, secret, into *corev1.Secret, wanted *access, c *content, ca []byte) (a assessment) {
	text, token := secret.Annotations[RenewTimestampAnnotation], c.token()
	due, err := time.Parse(time.RFC3339, text)
	if err == nil {
		a.due = due
	} else {
		a.invalid = invalidAnnotation(RenewTimestampAnnotation, text, "is no time such as 2006-01-02T15:04:05Z")
	}
	if text == "" || token == "" || len(token) > maxToken || into != nil && into.UID == "" {
		a.renew = renewMissing
		return a
	}
	if claims, is := kubeconfig.ClaimsOf(token); is {
		a.expiry = claims.Expiry
	}
	switch {
	case wanted.injectCA && !c.hasCA(ca):
		a.renew = renewCA
	case err == nil && !now.Before(due):
		a.renew = renewDue
	}
	return a
}

// pause returns how long a token that is to be renewed has to wait.
func (w *run) pause(now time.Time) time.Duration {
	if rest := w.tokens.rest(w.target.Key(), w.name, now); rest > 0 {
		w.target.Warn(w.secret, reasonNotAccepted, actionReview, "The token was renewed several times in a row, and none "+
			"was good: the target may not accept its own tokens (audiences), or the Secret is changed by another client. "+
			"The next renewal waits.")
		return rest
	}
	return 0
}

// review asks the target whether a token is that of the ServiceAccount.
func (w *run) review(ctx context.Context, token string) (bool, error) {
	good, err := review(ctx, w.target.Client, w.access, token)
	if err != nil {
		w.metrics.reviewed(resultFailed)
		return false, err
	}
	w.metrics.reviewed(map[bool]string{true: resultGood, false: resultBad}[good])
	return good, nil
}

// review asks a target whether a token is that of the ServiceAccount.
func review(ctx context.Context, target client.Client, wanted *access, token string) (bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := target.Create(ctx, review); err != nil {
		return false, redact(fmt.Errorf("reviewing the token of ServiceAccount %s: %w", wanted.account, err), token)
	}
	return review.Status.Authenticated && review.Status.User.Username == wanted.username(), nil
}

// renew requests a token and puts it where it belongs.
func (w *run) renew(ctx context.Context) (reconcile.Result, error) {
	if err := w.ensureServiceAccount(ctx); err != nil {
		w.metrics.requested(resultFailed)
		return reconcile.Result{}, err
	}
	token, expiry, err := w.request(ctx)
	if err != nil {
		w.metrics.requested(resultFailed)
		return reconcile.Result{}, err
	}
	now := w.clock.Now()
	w.tokens.issued(w.target.Key(), w.name, now)
	after := renewIn(now, expiry, w.jitter)
	data, err := w.content.with(token, w.access.injectCA, w.target.Status.CA)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err) // until the Secret changes
	}
	if w.into != nil {
		if err := w.writeInto(ctx, data); err != nil {
			return reconcile.Result{}, redact(err, token)
		}
		data = without(w.secret.Data, KeyToken, KeyCA, KeyKubeconfig)
	}
	if err := w.patch(ctx, data, now.Add(after)); err != nil {
		return reconcile.Result{}, err
	}
	w.metrics.requested(resultIssued)
	w.tokens.renewed(w.target.Key(), w.name, now.Add(after), expiry)
	w.target.Log.V(1).Info("Token is renewed", "serviceAccount", w.access.account.String(), "renewIn", after.String())
	return reconcile.Result{RequeueAfter: after}, nil
}

// ensureServiceAccount creates the ServiceAccount, or brings in line what the Secret says of it.
func (w *run) ensureServiceAccount(ctx context.Context) error {
	account := &corev1.ServiceAccount{}
	err := w.target.Client.Get(ctx, w.access.account, account)
	no := false
	switch {
	case apierrors.IsNotFound(err):
		account.Namespace, account.Name = w.access.account.Namespace, w.access.account.Name
		account.Labels, account.AutomountServiceAccountToken = w.access.labels, &no
		if err := w.target.Client.Create(ctx, account); err != nil {
			return fmt.Errorf("creating ServiceAccount %s: %w", w.access.account, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading ServiceAccount %s: %w", w.access.account, err)
	}
	mounts := account.AutomountServiceAccountToken
	if maps.Equal(account.Labels, w.access.labels) && mounts != nil && !*mounts {
		return nil
	}
	account.Labels, account.AutomountServiceAccountToken = w.access.labels, &no
	if err := w.target.Client.Update(ctx, account); err != nil {
		return fmt.Errorf("updating ServiceAccount %s: %w", w.access.account, err)
	}
	return nil
}

// request requests a token.
func (w *run) request(ctx context.Context) (token string, expiry time.Time, err error) {
	seconds := int64(w.access.expiration / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: w.settings.Audiences, ExpirationSeconds: &seconds,
	}}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = w.access.account.Namespace, w.access.account.Name
	if err := w.target.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", time.Time{}, fmt.Errorf("requesting a token of ServiceAccount %s: %w", w.access.account, err)
	}
	token = request.Status.Token
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, odd) {
		return "", time.Time{}, fmt.Errorf("requesting a token of ServiceAccount %s: the target sent what is none",
			w.access.account)
	}
	return token, request.Status.ExpirationTimestamp.Time, nil
}

// writeInto writes the Secret of the target.
func (w *run) writeInto(ctx context.Context, data map[string][]byte) error {
	w.into.Data = data
	if w.into.UID != "" {
		if err := w.target.Client.Update(ctx, w.into); err != nil {
			return fmt.Errorf("updating Secret %s of the target: %w", w.access.targetSecret, err)
		}
		return nil
	}
	w.into.Namespace, w.into.Name = w.access.targetSecret.Namespace, w.access.targetSecret.Name
	w.into.Type = corev1.SecretTypeOpaque
	if err := w.target.Client.Create(ctx, w.into); err != nil {
		return fmt.Errorf("creating Secret %s of the target: %w", w.access.targetSecret, err)
	}
	return nil
}

// patch writes data, a timestamp unless it is zero, and the absence of the finalizer into the access Secret, if that
// changes anything. It writes to the very version of the Secret that was read, and only while the target is what it
// was.
func (w *run) patch(ctx context.Context, data map[string][]byte, renewAt time.Time) error {
	changes := map[string]any{}
	metadata := map[string]any{}
	if entries := dataChanges(w.secret.Data, data); len(entries) > 0 {
		changes["data"] = entries
	}
	if !renewAt.IsZero() {
		metadata["annotations"] = map[string]string{RenewTimestampAnnotation: renewAt.UTC().Format(time.RFC3339)}
	}
	if kept, has := withoutFinalizer(w.secret.Finalizers); has {
		metadata["finalizers"] = kept
	}
	if len(changes) == 0 && len(metadata) == 0 {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = w.secret.UID, w.secret.ResourceVersion
	changes["metadata"] = metadata
	body, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("encoding the patch of access Secret %s: %w", w.name, err)
	}
	if err := w.target.Valid(); err != nil {
		return fmt.Errorf("writing access Secret %s: %w", w.name, err)
	}
	// The answer must not replace what events are about.
	written := &corev1.Secret{}
	written.Namespace, written.Name = w.name.Namespace, w.name.Name
	err = w.source.Patch(ctx, written, client.RawPatch(types.MergePatchType, body))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing access Secret %s: %w", w.name, err)
	}
	return nil
}
