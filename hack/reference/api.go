package main

import (
	"path/filepath"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/trellis-hub/trellis/hack/reference/apidoc"
)

// apiPages are those about the types and constants in apis/, by their names.
func apiPages(root string) (map[string][]byte, error) {
	external := map[string]string{"clusterv1.ClusterNameLabel": clusterv1.ClusterNameLabel}
	packages := map[string]*apidoc.Package{}
	for _, name := range []string{"resources", "hub", "config"} {
		p, err := apidoc.Read(filepath.Join(root, "apis", name, "v1alpha1"), name+"/v1alpha1", external)
		if err != nil {
			return nil, err
		}
		packages[name] = p
	}
	resources := func(about string) apidoc.Group {
		return apidoc.Group{Name: "resources.gardener.cloud/v1alpha1", About: about, Package: packages["resources"]}
	}
	hub := func(about string) apidoc.Group {
		return apidoc.Group{Name: "hub.gardener.cloud/v1alpha1", About: about, Package: packages["hub"]}
	}
	return map[string][]byte{
		"api.md": apidoc.Types(`Every kind with its fields. What they mean in practice stands in
[ManagedResource](managedresource.md), [TargetCluster](targetcluster.md) and [configuration](config/README.md).
Metadata and lists are as everywhere in Kubernetes.
`,
			resources("The API of Gardener's resource manager, unchanged."),
			hub("What the hub reports about its targets."),
			apidoc.Group{
				Name: "config.hub.gardener.cloud/v1alpha1", Package: packages["config"],
				About: "The file that the hub is started with. No API server knows it.",
			}),
		"annotations.md": apidoc.Keys("\"Truthy\" is one of `1`, `t`, `T`, `true`, `TRUE` and `True`; where it says\n"+
			`exactly, nothing else counts. The live object is the one in the target, the manifest what stands in the Secret:
a key that is read from one of them has no effect in the other.

[trellisctl](trellisctl.md) has keys of its own, of the group `+"`trellisctl.hub.gardener.cloud`"+`, on what it has
made. The hub does not read them.
`,
			resources("Gardener's keys. On ManagedResources, and on the objects in them."),
			hub("The hub's own keys. On registrations, TargetClusters and ManagedResources.")),
		"conditions.md": apidoc.Conditions(`Every condition and every reason, as the code has them. What to do about one
stands in [ManagedResource](managedresource.md#conditions) and [TargetCluster](targetcluster.md#conditions).
`,
			resources("On ManagedResources."),
			hub("On TargetClusters.")),
	}, nil
}
