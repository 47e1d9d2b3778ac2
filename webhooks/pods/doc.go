// Package pods has the webhooks that change pods when they are created: a file for each.
//
//	tokenmount.go       a token of the ServiceAccount that expires (projected-token-mount)
//	schedulername.go    the scheduler (pod-scheduler-name)
//	seccomp.go          the seccomp profile (seccomp-profile)
//	servicehost.go      the name of the API server (kubernetes-service-host)
//	loadbalancing.go    API servers of control planes beside them (pod-kube-apiserver-load-balancing)
//	systemcomponents.go the nodes of system components (system-components-config)
//	topologyspread.go   topology spread by ReplicaSet (pod-topology-spread-constraints)
//
// # How it works
//
// Each one is a function that changes a pod, by the settings of its target, and for some by objects of the target that
// are read when the pod is created. All are idempotent: a pod that has been through one is not changed by it again.
// Entries of the registration have match conditions for the tests that need nothing but the pod, so that an API server
// calls the hub only if it may have something to do. The functions test the same again, since a policy or an older
// registration need not have the conditions.
//
// Webhooks that need no state of the target are exported as functions, for those who make policies of them or of
// templates of pods.
//
// # Trade-offs
//
// Only the creation is looked at. What changes later in the target, such as taints of nodes, is not added to pods that
// run: the next pod has it.
//
// # Rights
//
// In targets: serviceaccounts get (projected-token-mount); nodes list (system-components-config); configmaps get and
// services get (pod-kube-apiserver-load-balancing). The others need none.
package pods
