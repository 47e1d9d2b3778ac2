package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Objects of the victim: one that it keeps, one that it removes, and a namespace and a definition that it removes.
const (
	keptObject      = "kept"
	removedObject   = "removed"
	removedSpace    = "victims"
	removedResource = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + rig.WidgetsName
)

// victim is an honest namespace whose objects another tenant claims.
type victim struct {
	fleet  *fleetsim.Fleet
	target *fleetsim.Target
}

// forgery is what a ManagedResource of another namespace says of itself.
type forgery struct {
	name string
	uid  func(v victim) string
}

var forgeries = []forgery{
	{"the UID of the cluster", func(v victim) string { return string(v.target.UID()) }},
	{"the form of those that are not bound", func(v victim) string {
		return "unbound/" + rig.Namespace(v.target) + "/" + resourcesv1alpha1.FinalizerBase
	}},
}

const victimName = "victim"

func victimObjects(all bool) []string {
	out := []string{testbed.ConfigMap("default", keptObject, "value")}
	if all {
		definition, err := json.Marshal(rig.Widgets())
		if err != nil {
			panic(err) // it is made of maps and texts
		}
		out = append(out, testbed.ConfigMap("default", removedObject, "value"), string(definition),
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+removedSpace+`"}}`)
	}
	return out
}

func exists(ctx context.Context, target *fleetsim.Target, path string) (*map[string]any, error) {
	content, err := target.Call(ctx, fleetsim.Call{Method: "GET", Path: path})
	var refused *fleetsim.CallError
	if errors.As(err, &refused) && refused.Code == 404 {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	var object map[string]any
	if err := json.Unmarshal(content, &object); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &object, nil
}

const configMaps = "/api/v1/namespaces/default/configmaps/"

// forgedCases are those of ManagedResources that claim objects of another namespace.
func forgedCases() []attack {
	var v victim
	return []attack{{
		row: 3, name: "a forged binding to the cluster of another namespace",
		budget: oneTarget, calls: true, quick: true,
		begin: func(ctx context.Context, s *scene) error {
			fleet, err := s.Extra(ctx, 1, fmt.Sprintf("victim-%d-", s.scenes))
			if err != nil {
				return err
			}
			v = victim{fleet: fleet, target: fleet.Targets()[0]}
			s.ends, s.others = append(s.ends, fleet.Stop), append(s.others, rig.Namespace(v.target))
			// The forged ones are there first, and claim everything.
			for i, f := range forgeries {
				if err := s.forge(ctx, fmt.Sprintf("forged-%d", i), f.uid(v)); err != nil {
					return err
				}
			}
			ns := rig.Namespace(v.target)
			if err := s.Writers.Register(ctx, v.target); err != nil {
				return err
			}
			content := testbed.Content(ns, victimName, "objects.yaml", victimObjects(true)...)
			if err := s.Writers.Create(ctx, content); err != nil {
				return err
			}
			return s.Writers.Create(ctx, testbed.ManagedResource(ns, victimName, victimName))
		},
		check: func(ctx context.Context, s *scene) error { return s.judgeForgery(ctx, v) },
	}}
}

// forge creates a ManagedResource that says that it is bound to a cluster and lists the objects of the victim.
func (s *scene) forge(ctx context.Context, name, uid string) error {
	if err := s.write(ctx, testbed.Content(s.namespace, name, "objects.yaml", victimObjects(true)...)); err != nil {
		return err
	}
	mr := testbed.ManagedResource(s.namespace, name, name)
	mr.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: uid}
	mr.Finalizers = []string{resourcesv1alpha1.FinalizerBase}
	if err := s.write(ctx, mr); err != nil {
		return err
	}
	status := map[string]any{"status": map[string]any{"resources": []any{
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": removedObject},
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": keptObject},
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "name": removedSpace},
		map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": rig.WidgetsName,
		},
	}, "observedGeneration": 1}}
	patch, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("status of a forged ManagedResource: %w", err)
	}
	if err := s.tenant.Status().Patch(ctx, mr, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("status of a forged ManagedResource: %w", err)
	}
	return nil
}

// judgeForgery says whether the victim still has its way with its objects.
func (s *scene) judgeForgery(ctx context.Context, v victim) error {
	ns := rig.Namespace(v.target)
	mr := testbed.ManagedResourceRef(ns, victimName)
	applied := s.Observer.Expect("the objects of the victim are applied", []testbed.Ref{mr}, rig.Applied)
	if _, err := applied.Wait(ctx, s.Rig, s.options.Patience); err != nil {
		return err
	}
	before, err := exists(ctx, v.target, configMaps+keptObject)
	if err != nil || before == nil {
		return errors.Join(errors.New("an object of the victim is missing"), err)
	}
	content := testbed.Content(ns, victimName, "objects.yaml", victimObjects(false)...)
	if err := s.Writers.UpdateSecret(ctx, content); err != nil {
		return err
	}
	gone := []string{configMaps + removedObject, "/api/v1/namespaces/" + removedSpace, removedResource}
	what := "the victim's removed objects, Namespace and CRD are gone from its cluster"
	if err := s.Until(ctx, s.options.Patience, 200*time.Millisecond, what, func() (bool, error) {
		for _, path := range gone {
			object, err := exists(ctx, v.target, path)
			if err != nil || object != nil {
				return false, err
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	after, err := exists(ctx, v.target, configMaps+keptObject)
	if err != nil || after == nil {
		return errors.Join(errors.New("what the victim keeps is gone"), err)
	}
	const origin = "resources.gardener.cloud/origin"
	said := fmt.Sprint(metadataOf(*after)["annotations"])
	if !strings.Contains(said, origin) || !strings.Contains(said, ns) {
		return fmt.Errorf("the object that the victim keeps has another origin: %s", said)
	}
	if err := s.Writers.DeleteManagedResources(ctx, ns, victimName); err != nil {
		return err
	}
	deleted := s.Observer.Expect("the ManagedResource of the victim is gone", []testbed.Ref{mr}, rig.Gone)
	if _, err := deleted.Wait(ctx, s.Rig, s.options.Patience); err != nil {
		return err
	}
	return s.namesAcross(ctx, ns)
}

// namesAcross looks for names of this namespace in what another one shows, and the other way round.
func (s *scene) namesAcross(ctx context.Context, other string) error {
	for in, name := range map[string]string{other: s.namespace, s.namespace: strings.TrimPrefix(other, "fleet--")} {
		var shown []client.Object
		var resources resourcesv1alpha1.ManagedResourceList
		var clusters hubv1alpha1.TargetClusterList
		for _, list := range []client.ObjectList{&resources, &clusters} {
			if err := s.Source.Client.List(ctx, list, client.InNamespace(in)); err != nil {
				return fmt.Errorf("reading what namespace %s shows: %w", in, err)
			}
		}
		for i := range resources.Items {
			// Annotations are what the tenant wrote, not what the hub shows.
			resources.Items[i].Annotations = nil
			shown = append(shown, &resources.Items[i])
		}
		for i := range clusters.Items {
			shown = append(shown, &clusters.Items[i])
		}
		for _, object := range shown {
			object.SetManagedFields(nil)
			text, err := json.Marshal(object)
			if err != nil {
				return fmt.Errorf("reading what namespace %s shows: %w", in, err)
			}
			if strings.Contains(string(text), name) {
				return fmt.Errorf("namespace %s shows the name %s: %s", in, name, text)
			}
		}
	}
	return nil
}
