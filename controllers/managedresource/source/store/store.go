package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/references"
)

// Store reads and writes ManagedResources. Reads come from the informer, but never older than the last own write, even
// if it is unknown whether that was executed: an inventory that goes back in time would lose objects, or delete what
// was left to others, and one that appears again after its deletion would delete all of them.
type Store struct {
	cached client.Reader // informers
	live   client.Reader
	client client.Client // writes
	// observe is called for every write, before anything is done that relies on it.
	observe func(*resourcesv1alpha1.ManagedResource)

	mu      sync.Mutex
	written map[types.NamespacedName]*resourcesv1alpha1.ManagedResource // until the informer has caught up
	gone    map[types.NamespacedName]types.UID                          // the same for what does not exist any longer
	// what the server has may be newer than what is known
	doubted map[types.NamespacedName]bool
	// what the informer showed last of what is being written
	shown map[types.NamespacedName]string
}

// New returns a store that reads from informers and writes by a client, which must not read from them. observe is
// called for every write, before anything is done that relies on it.
func New(cached client.Reader, writes client.Client, observe func(*resourcesv1alpha1.ManagedResource)) *Store {
	return &Store{
		cached: cached, live: writes, client: writes, observe: observe,
		written: map[types.NamespacedName]*resourcesv1alpha1.ManagedResource{}, gone: map[types.NamespacedName]types.UID{},
		doubted: map[types.NamespacedName]bool{}, shown: map[types.NamespacedName]string{},
	}
}

// Get returns a ManagedResource, nil if it does not exist. Its annotations and finalizers may be changed; everything
// else belongs to the informer, and is replaced if at all.
func (s *Store) Get(ctx context.Context, name types.NamespacedName) (*resourcesv1alpha1.ManagedResource, error) {
	s.mu.Lock()
	before := s.written[name] // it may be shown, and dropped, after the informer has given away what it had
	s.mu.Unlock()
	mr := &resourcesv1alpha1.ManagedResource{}
	err := s.cached.Get(ctx, name, mr, client.UnsafeDisableDeepCopy)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading ManagedResource %s: %w", name, err)
	}
	if s.inDoubt(name) {
		if err := s.refresh(ctx, name, mr.UID); err != nil {
			return nil, fmt.Errorf("reading ManagedResource %s after a write that may have failed: %w", name, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.written[name]
	if own == nil && before != nil && before.UID != s.gone[name] {
		own = before
	}
	if own != nil && err == nil && informers.Older(mr.ResourceVersion, own.ResourceVersion) {
		return draft(own), nil // whatever the informer has is older, if only the predecessor of this one
	}
	delete(s.written, name)
	if err == nil && mr.UID == s.gone[name] {
		return nil, nil
	}
	delete(s.gone, name)
	if err != nil {
		return nil, nil
	}
	return draft(mr), nil
}

// draft returns a ManagedResource whose marks may be changed. The lists of its status are replaced, not changed, so it
// has them in common with the informer: an inventory is most of a ManagedResource, and to copy it was a tenth of what a
// hub allocates that starts.
func draft(mr *resourcesv1alpha1.ManagedResource) *resourcesv1alpha1.ManagedResource {
	d := *mr
	d.Annotations, d.Finalizers = maps.Clone(mr.Annotations), slices.Clone(mr.Finalizers)
	return &d
}

// Shown drops what is kept until the informer has caught up, if it shows a ManagedResource as it was written last, or
// later. What is there of it is there in the informer then.
func (s *Store) Shown(mr *resourcesv1alpha1.ManagedResource) {
	name := client.ObjectKeyFromObject(mr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, writing := s.shown[name]; writing {
		s.shown[name] = mr.ResourceVersion
	}
	if own := s.written[name]; own != nil && !informers.Older(mr.ResourceVersion, own.ResourceVersion) {
		delete(s.written, name)
	}
}

// writing has Shown remember what it shows until the function that it returns is called. A watch is often faster than
// the answer to the write: what was written would be kept otherwise until the next change, since the informer does not
// show it again.
func (s *Store) writing(name types.NamespacedName) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown[name] = ""
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.shown, name)
	}
}

// Ahead returns what was last read from the server itself or written to it, if the informer had not caught up when a
// ManagedResource was last asked for; nil otherwise. It is not to be changed.
func (s *Store) Ahead(name types.NamespacedName) *resourcesv1alpha1.ManagedResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[name]
}

