// Package addresses decides which network addresses connections to registered clusters may go to.
//
// The author of a registration chooses where the hub connects to. Loopback, link-local, unspecified, multicast and
// broadcast addresses lead to the hub's own pod, to its node (including the metadata service of a cloud) or to no
// single host, so they are refused unless the operator allows a network that contains them. The same holds for IPv6
// addresses that a translator or tunnel maps to such an IPv4 address.
//
// # Where it is checked
//
//   - net.Dialer calls Policy.Control for each dial with the resolved address. So a name that resolves to a different
//     address each time is checked each time.
//   - Policy.CheckHost checks the host of a URL before it is resolved. It gives an early and clear error, and is the
//     only check where a proxy resolves the name.
//
// Private networks are not refused: that is where the clusters of most operators are. Use a NetworkPolicy to restrict
// what pods may reach there.
package addresses
