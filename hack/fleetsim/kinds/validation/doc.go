// Package validation refuses what kube-apiserver refuses of built-in kinds, as far as it matters to who writes bundles of
// objects to a cluster.
//
// There is: names, labels, annotations, finalizers and owner references of all kinds, and what an update may do to them;
// the selectors and pod templates of workloads (containers, their names and images, volumes and who mounts them); what
// cannot be changed in workloads, jobs, claims, Services, role bindings, immutable ConfigMaps and Secrets, classes; what a
// ConfigMap, Secret, Service, role binding and CustomResourceDefinition must have. All the rest of what Kubernetes
// validates is missing: ranges and enumerations of values above all.
package validation
