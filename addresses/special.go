package addresses

import (
	"net/netip"
	"strconv"
	"strings"
)

// special are the networks that are refused, with the names of their kinds.
var special = []struct {
	network netip.Prefix
	kind    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast"},
	{netip.MustParsePrefix("255.255.255.255/32"), "the broadcast"},
	{netip.MustParsePrefix("::/128"), "the unspecified"},
	{netip.MustParsePrefix("::1/128"), "a loopback"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast"},
}

// kindOf returns the kind of a refused address; empty if it is not refused.
func kindOf(address netip.Addr) string {
	for _, s := range special {
		if s.network.Contains(address) {
			return s.kind
		}
	}
	return ""
}

// embeddings are the IPv6 networks whose addresses represent IPv4 addresses, with the positions of their bytes.
var embeddings = []struct {
	network netip.Prefix
	bytes   [4]int
	invert  bool // all bits of the address are inverted
	// several forms share the network, so that one of them may read zeros of another one as an address
	ambiguous bool
}{
	{network: netip.MustParsePrefix("::/96"), bytes: [4]int{12, 13, 14, 15}},           // IPv4-compatible
	{network: netip.MustParsePrefix("::ffff:0:0:0/96"), bytes: [4]int{12, 13, 14, 15}}, // IPv4-translated, RFC 2765
	{network: netip.MustParsePrefix("64:ff9b::/96"), bytes: [4]int{12, 13, 14, 15}},    // NAT64, RFC 6052
	// NAT64 with a prefix of the operator's own choice and length, RFC 8215.
	{network: netip.MustParsePrefix("64:ff9b:1::/48"), bytes: [4]int{6, 7, 9, 10}, ambiguous: true},
	{network: netip.MustParsePrefix("64:ff9b:1::/48"), bytes: [4]int{7, 9, 10, 11}, ambiguous: true},
	{network: netip.MustParsePrefix("64:ff9b:1::/48"), bytes: [4]int{9, 10, 11, 12}, ambiguous: true},
	{network: netip.MustParsePrefix("64:ff9b:1::/48"), bytes: [4]int{12, 13, 14, 15}, ambiguous: true},
	{network: netip.MustParsePrefix("2002::/16"), bytes: [4]int{2, 3, 4, 5}},                   // 6to4, RFC 3056
	{network: netip.MustParsePrefix("2001::/32"), bytes: [4]int{12, 13, 14, 15}, invert: true}, // Teredo, RFC 4380
}

// embedded returns the IPv4 addresses that an IPv6 address may represent. There may be several, because some forms are
// ambiguous.
func embedded(address netip.Addr) []netip.Addr {
	if !address.Is6() {
		return nil
	}
	var found []netip.Addr
	raw := address.As16()
	for _, e := range embeddings {
		if !e.network.Contains(address) {
			continue
		}
		var v4 [4]byte
		for i, at := range e.bytes {
			v4[i] = raw[at]
			if e.invert {
				v4[i] = ^v4[i]
			}
		}
		if e.ambiguous && v4[0] == 0 {
			continue
		}
		found = append(found, netip.AddrFrom4(v4))
	}
	// ISATAP, RFC 5214, is recognized by the second half of an address.
	if (raw[8] == 0 || raw[8] == 2) && raw[9] == 0 && raw[10] == 0x5e && raw[11] == 0xfe {
		found = append(found, netip.AddrFrom4([4]byte(raw[12:])))
	}
	return found
}

// legacyIPv4 parses the forms of IPv4 addresses that inet_aton accepts, and so do some resolvers and proxies: one to
// four numbers, decimal, octal or hexadecimal, of which the last one fills the remaining bytes.
func legacyIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		if strings.ContainsAny(part, "_+-") || strings.HasPrefix(part, "0b") || strings.HasPrefix(part, "0o") {
			return netip.Addr{}, false
		}
		number, err := strconv.ParseUint(part, 0, 32)
		if err != nil {
			return netip.Addr{}, false
		}
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if number >= 1<<bits {
			return netip.Addr{}, false
		}
		value = value<<bits | number
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}
