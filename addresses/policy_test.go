package addresses

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func policy(t *testing.T, networks ...string) Policy {
	t.Helper()
	p, err := Allow(networks...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

func TestSpecialAddressesAreRefused(t *testing.T) {
	for name, address := range map[string]string{
		"loopback":                        "127.0.0.1",
		"loopback, the last one":          "127.255.255.255",
		"loopback, IPv6":                  "::1",
		"loopback with a zone":            "::1%lo",
		"link-local":                      "169.254.0.1",
		"metadata service":                "169.254.169.254",
		"link-local, IPv6":                "fe80::1",
		"link-local, IPv6, the last one":  "febf:ffff::1",
		"link-local with a zone":          "fe80::1%eth0",
		"unspecified":                     "0.0.0.0",
		"this network":                    "0.1.2.3",
		"unspecified, IPv6":               "::",
		"multicast":                       "224.0.0.1",
		"multicast, the last one":         "239.255.255.255",
		"multicast, interface-local":      "ff01::1",
		"multicast, link-local":           "ff02::1",
		"multicast, global":               "ff0e::1",
		"broadcast":                       "255.255.255.255",
		"IPv4-mapped loopback":            "::ffff:127.0.0.1",
		"IPv4-mapped metadata service":    "::ffff:169.254.169.254",
		"IPv4-mapped with a zone":         "::ffff:127.0.0.1%lo",
		"IPv4-compatible loopback":        "::127.0.0.1",
		"IPv4-translated loopback":        "::ffff:0:127.0.0.1",
		"NAT64 loopback":                  "64:ff9b::127.0.0.1",
		"NAT64 metadata service":          "64:ff9b::a9fe:a9fe",
		"NAT64 unspecified":               "64:ff9b::",
		"local NAT64 of 48 bits":          "64:ff9b:1:7f00:0:100::",
		"local NAT64 of 56 bits":          "64:ff9b:1:7f:0:1::",
		"local NAT64 of 64 bits":          "64:ff9b:1:1:7f:0:100:0",
		"local NAT64 of 96 bits":          "64:ff9b:1::127.0.0.1",
		"6to4 loopback":                   "2002:7f00:1::",
		"6to4 metadata service":           "2002:a9fe:a9fe::1",
		"Teredo loopback":                 "2001:0:c000:201:0:ffff:80ff:fffe",
		"ISATAP loopback":                 "2001:db8::5efe:127.0.0.1",
		"ISATAP loopback of a global one": "2001:db8::200:5efe:127.0.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			parsed := netip.MustParseAddr(address)
			g.Expect(Policy{}.Check(parsed)).To(MatchError(ErrRefused))
			g.Expect(Policy{}.CheckHost(address)).To(MatchError(ErrRefused))
			g.Expect(Policy{}.Control("tcp", netip.AddrPortFrom(parsed, 443).String(), nil)).To(MatchError(ErrRefused))
			g.Expect(Any().Check(parsed)).To(Succeed())
		})
	}
}

func TestOtherAddressesAreDialled(t *testing.T) {
	for _, address := range []string{
		"192.0.2.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "128.0.0.1", "126.255.255.255",
		"169.253.255.255",
		"223.255.255.255", "240.0.0.1", "1.0.0.0", "2001:db8::1", "fd00::1", "fe00::1", "fec0::1",
		"::ffff:192.0.2.1", "64:ff9b::192.0.2.1",
		"64:ff9b:1::192.0.2.1", "64:ff9b:1:c000:2:100::", "2002:c000:201::1", "2001:db8::5efe:192.0.2.1",
		"2001:0:c000:201:0:ffff:3fff:fdfe",
	} {
		g := NewWithT(t)
		g.Expect(Policy{}.Check(netip.MustParseAddr(address))).To(Succeed(), address)
		g.Expect(Policy{}.CheckHost(address)).To(Succeed(), address)
	}
}

