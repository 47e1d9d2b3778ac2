package histories

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	// hostileResources is how many ManagedResources the hostile namespace has.
	hostileResources = 4
	// literal begins a former representation of the place of ManagedResources that are not bound.
	literal = "unbound/"
	// forged marks the messages that the hostile namespace writes itself.
	forged = "forged"
)

// hostileSpace is a namespace of the source whose owner makes any claims that may harm the others.
func (u universe) hostileSpace() string { return u.prefix + "-hostile" }

// newHostile makes the hostile namespace. It has all that it needs for the same classes as the others.
func (w *world) newHostile(config *rest.Config) (err error) {
	if w.impostor, err = testbed.StartImpostor(config); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.hostileSpace()}}
	if err := w.source.Create(w.ctx, ns); err != nil {
		return fmt.Errorf("creating the hostile namespace: %w", err)
	}
	if err := w.source.Create(w.ctx, testbed.Registration(w.hostileSpace(), "a", w.impostor.Kubeconfig)); err != nil {
		return fmt.Errorf("registering the impostor: %w", err)
	}
	for n := range hostileResources {
		if err := w.source.Create(w.ctx, w.hostileResource(n)); err != nil {
			return fmt.Errorf("creating a hostile ManagedResource: %w", err)
		}
		manifests := []string{}
		for o := n; o < objects; o += hostileResources {
			manifests = append(manifests, w.manifest(o, entry{value: -1}))
		}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.hostileSpace(), Name: resourceName(n)},
			Data: map[string][]byte{"objects.yaml": []byte(strings.Join(manifests, "\n---\n"))}}
		if err := w.source.Create(w.ctx, secret); err != nil {
			return fmt.Errorf("creating hostile content: %w", err)
		}
	}
	return nil
}

func (w *world) hostileResource(n int) *resourcesv1alpha1.ManagedResource {
	return testbed.ManagedResource(w.hostileSpace(), resourceName(n), resourceName(n))
}

// identities are the clusters that the hostile namespace claims: real ones, the former representation of
// ManagedResources that are not bound, and nonsense.
func (w *world) identities(victim int) []string {
	return []string{
		string(w.judge.uids[west]), string(w.judge.uids[east]),
		literal + w.space(spaceOfResource(victim)) + "/" + resourcesv1alpha1.FinalizerBase, "nonsense", "impostor",
	}
}

// forge makes a hostile ManagedResource claim that it is bound to a cluster and lists what a victim lists there.
func (w *world) forge(s Step) error {
	mr := w.hostileResource(s.A)
	cluster := w.identities(s.B)[s.C]
	err := w.patchHostile(mr, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		hubv1alpha1.TargetUIDAnnotation:    cluster,
		resourcesv1alpha1.OriginAnnotation: w.origin(s.B),
	}}})
	if err != nil {
		return err
	}
	var inventory []resourcesv1alpha1.ObjectReference
	for o := range objects {
		ref := resourcesv1alpha1.ObjectReference{}
		ref.APIVersion, ref.Kind = kindOf(o).gvk().ToAPIVersionAndKind()
		ref.Namespace, ref.Name = w.namespace(o), w.name(o)
		if l := w.judge.alive(s.C%clusters, o); l != nil {
			ref.UID = l.uid
		}
		inventory = append(inventory, ref)
	}
	for _, name := range []string{w.namespace(0), w.namespace(len(kinds))} {
		ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: name}
		inventory = append(inventory, resourcesv1alpha1.ObjectReference{ObjectReference: ref})
	}
	status := map[string]any{"resources": inventory, "observedGeneration": 1, "conditions": []any{map[string]any{
		"type": resourcesv1alpha1.ConditionResourcesApplied, "status": "True",
		"reason":  resourcesv1alpha1.ReasonApplySucceeded,
		"message": forged + " for " + w.origin(s.B), "lastTransitionTime": "2026-01-01T00:00:00Z",
		"lastUpdateTime": "2026-01-01T00:00:00Z",
	}}}
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return voidIfGone(w.source.Status().Patch(w.ctx, mr, client.RawPatch(types.MergePatchType, raw)))
}

