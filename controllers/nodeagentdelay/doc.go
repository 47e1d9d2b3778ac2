// Package nodeagentdelay spreads over time what node agents do. When the operating system configuration of a target
// changes, all of its node agents would restart the same services at once. An annotation of its Node says how long each
// agent waits first: node-agent.gardener.cloud/reconciliation-delay.
//
// # How it works
//
// The Nodes of each target are watched, and of each only what package nodemarks keeps. When one comes or goes, when
// the label changes that names the Secret of its agent, and when the settings of the target change, the target is
// looked at: its Nodes are listed, as metadata and in pages, sorted by name, and the delays spread evenly over them
// from the least one on. The greatest one is never reached. Nodes with another delay than that are patched, in the
// version that was read.
//
// Agents that take turns by themselves need no delay. Those are the ones whose Secret in kube-system has the label
// gardener.cloud/role=operating-system-config and the annotation reconciliation.osc.node-agent.gardener.cloud/serial
// "true". Their Nodes do not count and are left as they are.
//
// # Trade-offs
//
// Nothing is remembered of a target. What is right already is not written, so that neither a restart of the hub nor a
// change in another target writes anything. A change of the Nodes costs a list of them, which is less than the patches
// that it leads to.
//
// The change of a Secret or of a delay causes no reconciliation: a watch of the Secrets would cost more than it is
// worth, and the next periodic one corrects it.
//
// # Trust
//
// What is read concerns nothing but the target that says it. More than 10000 Nodes or Secrets are not looked at; then
// nothing is written, which an event on the TargetCluster says. A Node may change its label as often as it likes, so
// the looks at a target have a pace.
//
// # Rights
//
// In the source, in home namespaces: events (events.k8s.io) create, patch.
//
// In targets: nodes list, watch, patch. In kube-system: secrets list, of which only metadata is asked for.
//
// Where the source itself is the target, that is the second identity of the chart (trellis-source), which may do
// everything unless sourceIdentity.rules says less. So the chart grants nothing more for this controller.
package nodeagentdelay
