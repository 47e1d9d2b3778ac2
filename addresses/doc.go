// Package addresses decides which network addresses connections to registered clusters may go to.
//
// Whoever registers a cluster chooses where the hub connects to. Loopback, link-local, unspecified, multicast and
// broadcast addresses lead to the hub's own pod, to its node (the metadata service of a cloud among them) or to
// nobody in particular, so they are refused unless the operator allows a network that contains them. So are the IPv6
// forms that a translator or tunnel turns into such an IPv4 address.
//
// # Where it is checked
//
//   - Policy.Control is called by net.Dialer after names were resolved, with the address that is about to be dialled,
//     at each dial. A name that resolves to another address each time gains nothing.
//   - Policy.CheckHost judges the host of a URL before anything is resolved. It makes for an early, clear error, and
//     it is the only check where a proxy resolves the name.
//
// Private networks are not refused: that is where the clusters of most operators are. What pods may reach in there is
// for a NetworkPolicy to say.
package addresses