// pretend gives a hostile ManagedResource finalizers, labels or a class that are not its own, or deletes it, or creates
// it again.
func (w *world) pretend(s Step) error {
	mr := w.hostileResource(s.A)
	switch s.B {
	case 0:
		finalizers := []string{blocker}
		for _, class := range classes[:1+s.C%len(classes)] {
			finalizers = append(finalizers, resourcesv1alpha1.Finalizer(class))
		}
		return w.patchHostile(mr, map[string]any{"metadata": map[string]any{"finalizers": finalizers}})
	case 1:
		return w.patchHostile(mr, map[string]any{"metadata": map[string]any{"finalizers": nil}})
	case 2:
		return w.patchHostile(mr, map[string]any{"metadata": map[string]any{"labels": map[string]any{
			resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault,
			hubv1alpha1.ClusterNameLabel:     registrationName(s.C),
		}}})
	case 3:
		return w.patchHostile(mr, map[string]any{"metadata": map[string]any{"labels": nil},
			"spec": map[string]any{"keepObjects": s.C%2 == 0}})
	case 4:
		return w.patchHostile(mr, map[string]any{"spec": map[string]any{"class": classes[s.C%len(classes)]}})
	case 5:
		return voidIfGone(w.source.Delete(w.ctx, mr))
	default:
		err := w.source.Create(w.ctx, mr)
		if apierrors.IsAlreadyExists(err) {
			return errVoid
		}
		return err
	}
}

// claim makes the impostor claim to be another cluster, or registers the victim's own address with a token that the
// server does not accept.
func (w *world) claim(s Step) error {
	registration := testbed.Registration(w.hostileSpace(), "a", w.impostor.Kubeconfig)
	if s.B == 0 {
		registration.Data["value"] = w.impostor.Intruder
	} else {
		uid := w.identities(0)[s.A]
		w.impostor.Claim(types.UID(uid))
		registration.Annotations = map[string]string{hubv1alpha1.ConfirmIdentityAnnotation: uid}
	}
	if err := w.source.Update(w.ctx, registration); err != nil {
		return voidIfGone(err)
	}
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.hostileSpace(), Name: "a"}}
	patch := fmt.Appendf(nil, `{"status":{"clusterUID":%q}}`, w.identities(0)[s.C])
	return voidIfGone(w.source.Status().Patch(w.ctx, tc, client.RawPatch(types.MergePatchType, patch)))
}

func (w *world) patchHostile(mr *resourcesv1alpha1.ManagedResource, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	err = w.source.Patch(w.ctx, mr, client.RawPatch(types.MergePatchType, raw))
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return errVoid // it is being deleted
	}
	return voidIfGone(err)
}

func voidIfGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return errVoid
	}
	return err
}

// endHostile takes the hostile namespace away, for the next history on these clusters.
func (w *world) endHostile() error {
	err := w.source.Delete(w.ctx, testbed.Registration(w.hostileSpace(), "a", nil))
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	for n := range hostileResources {
		mr := w.hostileResource(n)
		for { // the hub may add its finalizer again
			if err := w.source.Delete(w.ctx, mr); apierrors.IsNotFound(err) {
				break
			} else if err != nil {
				return err
			}
			if err := ignoreVoid(w.patchHostile(mr,
				map[string]any{"metadata": map[string]any{"finalizers": nil}})); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNames judges whether something that the hub writes for the owner of a namespace names another one that the owner
// must not know of: the hostile one for honest ones, and the other way round.
func (j *judge) checkNames(c *call) {
	var texts []string
	var written struct {
		Status struct{ Conditions []struct{ Message string } }
	}
	switch {
	case !c.write() || c.cluster != west || c.via != "":
		return
	case c.resource == "events":
		texts = []string{string(c.body)} // whatever its encoding
	case c.resource == "managedresources" || c.resource == "targetclusters":
		if json.Unmarshal(c.body, &written) != nil {
			return
		}
		for _, condition := range written.Status.Conditions {
			texts = append(texts, condition.Message)
		}
	}
	other := j.hostileSpace()
	if c.namespace == other {
		other = j.prefix + "-space"
	} else if !strings.HasPrefix(c.namespace, j.prefix) {
		return
	}
	for _, text := range texts {
		text = strings.ReplaceAll(text, literal+other, "") // it may see what it wrote itself
		if strings.Contains(text, other) && !strings.Contains(text, forged) {
			j.mu.Lock()
			j.violate("names stay in their namespace", []string{c.namespace}, "%s says: %s", c, text)
			j.mu.Unlock()
		}
	}
}
