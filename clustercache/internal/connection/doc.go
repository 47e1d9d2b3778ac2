// Package connection opens the connections to one target and verifies which cluster they lead to.
//
// A Dialer holds what all connections to a target have in common. Dial builds a Connection, calls the target in two
// steps and returns the connection only if it works and leads to the right cluster. The first step reads the version of
// the server. It is where unreachable targets wait for their timeout, so it has a large pool. The second step,
// identification, finds out who the hub is in the target and which cluster it is. Its flow has few seats, and a target
// that hangs there waits in a separate queue the next time.
//
// A Connection has a transport, a rate limit and a bound on calls in flight that it shares with other connections to
// the target, clients, a REST mapper, and what watches need of it. Everything it starts lives in its context and ends
// with it, down to the sockets. Nothing in it changes but the token, which is exchanged inside the transport while
// watches continue. A connection can be suspended: its sockets are closed, calls fail at once, and its watches wait
// until it is resumed.
//
// A probe reads the UID of the namespace kube-system, which identifies the cluster and needs the storage of the API
// server. From time to time it also reads the version, and compares the past of the target with what is remembered of
// it (history.go).
//
// What a connection found out is returned; what follows from it is for the caller to decide. A Failure bears the reason
// that conditions show. Texts of the target are bounded, and free of the credential, before they leave the package.
//
// Trade-offs:
//   - The clients for callers are made again after the target denied a resource that discovery named, since they
//     remember permanently what they learned of each kind.
//   - Calls are confined to the host of the kubeconfig, and redirects are not followed.
package connection