// Patch sends the difference between base and mr, of the status or of the annotations and finalizers, and fails on a
// conflict if another client wrote since. On success mr has the metadata of the answer. Nothing is sent if there is no
// difference.
//
// The answer is metadata only: apart from that the object equals mr, since no other client wrote, and an inventory
// costs both sides more than the rest of the call.
func (s *Store) Patch(ctx context.Context, base, mr *resourcesv1alpha1.ManagedResource, status bool) error {
	document := map[string]any{}
	if status {
		if changes := statusChanges(&base.Status, &mr.Status); len(changes) > 0 {
			document["status"] = changes
		}
	} else {
		document = marksChanges(base, mr)
	}
	if len(document) == 0 {
		return nil
	}
	metadata, _ := document["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		document["metadata"] = metadata
	}
	metadata["resourceVersion"] = base.ResourceVersion
	raw, err := json.Marshal(document)
	name := client.ObjectKeyFromObject(mr)
	if err != nil {
		return fmt.Errorf("encoding a change of ManagedResource %s: %w", name, err)
	}
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(resourcesv1alpha1.GroupVersion.WithKind("ManagedResource"))
	answer.Namespace, answer.Name = name.Namespace, name.Name
	patch := client.RawPatch(types.MergePatchType, raw)
	defer s.writing(name)()
	if status {
		err = s.client.Status().Patch(ctx, answer, patch)
	} else {
		err = s.client.Patch(ctx, answer, patch)
	}
	switch {
	case apierrors.IsNotFound(err):
		s.ended(name, base.UID)
	case err != nil && !rejected(err):
		s.distrust(name)
	}
	if err != nil {
		return fmt.Errorf("writing ManagedResource %s: %w", name, err)
	}
	answer.ManagedFields = nil // as the informer has it
	mr.ObjectMeta = answer.ObjectMeta
	s.remember(mr)
	if mr.DeletionTimestamp != nil && len(mr.Finalizers) == 0 {
		s.ended(name, mr.UID)
	}
	return nil
}

// statusChanges is the part of a merge patch that turns one status into another.
func statusChanges(base, status *resourcesv1alpha1.ManagedResourceStatus) map[string]any {
	changes := map[string]any{}
	note := func(field string, before, after any, empty bool) {
		switch {
		case equality.Semantic.DeepEqual(before, after):
		case empty:
			changes[field] = nil
		default:
			changes[field] = after
		}
	}
	note("conditions", base.Conditions, status.Conditions, len(status.Conditions) == 0)
	note("observedGeneration", base.ObservedGeneration, status.ObservedGeneration, status.ObservedGeneration == 0)
	note("resources", base.Resources, status.Resources, len(status.Resources) == 0)
	note("secretsDataChecksum", base.SecretsDataChecksum, status.SecretsDataChecksum, status.SecretsDataChecksum == nil)
	return changes
}

// marksChanges is a merge patch that turns the annotations and finalizers of one ManagedResource into those of another.
func marksChanges(base, mr *resourcesv1alpha1.ManagedResource) map[string]any {
	metadata := map[string]any{}
	annotations := map[string]any{}
	for key, value := range mr.Annotations {
		if before, had := base.Annotations[key]; !had || before != value {
			annotations[key] = value
		}
	}
	for key := range base.Annotations {
		if _, has := mr.Annotations[key]; !has {
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if !slices.Equal(base.Finalizers, mr.Finalizers) {
		metadata["finalizers"] = mr.Finalizers
	}
	if len(metadata) == 0 {
		return nil
	}
	return map[string]any{"metadata": metadata}
}

func (s *Store) remember(mr *resourcesv1alpha1.ManagedResource) {
	s.observe(mr)
	name := client.ObjectKeyFromObject(mr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if shown := s.shown[name]; shown != "" && !informers.Older(shown, mr.ResourceVersion) {
		delete(s.written, name)
		return
	}
	s.written[name] = draft(mr)
}

// ended notes that a ManagedResource does not exist any longer.
func (s *Store) ended(name types.NamespacedName, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, name)
	s.gone[name] = uid
}

// rejected reports whether an error is the answer of a server to a write that it understood and did not execute, though
// it was based on what the server has. A conflict means that it was not; without an answer it is unknown.
func rejected(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsTimeout(err) {
		return false
	}
	return status.Status().Code >= http.StatusBadRequest && status.Status().Code < http.StatusInternalServerError
}

// distrust makes the next get ask the server.
func (s *Store) distrust(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubted[name] = true
}

func (s *Store) inDoubt(name types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubted[name]
}

// refresh asks the server for a ManagedResource that the informer shows with a UID, empty if it shows none.
func (s *Store) refresh(ctx context.Context, name types.NamespacedName, shown types.UID) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	err := s.live.Get(ctx, name, mr)
	switch {
	case err == nil:
		references.Trim(mr) // as the informer has it
		s.remember(mr)
	case apierrors.IsNotFound(err):
		s.ended(name, shown)
	default:
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.doubted, name)
	return nil
}
