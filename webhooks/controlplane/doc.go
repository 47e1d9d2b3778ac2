// Package controlplane is for providers of infrastructure that change what Gardener deploys for the control plane of a
// shoot: flags, volumes and environment of kube-apiserver and kube-controller-manager, the storage of etcd, annotations
// of a Service, the kubelet on nodes. A provider writes an Ensurer; this package makes a webhook of it.
//
//	type ensurer struct{ controlplane.NoopEnsurer }
//
//	func (ensurer) EnsureKubeControllerManagerDeployment(
//		_ context.Context, _ *controlplane.Context, updated, _ *appsv1.Deployment,
//	) error {
//		c := ensure.ContainerNamed(updated.Spec.Template.Spec.Containers, "kube-controller-manager")
//		...
//		c.Command = ensure.Flag(c.Command, "--cloud-provider=", "external")
//		return nil
//	}
//
//	webhook, err := controlplane.New(controlplane.Definition{
//		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
//		Mutators: controlplane.Mutators(ensurer{}),
//	})
//
// The example of this package is a whole provider. What is deployed, and what a provider may change of it, is in
// docs/compatibility/control-planes.md; package ensure has the functions that change it.
//
// # How it works
//
// A Mutator is for one kind of object. The Handler finds it by the kind of the request, decodes the objects, calls it,
// and returns the difference that it made as a patch. Mutators returns those of the kinds that Gardener deploys; they
// call the method of the Ensurer for the name of the object, and for an OperatingSystemConfig one after the other for
// its unit of the kubelet, its files and so on. Everything else, and what is being deleted, is allowed as it is.
//
// Context has what a request is about. The Cluster of the namespace is read when it is asked for, once a request.
//
// Configuration renders the object that registers the webhook with an API server, for providers that serve their
// webhooks themselves, and Admission what a hub registers and serves like its own: for the cluster that it runs in.
//
// # Trade-offs
//
// Names of methods and their arguments are those of Gardener's extension library, so that the code of a provider moves
// here with few changes. Kinds without a module of their own here (Etcd, VerticalPodAutoscaler) are unstructured, and
// the configuration of the kubelet is a map: no field is lost because a type does not know it.
//
// A patch has only what the mutator changed (admission.Patch). Fields that the types do not have stay with the item of
// a list that they belong to, which is found by its name or path.
//
// Errors of a mutator reject the object, as Gardener's library does: a control plane without what its provider needs
// does not work. What cannot be read (a Cluster) is an internal error.
package controlplane
