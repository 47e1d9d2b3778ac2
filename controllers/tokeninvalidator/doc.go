// Package tokeninvalidator makes static tokens of ServiceAccounts useless that mount none: those with
// automountServiceAccountToken: false. Such a token, in a Secret of type kubernetes.io/service-account-token, never
// expires, so a client that has read it once keeps access. Clusters that were made before Kubernetes 1.24 have one for
// each ServiceAccount.
//
// There are two halves. The controller of this package decides which tokens are to be invalid, and says so by labels of
// the Secrets. A webhook (webhooks/tokeninvalidator) changes the tokens when Secrets are written, and makes sure that
// they stay so. With the controller alone, Secrets get labels and all tokens stay valid.
//
// # How it works
//
// The Secrets with tokens of ServiceAccounts are watched, of which only metadata is asked for and a few bytes are kept,
// and the ServiceAccounts, of which two settings are kept. Each Secret gets the label PurposeLabel, which the webhook
// selects by. If its ServiceAccount mounts no token and does not have SkipLabel, the Secret gets ConsiderLabel, too,
// else it loses it. These writes pass the webhook: it replaces the token by three zero bytes, or removes these, so that
// the controller manager of the target generates another token.
//
// A token that a pod has mounted stays valid as long as there is the pod. That is looked up live, page by page, right
// before the label is set, and again with pauses of up to five minutes. The ServiceAccount is read live then, too.
//
// Everything that is written was read in the same version. Where it was not, the watch has another version, and the
// Secret is looked at again.
//
// # Trade-offs
//
// Only Secrets of the type for tokens count. Gardener's resource manager looks at all that have the annotation
// kubernetes.io/service-account.name. But no controller would generate the content of another Secret again, and a watch
// of all Secrets would cost a lot in targets with many.
//
// A change of a ServiceAccount concerns all Secrets with its name in their annotation. Gardener's resource manager
// looks at those that the ServiceAccount lists, which since Kubernetes 1.24 nothing adds to any longer.
//
// The pods are listed again for each Secret. There is one such Secret for a ServiceAccount, and after it was
// invalidated no need to look.
//
// Tokens that containers have as environment variables, or through projected volumes, do not keep a Secret valid.
//
// # Trust
//
// A tenant can mark its own Secrets and ServiceAccounts as it likes, which affects no other tenant. Many Secrets are
// looked at slowly. More than 10000 pods in a namespace are not looked at; then the token stays valid, which an event
// on the TargetCluster says. The hub does not ask for a token, and gets none in an answer to what it writes.
//
// # Rights
//
// In the source, in home namespaces: events (events.k8s.io) create, patch.
//
// In targets: secrets list, watch, patch, of which only metadata is asked for; serviceaccounts get, list, watch; pods
// list.
package tokeninvalidator
