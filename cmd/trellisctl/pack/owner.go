package pack

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// pageSize is how many ManagedResources are read at once.
const pageSize = 500

// mayWrite returns an error for an existing Secret that was not packed for the ManagedResource. Names may collide: the
// second Secret of "a" and the first one of "a-2" have the same name.
func (p *packer) mayWrite(ctx context.Context, source *cli.Source, s *corev1.Secret) error {
	name, live := cli.Name(source.Scheme(), s), &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	err := source.Get(ctx, client.ObjectKeyFromObject(s), live)
	switch packedFor := live.Labels[PackedLabel]; {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading %s: %w", name, err)
	case live.DeletionTimestamp != nil:
		return refuseGoing(name)
	case packedFor == "":
		return cli.Refused("%s exists and was not packed for ManagedResource %s: take another --name, "+
			"or give it the label %s=%s if it may be overwritten", name, p.options.Name, PackedLabel, p.options.Name)
	case packedFor != p.options.Name:
		return cli.Refused("%s was packed for ManagedResource %s and not for ManagedResource %s: take another --name",
			name, packedFor, p.options.Name)
	}
	own := resourcesv1alpha1.GroupVersion.WithKind("ManagedResource").GroupKind()
	for _, owner := range live.OwnerReferences {
		gk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()
		if gk != own || owner.Name != p.options.Name { // the UID may be that of an earlier one
			return cli.Refused("%s belongs to %s %s and not to ManagedResource %s: take another --name, "+
				"or remove that ownerReference", name, owner.Kind, owner.Name, p.options.Name)
		}
	}
	return nil
}

func refuseGoing(name string) error {
	return cli.Refused("%s is being deleted, perhaps with a former ManagedResource: try again when it is gone", name)
}

// sharedSecrets are the names of those Secrets that other ManagedResources refer to.
func (p *packer) sharedSecrets(
	ctx context.Context, source *cli.Source, secrets []*corev1.Secret,
) (sets.Set[string], error) {
	ours, shared := sets.New[string](), sets.New[string]()
	for _, s := range secrets {
		ours.Insert(s.Name)
	}
	for token := ""; ; {
		page := &resourcesv1alpha1.ManagedResourceList{}
		err := source.List(ctx, page, client.InNamespace(source.Namespace), client.Limit(pageSize), client.Continue(token))
		if err != nil {
			return nil, fmt.Errorf("listing the ManagedResources of %s: %w", source.Namespace, err)
		}
		for i := range page.Items {
			other := &page.Items[i]
			for _, ref := range other.Spec.SecretRefs {
				if other.Name == p.options.Name || !ours.Has(ref.Name) || shared.Has(ref.Name) {
					continue
				}
				shared.Insert(ref.Name)
				p.env.Warn("secret/%s gets no owner and stays when ManagedResource %s is deleted: "+
					"ManagedResource %s refers to it, too", ref.Name, p.options.Name, other.Name)
			}
		}
		if token = page.Continue; token == "" {
			return shared, nil
		}
	}
}
