package pack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

const (
	// PackedLabel, on a Secret, names the ManagedResource that it was packed for.
	PackedLabel = "trellisctl.hub.gardener.cloud/packed-for"
	// dataKey is the key of the manifests, the same as in Secrets of Gardener.
	dataKey = "data.yaml"
	// secretPrefix is the prefix of the names of Secrets, the same as in Gardener.
	secretPrefix = "managedresource-" //nolint:gosec // a prefix of names
	// secretLimit is how much data a Secret holds.
	secretLimit = corev1.MaxSecretSize
	// inventoryLimit is how large an inventory may be, see the hub's reason InventoryTooLarge.
	inventoryLimit = 1 << 20
)

// Options say how manifests are packed.
type Options struct {
	// Namespace and Name are those of the ManagedResource.
	Namespace, Name string
	// Brotli compresses the manifests.
	Brotli bool
	// Immutable Secrets have names that end in a hash of their content.
	Immutable bool
	// Class of the ManagedResource; empty for the default class.
	Class string
	// Cluster picks one of several registrations of the namespace; empty picks none.
	Cluster string
	// The fields of the same names of a ManagedResource.
	KeepObjects, ForceOverwriteLabels, ForceOverwriteAnnotations, DeletePersistentVolumeClaims bool
	InjectLabels                                                                               map[string]string
	// Labels of the ManagedResource.
	Labels map[string]string
}

// Validate returns an error for names and labels that API servers reject.
func (o Options) Validate() error {
	// The longest name of a Secret has a prefix and a hash.
	if problems := validation.IsDNS1123Subdomain(secretPrefix + o.Name + "-00000000"); len(problems) > 0 {
		return cli.Usage("--name %q: %s", o.Name, strings.Join(problems, "; "))
	}
	values := map[string]string{"name": o.Name, "for-cluster": o.Cluster}
	for flag, labels := range map[string]map[string]string{"labels": o.Labels, "inject-labels": o.InjectLabels} {
		for key, value := range labels {
			if problems := validation.IsQualifiedName(key); len(problems) > 0 {
				return cli.Usage("--%s: %q is no key of a label: %s", flag, key, strings.Join(problems, "; "))
			}
			values[flag+" "+key] = value
		}
	}
	for flag, value := range values {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return cli.Usage("--%s: %q is no value of a label: %s", flag, value, strings.Join(problems, "; "))
		}
	}
	return nil
}

// Packed is a ManagedResource with its Secrets.
type Packed struct {
	Secrets         []*corev1.Secret
	ManagedResource *resourcesv1alpha1.ManagedResource
	// Objects is how many objects there are.
	Objects int
}

// Pack packs manifests. Equal manifests give equal bytes.
func Pack(manifests []Manifest, o Options) (*Packed, error) {
	manifests = slices.Clone(manifests)
	slices.SortFunc(manifests, func(a, b Manifest) int { return key(a).Compare(key(b)) })
	if err := fitsInventory(manifests); err != nil {
		return nil, err
	}
	documents := make([][]byte, 0, len(manifests))
	for _, m := range manifests {
		raw, err := yaml.Marshal(m.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: encoding the manifest: %w", m.Place, err)
		}
		documents = append(documents, append([]byte("---\n"), raw...))
	}
	values, err := o.split(manifests, documents)
	if err != nil {
		return nil, err
	}
	p := &Packed{Objects: len(manifests), ManagedResource: o.managedResource()}
	for i, value := range values {
		s := o.secret(i, value)
		p.Secrets = append(p.Secrets, s)
		p.ManagedResource.Spec.SecretRefs = append(
			p.ManagedResource.Spec.SecretRefs, corev1.LocalObjectReference{Name: s.Name})
		if o.Immutable {
			if p.ManagedResource.Annotations == nil {
				p.ManagedResource.Annotations = map[string]string{}
			}
			p.ManagedResource.Annotations[references.AnnotationKey(references.KindSecret, s.Name)] = s.Name
		}
	}
	return p, p.check(manifests)
}

func key(m Manifest) inventory.Key { return inventory.KeyOfObject(m.Unstructured) }

