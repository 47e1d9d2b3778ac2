package clustercache

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
)

// nameServer resolves each name to the same IPv4 address, which may be another one at any time.
type nameServer struct {
	address atomic.Pointer[netip.Addr]
	conn    net.PacketConn
}

func newNameServer(t *testing.T, address string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s := &nameServer{conn: conn}
	s.resolve(address)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return s
}

func (s *nameServer) resolve(address string) {
	parsed := netip.MustParseAddr(address)
	s.address.Store(&parsed)
}

func (s *nameServer) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var message dnsmessage.Message
		if message.Unpack(buffer[:n]) != nil || len(message.Questions) != 1 {
			continue
		}
		question := message.Questions[0]
		answer := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: message.ID, Response: true, Authoritative: true, RecursionAvailable: true},
			Questions: message.Questions,
		}
		switch {
		case strings.HasSuffix(question.Name.String(), "invalid."):
			answer.RCode = dnsmessage.RCodeNameError
		case question.Type == dnsmessage.TypeA:
			answer.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class},
				Body:   &dnsmessage.AResource{A: s.address.Load().As4()},
			}}
		}
		if packed, err := answer.Pack(); err == nil {
			_, _ = s.conn.WriteTo(packed, from)
		}
	}
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", s.conn.LocalAddr().String())
	}}
}

// accepted counts what a server accepts.
type accepted struct {
	net.Listener
	count atomic.Int32
}

func (a *accepted) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.count.Add(1)
	}
	return conn, err
}

// listen has something listen on an address and the port of another server, to which it leads.
func listen(t *testing.T, host string, a *apiServer) (listener *accepted, port string) {
	t.Helper()
	g := NewWithT(t)
	_, port, err := net.SplitHostPort(a.server.Listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	l, err := net.Listen("tcp4", net.JoinHostPort(host, port))
	g.Expect(err).NotTo(HaveOccurred())
	listener = &accepted{Listener: l}
	go forward(listener, a.server.Listener.Addr().String())
	t.Cleanup(func() { _ = l.Close() })
	return listener, port
}

// named has a kubeconfig accept the certificate of the servers of tests under another name.
func named(cluster *api.Cluster, _ *api.AuthInfo) { cluster.TLSServerName = "localhost" }

func TestAddressesOfTheHubItselfAreRefused(t *testing.T) {
	a := newAPIServer(t, newStore("uid-a"))
	_, port, err := net.SplitHostPort(a.server.Listener.Addr().String())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, test := range map[string]struct {
		host   string
		reason string
	}{
		"an address":                  {"127.0.0.1", ReasonKubeconfigRefused},
		"its IPv6 form":               {"[::ffff:127.0.0.1]", ReasonKubeconfigRefused},
		"its name":                    {"localhost", ReasonKubeconfigRefused},
		"a short form":                {"127.1", ReasonKubeconfigRefused},
		"a metadata service":          {"169.254.169.254", ReasonKubeconfigRefused},
		"all addresses":               {"0.0.0.0", ReasonKubeconfigRefused},
		"an address with a zone":      {"[fe80::1%25eth0]", ReasonKubeconfigRefused},
		"a translated address":        {"[64:ff9b::7f00:1]", ReasonKubeconfigRefused},
		"a name that resolves to one": {"target.example", ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			options := patiently()
			options.Logger, options.Dial.resolver = log.logger(), newNameServer(t, "127.0.0.1").resolver()
			content := kubeconfigOf("https://"+test.host+":"+port, a.ca, "x", named)

			h := startStrictly(t, options)
			key := h.register("a", content)
			h.Eventually(func() string { return h.status(key).Reason }).Should(Equal(test.reason))
			message := h.status(key).Message
			if test.reason == ReasonUnreachable {
				h.Expect(message).To(Equal(transport.Unreachable))
				h.Eventually(log.text).Should(And(ContainSubstring("the address is refused"),
					ContainSubstring("garden/a")))
			} else {
				h.Expect(message).To(ContainSubstring("in no network that the operator of the hub allows"))
			}
			h.Expect(a.count("")).To(BeZero())
		})
	}
	for _, host := range []string{"127.0.0.1", "localhost", "target.example"} {
		t.Run("allowed: "+host, func(t *testing.T) {
			options := patiently()
			options.Dial.resolver = newNameServer(t, "127.0.0.1").resolver()
			h := start(t, options)
			h.expectState(h.register("a", kubeconfigOf("https://"+host+":"+port, a.ca, "x", named)), StateConnected)
		})
	}
}

