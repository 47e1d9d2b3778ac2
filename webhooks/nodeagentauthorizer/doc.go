// Package nodeagentauthorizer decides what Gardener's node agents may do in their target. They have no rights by RBAC:
// the API server of the target asks this webhook, by structured authorization.
//
// # How it works
//
// An agent is a user of the group gardener.cloud:node-agents whose name ends in that of its Machine, or of its Node
// where there are no Machines. About other users there is no opinion. The Machine, read from the source, leads to the
// Node, read from the target; both, and the configuration of the operating system that the Machine names, say which
// objects are the agent's own (rules.go, secrets.go). Nothing is kept between requests. Each read has a deadline.
//
// Review answers one SubjectAccessReview as it came over HTTP, in its own version. The server of webhooks calls it for
// targets whose settings have it switched on (serve.go).
//
// # Trust
//
// An answer reveals what an agent may do and, with a forged question, which names there are. So only an API server that
// has proven with a client certificate that it is that of the target gets one (Caller.Authenticated). The path of the
// URL is not enough: it can be read in configurations and error messages.
//
// An agent may change the labels of its own Node, so nothing that is allowed follows from them alone. Names of secrets
// and leases come from the Machine. Where there are no Machines, the label of the Node has to name a secret that is the
// configuration of a worker pool. The label kubernetes.io/hostname only chooses among the references of a configuration
// that the agent may read anyway.
//
// Names that are empty never count as allowed: a request without a name is for all objects.
//
// What fails is refused, for users that are agents, and not left to other authorizers.
//
// # Trade-offs
//
// API servers do not keep the decisions, as upstream has it configured, so each request of an agent takes two or three
// reads. Agents are one a node and make few requests.
//
// # Rights
//
// In the source, in home namespaces: machines (machine.sapcloud.io) get. In targets: nodes, pods,
// certificatesigningrequests get; secrets in kube-system get, list.
package nodeagentauthorizer
