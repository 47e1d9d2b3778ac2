package addresses

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// ErrRefused is wrapped by the errors for refused addresses.
var ErrRefused = errors.New("the address is refused")

// Policy says which addresses may be dialled. The zero value refuses all special ones.
type Policy struct {
	allowed []netip.Prefix
}

// Any returns the policy that refuses nothing, for configurations of the operator.
func Any() Policy {
	return Policy{allowed: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
}

// Allow returns the policy that refuses special addresses except for those in the given networks, each in the form of
// ParseNetwork.
func Allow(networks ...string) (Policy, error) {
	var p Policy
	for _, text := range networks {
		network, err := ParseNetwork(text)
		if err != nil {
			return Policy{}, fmt.Errorf("network %q: %w", text, err)
		}
		p.allowed = append(p.allowed, network)
	}
	return p, nil
}

// ParseNetwork reads a network such as 127.0.0.0/8. A network without special addresses is an error: it would have no
// effect, and its author may believe that all others are refused.
func ParseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New("must be a network such as 127.0.0.0/8 or ::1/128")
	case network.Addr().Is4In6():
		return netip.Prefix{}, errors.New("must be written as an IPv4 network")
	case network != network.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits beyond its prefix length; %s would be the network",
			network.Masked())
	}
	for _, s := range special {
		if s.network.Overlaps(network) {
			return network, nil
		}
	}
	for _, e := range embeddings {
		if e.network.Overlaps(network) {
			return network, nil
		}
	}
	return netip.Prefix{},
		errors.New("contains no loopback, link-local, unspecified or multicast address; all others are allowed anyway")
}

// Check returns an error that wraps ErrRefused if an address may not be dialled.
func (p Policy) Check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	for _, network := range p.allowed {
		if network.Contains(address) {
			return nil
		}
	}
	if kind := kindOf(address); kind != "" {
		return fmt.Errorf("%w: %s is %s address", ErrRefused, address, kind)
	}
	for _, v4 := range embedded(address) {
		if kind := kindOf(v4); kind != "" {
			return fmt.Errorf("%w: %s stands for %s, %s address", ErrRefused, address, v4, kind)
		}
	}
	return nil
}

// CheckHost returns an error that wraps ErrRefused if the host of a URL, without its port, is certain to lead to an
// address that may not be dialled. Other names are only known after they were resolved.
func (p Policy) CheckHost(host string) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r >= 0x80 }) {
		return fmt.Errorf("%w: the host name has characters beyond ASCII; write it in its xn-- form", ErrRefused)
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return p.Check(address)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if address, ok := legacyIPv4(host); ok {
		return p.Check(address)
	}
	if !isLocalhost(host) {
		return nil
	}
	// Which of the two it is depends on the resolver.
	if p.Check(netip.AddrFrom4([4]byte{127, 0, 0, 1})) == nil || p.Check(netip.IPv6Loopback()) == nil {
		return nil
	}
	return fmt.Errorf("%w: %s is a name of the loopback address", ErrRefused, host)
}

// isLocalhost reports whether a name, in lower case, stands for the loopback address by convention.
func isLocalhost(host string) bool {
	switch host {
	case "localhost", "localhost.localdomain", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback":
		return true
	}
	return strings.HasSuffix(host, ".localhost")
}

// Control is for net.Dialer.Control. It refuses what Check refuses, and all that is not TCP.
func (p Policy) Control(network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("%w: only TCP is dialled", ErrRefused)
	}
	parsed, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: it is no IP address with a port", ErrRefused)
	}
	return p.Check(parsed.Addr())
}