func TestHosts(t *testing.T) {
	for host, refused := range map[string]bool{
		"localhost": true, "LocalHost.": true, "a.localhost": true, "localhost.localdomain": true,
		"ip6-localhost": true, "ip6-loopback": true,
		"127.1": true, "0x7f.1": true, "2130706433": true, "0177.0.0.1": true, "0x7f000001": true,
		"127.0.0.1.": true, "0": true,
		"2852039166": true, "169.254.43518": true,
		"１２７.0.0.1": true, "ⓛocalhost": true,
		"example.org": false, "localhost.example.org": false, "notlocalhost": false, "0xc0.0.2.1": false,
		"192.0.513": false,
		"1.2.3.4.5": false, "256.0.0.1.example.org": false, "127.0.0.256": false, "4294967296": false,
		"0b1111111.1": false, "": false,
	} {
		err := Policy{}.CheckHost(host)
		if refused {
			NewWithT(t).Expect(err).To(MatchError(ErrRefused), host)
		} else {
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), host)
		}
	}
}

func TestAllowedNetworks(t *testing.T) {
	g := NewWithT(t)
	p := policy(t, "127.0.0.0/8", "fe80::/10")
	for _, address := range []string{"127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fe80::1", "fe80::1%eth0",
		"192.0.2.1"} {
		g.Expect(p.Check(netip.MustParseAddr(address))).To(Succeed(), address)
	}
	for _, address := range []string{"::1", "169.254.169.254", "64:ff9b::127.0.0.1", "2002:7f00:1::", "ff02::1"} {
		g.Expect(p.Check(netip.MustParseAddr(address))).To(MatchError(ErrRefused), address)
	}
	for _, host := range []string{"localhost", "127.1", "a.localhost"} {
		g.Expect(p.CheckHost(host)).To(Succeed(), host)
	}
	g.Expect(policy(t, "169.254.0.0/16").CheckHost("localhost")).To(MatchError(ErrRefused))
	g.Expect(policy(t, "::1/128").CheckHost("localhost")).To(Succeed())
	g.Expect(policy(t, "169.254.7.0/24").Check(netip.MustParseAddr("169.254.169.254"))).To(MatchError(ErrRefused))
	g.Expect(policy(t, "64:ff9b::/96").Check(netip.MustParseAddr("64:ff9b::7f00:1"))).To(Succeed())
}

func TestNetworksThatAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                      "must be a network",
		"127.0.0.1":             "must be a network",
		"localhost":             "must be a network",
		"127.0.0.1/8":           "127.0.0.0/8 would be the network",
		"::ffff:127.0.0.0/104":  "IPv4 network",
		"10.0.0.0/8":            "allowed anyway",
		"fd00::/8":              "allowed anyway",
		"127.0.0.0/33":          "must be a network",
		"fe80::1%eth0/128":      "must be a network",
		"127.0.0.0/8,::1/128":   "must be a network",
		strings.Repeat("1", 99): "must be a network",
	} {
		_, err := Allow("127.0.0.0/8", text)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)), text)
	}
}

func TestControlRefusesWhatIsNoTCPAddress(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Policy{}.Control("unix", "/run/socket", nil)).To(MatchError(ErrRefused))
	g.Expect(Policy{}.Control("tcp4", "name:443", nil)).To(MatchError(ErrRefused))
	g.Expect(Policy{}.Control("tcp6", "[2001:db8::1]:443", nil)).To(Succeed())
	g.Expect(Policy{}.Control("tcp6", "[fe80::1%eth0]:443", nil)).To(MatchError(ErrRefused))
}

// The dialer calls Control with the address that it is about to dial, whatever the name was.
func TestDialIsRefusedAfterTheNameWasResolved(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = listener.Close() }()
	accepted := make(chan struct{})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
			accepted <- struct{}{}
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1"} {
		_, err := (&net.Dialer{Control: Policy{}.Control}).DialContext(context.Background(), "tcp",
			net.JoinHostPort(host, port))
		g.Expect(err).To(MatchError(ErrRefused), host)
	}
	g.Consistently(accepted, "100ms").ShouldNot(Receive())
	conn, err := (&net.Dialer{Control: policy(t, "127.0.0.0/8").Control}).DialContext(context.Background(), "tcp",
		listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(accepted).Should(Receive())
	_ = conn.Close()
}
