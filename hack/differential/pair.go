package differential

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/merge"
)

// Pair is an object and its twin: the engine writes the one, updates write the other.
type Pair struct {
	Target  apply.Target
	Applier *apply.Applier
	// Namespaces and Names are those of the two. Cluster-scoped kinds need different names.
	Namespaces, Names [2]string

	uid  types.UID  // of the first, as an inventory has it
	base apply.Base // of the last manifest
}

// Write has both be what a manifest says, and returns what became of each.
func (p *Pair) Write(ctx context.Context, manifest *unstructured.Unstructured) (errs [2]error) {
	var intents [2]apply.Prepared
	for i := range intents {
		m := manifest.DeepCopy()
		p.name(m, i)
		var err error
		if intents[i], err = apply.Prepare(ctx, m, nil, p.Target.Mapper, nil, apply.Marks{Origin: "ns/mr"}); err != nil {
			return [2]error{err, err}
		}
		intents[i].Base = p.base
	}
	intents[0].UID = p.uid
	out := p.Applier.Run(ctx, p.Target, []apply.Intent{intents[0].Intent}, nil)[0]
	errs[0] = out.Err
	errs[1] = p.update(ctx, intents[1])
	if out.Err == nil {
		p.uid, p.base = out.UID, apply.BaseOf(&intents[0].Entry)
	}
	return errs
}

// update is how a hub without server-side apply writes an object.
func (p *Pair) update(ctx context.Context, in apply.Prepared) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(in.Object.GroupVersionKind())
	err := p.Target.Client.Get(ctx, client.ObjectKeyFromObject(in.Object), live)
	if apierrors.IsNotFound(err) {
		return p.Target.Client.Create(ctx, in.Object.DeepCopy())
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", in.Key, err)
	}
	merged, err := merge.Object(in.Object, live, merge.Options{BaseLabels: p.base.Labels, BaseAnnotations: p.base.Annotations})
	if err != nil {
		return err
	}
	return p.Target.Client.Update(ctx, merged)
}

// Creatable reports whether the server would take a new object of a manifest. Some are taken only in the place of
// another one, whose fields the server drops then.
func (p *Pair) Creatable(ctx context.Context, manifest *unstructured.Unstructured) bool {
	another := manifest.DeepCopy()
	others := &Pair{Namespaces: p.Namespaces, Names: [2]string{"another." + p.Names[0]}}
	others.name(another, 0)
	return p.Target.Client.Create(ctx, another, client.DryRunAll) == nil
}

// Contents are what is compared of the two; empty for one that does not exist.
func (p *Pair) Contents(ctx context.Context, manifest *unstructured.Unstructured, but []string) (contents [2]string, err error) {
	for i := range contents {
		live := p.twin(manifest, i)
		err := p.Target.Client.Get(ctx, client.ObjectKeyFromObject(live), live)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			contents[i], err = Content(live, but)
		}
		if err != nil {
			return contents, err
		}
	}
	return contents, nil
}

// Delete deletes both.
func (p *Pair) Delete(ctx context.Context, manifest *unstructured.Unstructured) error {
	p.uid, p.base = "", apply.Base{}
	for i := range p.Names {
		obj := p.twin(manifest, i)
		if err := p.Target.Client.Delete(ctx, obj, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		finish := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := p.Target.Client.Patch(ctx, obj, finish); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("finishing %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

func (p *Pair) twin(manifest *unstructured.Unstructured, i int) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(manifest.GroupVersionKind())
	p.name(obj, i)
	return obj
}

// name has an object be one of the two. An APIService is called what it serves.
func (p *Pair) name(obj *unstructured.Unstructured, i int) {
	obj.SetNamespace(p.Namespaces[i])
	obj.SetName(p.Names[i])
	if obj.GetKind() != "APIService" {
		return
	}
	obj.SetName("v1." + p.Names[i])
	if spec, ok := obj.Object["spec"].(map[string]any); ok {
		spec["group"] = p.Names[i]
	}
}
