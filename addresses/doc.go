// Package addresses decides which network addresses connections to registered clusters may go to.
//
// Whoever registers a cluster chooses where the hub connects to. Loopback, link-local, unspecified, multicast and
// broadcast addresses lead to the hub's own pod, to its node (including the metadata service of a cloud) or to no
// single host, so they are refused unless the operator allows a network that contains them. So are the IPv6 forms that
// a translator or tunnel turns into such an IPv4 address.
//
// # Where it is checked
//
//   - Policy.Control is called by net.Dialer after names were resolved, with the address that is about to be dialled,
//     at each dial. So a name that resolves to a different address each time is checked each time.
//   - Policy.CheckHost judges the host of a URL before anything is resolved. It gives an early and clear error, and is
//     the only check where a proxy resolves the name.
//
// Private networks are not refused: that is where the clusters of most operators are. Use a NetworkPolicy to restrict
// what pods may reach there.
package addresses
