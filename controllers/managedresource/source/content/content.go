package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/semaphore"
	"github.com/trellis-hub/trellis/untrusted"
)

// Reader reads the Secrets of ManagedResources.
type Reader struct {
	Live      client.Reader // the source itself
	Secrets   *secretindex.Index
	Bundles   *bundle.Cache
	ManagedBy string
	Parallel  int // objects of a ManagedResource that are applied at the same time
}

// SecretError is a Secret that cannot be read.
type SecretError struct {
	Secret types.NamespacedName
	err    error
}

// Error names the Secret.
func (e *SecretError) Error() string {
	return fmt.Sprintf("Could not read Secret %s: %v", e.Secret, e.err)
}

// Unwrap returns why it cannot be read.
func (e *SecretError) Unwrap() error { return e.err }

// TooLargeError is content that is over a bound as a whole, so that nothing of it is applied.
type TooLargeError struct{ Reason, Message string }

// Error is the message of the condition.
func (e *TooLargeError) Error() string { return e.Message }

// IsError reports whether an error is about the content of the ManagedResource, and is to be reported in its
// conditions.
func IsError(err error) bool {
	var secret *SecretError
	var large *TooLargeError
	return errors.As(err, &secret) || errors.As(err, &large)
}

// secretNames are the Secrets that are read for a ManagedResource, none if there are too many.
func secretNames(mr *resourcesv1alpha1.ManagedResource) []types.NamespacedName {
	names, err := references.Of(mr)
	if err != nil {
		return nil
	}
	return names
}

// engineVersion changes when a new version of the hub would send other objects for the same input; then everything is
// applied once, which is a no-op where nothing differs.
const engineVersion = "3"

// inputOf condenses everything that decides what is applied: the spec, the versions of the Secrets and the settings of
// the hub.
func inputOf(s *run.Subject, managedBy string, secrets []secretindex.Version) string {
	spec, err := json.Marshal(s.MR.Spec)
	if err != nil { // cannot happen for a decoded object; a unique input leads to an apply
		spec = fmt.Append(nil, s.MR.Generation)
	}
	hash := sha256.New()
	for _, part := range []string{engineVersion, s.Class.Name, s.Origin(), managedBy, apply.Description, string(spec)} {
		hash.Write([]byte(part))
		hash.Write([]byte{0})
	}
	for _, v := range secrets {
		hash.Write([]byte(v.UID))
		hash.Write([]byte{'/'})
		hash.Write([]byte(v.ResourceVersion))
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// Input is inputOf the Secrets as far as they are known. current is false if a Secret's version is not known or the
// Secret is missing.
func (c *Reader) Input(s *run.Subject) (text string, current bool) {
	names := secretNames(s.MR)
	versions := make([]secretindex.Version, 0, len(names))
	current = true
	for _, name := range names {
		version, known := c.Secrets.Get(name)
		if !known || !version.Exists() {
			current = false
		}
		versions = append(versions, version)
	}
	return inputOf(s, c.ManagedBy, versions), current
}

// Learn looks up Secrets whose versions are not known. They came while this hub was standing by, after its first list:
// without a look, a new leader would apply again whatever changed since it was started.
func (c *Reader) Learn(ctx context.Context, s *run.Subject) {
	for _, name := range secretNames(s.MR) {
		if _, known := c.Secrets.Get(name); known || name.Name == "" {
			continue
		}
		_, _ = c.lookAt(ctx, name) // what cannot be looked up stays unknown
	}
}

// Missing returns a referenced Secret that is known not to exist.
func (c *Reader) Missing(s *run.Subject) (*SecretError, bool) {
	for _, name := range secretNames(s.MR) {
		if version, known := c.Secrets.Get(name); known && !version.Exists() {
			return &SecretError{Secret: name, err: apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)}, true
		}
	}
	return nil, false
}

// Read gets the Secrets one by one and decodes them, within the memory for bundles: the bundle may be used until the
// end of the run or the next Read. The returned input belongs to the content that was read. Errors are those of
// IsError, a bundle.BusyError that ends the run, and those of the source and of ctx.
func (c *Reader) Read(ctx context.Context, s *run.Subject) (b *bundle.Bundle, input string, err error) {
	names, err := references.Of(s.MR)
	if err != nil {
		return nil, "", &TooLargeError{Reason: resourcesv1alpha1.ReasonContentTooLarge, Message: err.Error()}
	}
	if err := c.begin(ctx, s); err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			s.EndSession() // before its conditions are written
		}
	}()
	versions := make([]secretindex.Version, 0, len(names))
	for _, name := range names {
		secret, err := c.get(ctx, name)
		if err != nil {
			return nil, "", &SecretError{Secret: name, err: err}
		}
		versions = append(versions, secretindex.Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion})
		err = s.Session.Add(bundle.Source{
			Namespace: name.Namespace, Name: name.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
			Data: secret.Data,
		})
		if errors.Is(err, bundle.ErrTooManyBytes) {
			message := fmt.Sprintf("Not applied: %v. Nothing was changed; split the ManagedResource.", err)
			return nil, "", &TooLargeError{Reason: resourcesv1alpha1.ReasonContentTooLarge, Message: message}
		}
		if err != nil {
			return nil, "", err
		}
	}
	b, kept, err := s.Session.Decode(ctx, !s.Class.DryRun) // a dry run corrects nothing
	if err != nil {
		return nil, "", err
	}
	s.State.Admitted()
	input = inputOf(s, c.ManagedBy, versions)
	if !s.Class.DryRun {
		s.State.Keep(input, kept)
	}
	return b, input, nil
}