// Each dial is judged, whatever the name resolved to before.
func TestNameThatResolvesToAnotherAddressLater(t *testing.T) {
	a := newAPIServer(t, newStore("uid-a"))
	outside, port := listen(t, "127.0.0.2", a)
	inside, _ := listen(t, "127.0.0.3", a)
	names := newNameServer(t, "127.0.0.2")
	log := &logged{}
	options := patiently()
	options.Logger, options.Dial.resolver = log.logger(), names.resolver()
	var err error
	options.Dial.Addresses, err = addresses.Allow("127.0.0.2/32")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	h := startStrictly(t, options)
	key := h.register("a", kubeconfigOf("https://target.example:"+port, a.ca, "x", named))
	h.expectState(key, StateConnected)
	h.Expect(outside.count.Load()).NotTo(BeZero())

	names.resolve("127.0.0.3")
	a.server.CloseClientConnections()
	h.expectState(key, StateDisconnected)
	h.Expect(h.status(key).Message).To(HavePrefix(transport.Unreachable))
	h.Eventually(log.text).Should(ContainSubstring("127.0.0.3 is a loopback address"))
	h.Expect(inside.count.Load()).To(BeZero())

	names.resolve("127.0.0.2")
	h.expectState(key, StateConnected)
}

// A proxy that the operator allowed may be anywhere. It decides what it connects to, except for hosts that are refused
// by name.
func TestProxyOfTheOperatorMayHaveAnyAddress(t *testing.T) {
	a := newAPIServer(t, newStore("uid-a"))
	proxy := newConnectProxy(t, a.server.Listener.Addr().String())
	options := patiently()
	options.Dial.AllowedProxyURLs = []string{proxy.url}
	h := startStrictly(t, options)
	through := func(cluster *api.Cluster, user *api.AuthInfo) {
		named(cluster, user)
		cluster.ProxyURL = proxy.url
	}
	h.expectState(h.register("a", kubeconfigOf("https://target.example:6443", a.ca, "x", through)), StateConnected)
	h.Expect(proxy.asked.Load()).To(HaveValue(Equal("target.example:6443")))
	for _, server := range []string{"https://127.0.0.1:6443", "https://localhost:6443", "https://0x7f.1:6443",
		"https://[::1]:6443"} {
		key := h.register("b", kubeconfigOf(server, a.ca, "x", through))
		h.Eventually(func() string { return h.status(key).Reason }).Should(Equal(ReasonKubeconfigRefused), server)
		h.unregister(key)
		h.Eventually(func() bool { _, known := h.cache.GetStatus(key); return known }).Should(BeFalse())
	}
	h.Expect(proxy.asked.Load()).To(HaveValue(Equal("target.example:6443")))
}

// Targets that the operator configures may have any address.
func TestStaticTargetMayHaveAnyAddress(t *testing.T) {
	a := newAPIServer(t, newStore("uid-a"))
	options := patiently()
	key := ClusterKey{Name: "source"}
	options.Static = map[ClusterKey]*rest.Config{key: {
		Host: a.server.URL, BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{CAData: a.ca},
	}}
	h := startStrictly(t, options)
	h.expectState(key, StateConnected)
}

// connectProxy is an HTTP proxy that connects all its clients to one server.
type connectProxy struct {
	url   string
	asked atomic.Pointer[string]
}

func newConnectProxy(t *testing.T, to string) *connectProxy {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	p := &connectProxy{url: "http://" + listener.Addr().String()}
	inner, err := net.Listen("tcp4", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = inner.Close() })
	go forward(inner, to)
	go p.serve(listener, inner.Addr().String())
	return p
}

func (p *connectProxy) serve(listener net.Listener, to string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go p.connect(conn, to)
	}
}

func (p *connectProxy) connect(conn net.Conn, to string) {
	head := make([]byte, 0, 4096)
	for !strings.HasSuffix(string(head), "\r\n\r\n") {
		one := make([]byte, 1)
		if _, err := conn.Read(one); err != nil || len(head) > 4000 {
			_ = conn.Close()
			return
		}
		head = append(head, one...)
	}
	asked := strings.Fields(string(head))[1]
	p.asked.Store(&asked)
	out, err := net.Dial("tcp", to)
	if err != nil {
		_ = conn.Close()
		return
	}
	_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	pipe(conn, out)
}

// pipe copies data between two sockets until one of them ends.
func pipe(a, b net.Conn) {
	done := make(chan struct{})
	one := func(from, to net.Conn) {
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
				_, _ = from.Close(), to.Close()
				return
			}
		}
	}
	go func() {
		defer close(done)
		one(a, b)
	}()
	one(b, a)
	<-done
}
