package nodeagentauthorizer

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

const (
	// configurationLabel, on Machines and Nodes, names the secret with the configuration of their worker pool.
	configurationLabel = "worker.gardener.cloud/gardener-node-agent-secret-name"
	// poolLabel is on these secrets.
	poolLabel = "worker.gardener.cloud/pool"
	// configurationKey is that of the configuration in its secret.
	configurationKey = "osc.yaml"
)

// maxConfigurations bounds how many a target has: one a worker pool, and two while it changes.
const maxConfigurations = 500

// fixedSecrets may be read by all agents.
var fixedSecrets = []string{
	"gardener-valitail", "gardener-opentelemetry-collector", "shoot-access-kube-controller-manager",
	"shoot-access-kube-scheduler", "shoot-access-cluster-admin",
}

var machineKind = schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "Machine"}

// machine is what the source says about one.
type machine struct {
	node, configuration string
}

// own returns the node of the agent, nil if there is none, and its machine, nil if there are none.
func (r *request) own(ctx context.Context) (*metav1.PartialObjectMetadata, *machine, error) {
	name := r.name
	var m *machine
	if r.settings.MachineNamespace != "" {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(machineKind)
		key := client.ObjectKey{Namespace: r.settings.MachineNamespace, Name: r.name}
		if err := r.read(ctx, r.source, key, object); err != nil {
			return nil, nil, fmt.Errorf("machine %s: %w", untrusted.Name(r.name), err)
		}
		labels, _, err := unstructured.NestedStringMap(object.Object, "spec", "nodeTemplate", "metadata", "labels")
		if err != nil {
			return nil, nil, fmt.Errorf("machine %s: %w", untrusted.Name(r.name), err)
		}
		m = &machine{node: object.GetLabels()["node"], configuration: labels[configurationLabel]}
		name = m.node
	}
	if name == "" {
		return nil, m, nil
	}
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := r.read(ctx, r.target, client.ObjectKey{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil, m, nil
	}
	return node, m, err
}

// configurations are the secrets with those that are the agent's own. Only metadata is read.
func (r *request) configurations(
	ctx context.Context, node *metav1.PartialObjectMetadata, m *machine,
) ([]metav1.PartialObjectMetadata, error) {
	if m != nil {
		if m.configuration == "" {
			return nil, nil
		}
		return []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: m.configuration}}}, nil
	}
	own := ""
	if node != nil {
		if own = node.Labels[configurationLabel]; own == "" {
			return nil, nil
		}
	}
	// The agent may have written the label. So it counts only if it names a configuration.
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.target.List(ctx, list, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{poolLabel},
		client.Limit(maxConfigurations)); err != nil {
		return nil, fmt.Errorf("list the configurations of worker pools: %w", err)
	}
	if list.Continue != "" {
		return nil, fmt.Errorf("there are more than %d configurations of worker pools", maxConfigurations)
	}
	if node == nil { // it is about to join
		return list.Items, nil
	}
	at := slices.IndexFunc(list.Items, func(s metav1.PartialObjectMetadata) bool { return s.Name == own })
	if at < 0 {
		return nil, nil
	}
	return list.Items[at : at+1], nil
}

func (r *request) secret(ctx context.Context) (Decision, error) {
	a := r.attributes
	if a.Namespace != metav1.NamespaceSystem {
		return deny("only secrets in the namespace %s are allowed", metav1.NamespaceSystem)
	}
	if a.Name == "" {
		return deny("the name of a secret is missing")
	}
	if slices.Contains(fixedSecrets, a.Name) {
		return allow, nil
	}
	node, machine, err := r.own(ctx)
	if err != nil {
		return Decision{}, err
	}
	configurations, err := r.configurations(ctx, node, machine)
	if err != nil {
		return Decision{}, err
	}
	allowed := slices.Clone(fixedSecrets)
	for _, c := range configurations {
		if allowed = append(allowed, c.Name); c.Name == a.Name {
			return allow, nil
		}
	}
	// Only now are configurations read: most requests are for one itself.
	for _, c := range configurations {
		references, err := r.references(ctx, c.Name, node)
		if err != nil {
			return Decision{}, err
		}
		if slices.Contains(references, a.Name) {
			return allow, nil
		}
		allowed = append(allowed, references...)
	}
	return deny("only the secrets %s are allowed", names(allowed))
}

// references are the names of secrets that a configuration has files from, for a node, or for all if it is nil.
func (r *request) references(ctx context.Context, name string, node *metav1.PartialObjectMetadata) ([]string, error) {
	secret := &corev1.Secret{}
	err := r.read(ctx, r.target, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", untrusted.Name(name), err)
	}
	document, err := yaml.YAMLToJSON(secret.Data[configurationKey])
	if err != nil {
		return nil, fmt.Errorf("configuration %s is no YAML", untrusted.Name(name)) // the error may have parts of it
	}
	configuration := &extensions.OperatingSystemConfig{}
	if err := extensions.Decode(document, configuration); err != nil {
		return nil, fmt.Errorf("configuration %s is no OperatingSystemConfig, or too large", untrusted.Name(name))
	}
	host := ""
	if node != nil {
		host = node.Labels[corev1.LabelHostname]
	}
	var names []string
	for _, files := range [][]extensions.File{configuration.Spec.Files, configuration.Status.ExtensionFiles} {
		for _, f := range files {
			ref := f.Content.SecretRef
			if ref == nil || len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
				continue
			}
			if f.HostName == nil || host == "" || *f.HostName == host {
				names = append(names, ref.Name)
			}
		}
	}
	return names, nil
}