// split encodes documents into as few values as fit into Secrets, by halving what does not.
func (o Options) split(manifests []Manifest, documents [][]byte) ([][]byte, error) {
	if len(documents) == 0 {
		return nil, nil
	}
	value, err := o.encode(bytes.Join(documents, nil))
	if err != nil {
		return nil, err
	}
	if len(value) <= secretLimit {
		return [][]byte{value}, nil
	}
	if len(documents) == 1 {
		hint := ""
		if !o.Brotli {
			hint = "; try --brotli"
		}
		return nil, cli.Refused("%s: %s takes %d KiB, and a Secret holds %d KiB%s", manifests[0].Place, key(manifests[0]),
			len(value)>>10, secretLimit>>10, hint)
	}
	total, half, middle := 0, 0, 0
	for _, d := range documents {
		total += len(d)
	}
	for half < total/2 && middle < len(documents)-1 {
		half += len(documents[middle])
		middle++
	}
	middle = max(middle, 1)
	first, err := o.split(manifests[:middle], documents[:middle])
	if err != nil {
		return nil, err
	}
	second, err := o.split(manifests[middle:], documents[middle:])
	return append(first, second...), err
}

func (o Options) encode(text []byte) ([]byte, error) {
	if !o.Brotli {
		return text, nil
	}
	var b bytes.Buffer
	w := brotli.NewWriterLevel(&b, brotli.DefaultCompression) // the best one is thirty times slower and saves a tenth
	if _, err := w.Write(text); err != nil {
		return nil, fmt.Errorf("compressing the manifests: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing the manifests: %w", err)
	}
	return b.Bytes(), nil
}

func (o Options) secret(i int, value []byte) *corev1.Secret {
	name := secretPrefix + o.Name
	if i > 0 && !o.Immutable {
		name = fmt.Sprintf("%s-%d", name, i+1)
	}
	field := dataKey
	if o.Brotli {
		field += resourcesv1alpha1.BrotliSuffix
	}
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name, Labels: map[string]string{PackedLabel: o.Name}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{field: value},
	}
	if o.Immutable {
		digest := sha256.Sum256(append([]byte(field+"\n"), value...))
		s.Name = name + "-" + hex.EncodeToString(digest[:4])
		s.Immutable = ptr.To(true)
		s.Labels[references.Label] = references.LabelValue
	}
	return s
}

func (o Options) managedResource() *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcesv1alpha1.GroupVersion.String(), Kind: "ManagedResource"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: maps.Clone(o.Labels)},
		Spec: resourcesv1alpha1.ManagedResourceSpec{
			SecretRefs: []corev1.LocalObjectReference{}, InjectLabels: o.InjectLabels,
			KeepObjects: set(o.KeepObjects), ForceOverwriteLabels: set(o.ForceOverwriteLabels),
			ForceOverwriteAnnotations:    set(o.ForceOverwriteAnnotations),
			DeletePersistentVolumeClaims: set(o.DeletePersistentVolumeClaims),
		},
	}
	if o.Class != "" {
		mr.Spec.Class = &o.Class
	}
	if o.Cluster != "" {
		if mr.Labels == nil {
			mr.Labels = map[string]string{}
		}
		mr.Labels[hubv1alpha1.ClusterNameLabel] = o.Cluster
	}
	return mr
}

func set(yes bool) *bool {
	if !yes {
		return nil
	}
	return &yes
}

// fitsInventory returns an error if the status of the ManagedResource cannot hold all objects.
func fitsInventory(manifests []Manifest) error {
	entries := make([]resourcesv1alpha1.ObjectReference, 0, len(manifests))
	for _, m := range manifests {
		entries = append(entries, inventory.Entry(m.Unstructured, m.GetLabels(), m.GetAnnotations()))
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("measuring the inventory: %w", err)
	}
	if len(raw) > inventoryLimit {
		return cli.Refused("the inventory of %d objects takes %d KiB, and a ManagedResource holds %d KiB: pack them into several ManagedResources", len(manifests), len(raw)>>10, inventoryLimit>>10)
	}
	return nil
}

// check decodes what was packed as the hub will, and compares.
func (p *Packed) check(manifests []Manifest) error {
	b := bundle.Decode(Sources(p.Secrets), bundle.Limits{})
	if !b.Complete() {
		return cli.Refused("the hub could not read what was packed: %s", b.FaultMessage())
	}
	if len(b.Objects) != len(manifests) {
		return fmt.Errorf("packed %d objects, and %d came out again", len(manifests), len(b.Objects))
	}
	for i, o := range b.Objects {
		if !equality.Semantic.DeepEqual(o.Object, manifests[i].Object) {
			return errors.New(manifests[i].Place + ": the object changes when it is packed")
		}
	}
	return nil
}

// Sources are Secrets as the hub decodes them.
func Sources(secrets []*corev1.Secret) []bundle.Source {
	sources := make([]bundle.Source, 0, len(secrets))
	for _, s := range secrets {
		sources = append(sources, bundle.Source{Namespace: s.Namespace, Name: s.Name, UID: s.UID,
			ResourceVersion: s.ResourceVersion, Data: s.Data})
	}
	return sources
}