// Recall is Read for an input that was applied, and reads the Secrets only if their content is not kept: correcting an
// object needs no request to the source, which may be busy. If a Secret has changed meanwhile, its event makes
// everything be applied again; and the fence of the term (package leader) prevents a former leader from writing.
func (c *Reader) Recall(ctx context.Context, s *run.Subject, input string) (*bundle.Bundle, string, error) {
	kept := s.State.Kept(input)
	if kept == nil {
		return c.Read(ctx, s)
	}
	if err := c.begin(ctx, s); err != nil {
		return nil, "", err
	}
	names := secretNames(s.MR)
	sources := make([]bundle.Source, 0, len(names))
	for _, name := range names {
		sources = append(sources, bundle.Source{Namespace: name.Namespace, Name: name.Name})
	}
	b, err := s.Session.Open(ctx, kept, sources)
	if err != nil {
		return nil, "", err
	}
	s.State.Admitted()
	return b, input, nil
}

// begin begins the use of a bundle, which ends with the run.
func (c *Reader) begin(ctx context.Context, s *run.Subject) error {
	s.EndSession()
	owner := semaphore.Owner{Namespace: s.Name.Namespace, Name: s.Target.Name}
	session, err := c.Bundles.Begin(ctx, owner, c.Parallel, s.State.Needs)
	if err != nil {
		return err
	}
	s.Session = session
	return nil
}

// get reads a Secret from the source, and notes what it found.
func (c *Reader) get(ctx context.Context, name types.NamespacedName) (*corev1.Secret, error) {
	if name.Name == "" {
		return nil, errors.New("the reference has no name")
	}
	secret := &corev1.Secret{}
	reading := c.Secrets.Begin(name)
	err := c.Live.Get(ctx, name, secret)
	switch {
	case err == nil:
		reading.Found(secretindex.Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion})
	case apierrors.IsNotFound(err):
		reading.Found(secretindex.Version{})
	}
	return secret, err
}

// lookAt returns the version of a Secret in the source without its data. One that does not exist has the zero version.
func (c *Reader) lookAt(ctx context.Context, name types.NamespacedName) (secretindex.Version, error) {
	secret := metadataOfSecret()
	reading := c.Secrets.Begin(name)
	err := c.Live.Get(ctx, name, secret)
	if client.IgnoreNotFound(err) != nil {
		return secretindex.Version{}, fmt.Errorf("looking at Secret %s: %w", name, err)
	}
	version := secretindex.Version{UID: secret.UID, ResourceVersion: secret.ResourceVersion} // zero if it was not found
	reading.Found(version)
	return version, nil
}

func metadataOfSecret() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// Torn reports whether a Secret has changed since Read returned an input. Secrets are read one after the other, so an
// object that was moved from one to another meanwhile may be in neither of what was read, although it was wanted all
// the time.
func (c *Reader) Torn(ctx context.Context, s *run.Subject, input string) (bool, error) {
	names, err := references.Of(s.MR)
	if err != nil || len(names) < 2 {
		return false, err
	}
	versions := make([]secretindex.Version, 0, len(names))
	for _, name := range names {
		version, err := c.lookAt(ctx, name)
		if err != nil {
			return false, err
		}
		versions = append(versions, version)
	}
	return inputOf(s, c.ManagedBy, versions) != input, nil
}

// emptySecrets is how many Secrets are named that hold no manifest.
const emptySecrets = 5

// EmptiedBy says of a ManagedResource without manifests which Secrets hold none, and who changed them last. What
// changed last comes first, for that is what emptied it.
func (c *Reader) EmptiedBy(ctx context.Context, s *run.Subject) string {
	all := secretNames(s.MR)
	if len(all) == 0 {
		return "spec.secretRefs is empty"
	}
	changes := make([]change, 0, min(len(all), emptySecrets))
	for _, name := range all[:min(len(all), emptySecrets)] {
		changes = append(changes, c.lastChange(ctx, name))
	}
	slices.SortStableFunc(changes, func(a, b change) int { return b.at.Compare(a.at) })
	texts := make([]string, 0, len(changes)+1)
	for _, c := range changes {
		texts = append(texts, c.String())
	}
	if rest := len(all) - len(changes); rest > 0 {
		texts = append(texts, fmt.Sprintf("and %d more Secrets", rest))
	}
	return "no manifest is left in " + strings.Join(texts, ", ")
}

// change is the last change of a Secret, as far as its managed fields show.
type change struct {
	secret types.NamespacedName
	at     time.Time
	by     string
}

func (c change) String() string {
	if c.at.IsZero() {
		return fmt.Sprintf("Secret %s", c.secret)
	}
	return fmt.Sprintf("Secret %s (changed by %s at %s)", c.secret, c.by, c.at.UTC().Format(time.RFC3339))
}

// lastChange reads who changed a Secret last. It is for people, so a failure is not reported.
func (c *Reader) lastChange(ctx context.Context, name types.NamespacedName) change {
	last := change{secret: name}
	secret := metadataOfSecret()
	if err := c.Live.Get(ctx, name, secret); err != nil {
		return last
	}
	for _, entry := range secret.ManagedFields {
		if entry.Time != nil && entry.Time.After(last.at) {
			last.at, last.by = entry.Time.Time, untrusted.Token(entry.Manager)
		}
	}
	return last
}
