package clustercache

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

// reached begins a regular expression for the line of the log with the reason.
const reached = `"The target cannot be reached".*"target"="garden/a".*"details"="`

// serveRaw answers each connection with f, on a port of its own.
func serveRaw(t *testing.T, f func(net.Conn)) (server string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				f(conn)
			}()
		}
	}()
	return "https://" + listener.Addr().String()
}

// The owner of a registration chooses what the hub dials. All failures look the same to the owner, because otherwise
// the hub could be used to scan networks. The log has the details.
func TestFailuresToConnectLookTheSame(t *testing.T) {
	for name, test := range map[string]struct {
		server func(t *testing.T, a *apiServer) (server string, ca []byte)
		logs   string
	}{
		"closed port": {func(t *testing.T, a *apiServer) (string, []byte) {
			port, err := controlplane.FreePort()
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			return fmt.Sprintf("https://127.0.0.1:%d", port), a.ca
		}, "connection refused"},
		"packets are dropped": {func(t *testing.T, a *apiServer) (string,
			[]byte) {
			return "https://" + deafAddress(t), a.ca
		}, "deadline exceeded"},
		"the socket is reset": {func(t *testing.T, a *apiServer) (string, []byte) {
			return serveRaw(t, func(conn net.Conn) {
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
			}), a.ca
		}, ""},
		"it ends at once": {func(t *testing.T, a *apiServer) (string, []byte) {
			return serveRaw(t, func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadByte() }), a.ca
		}, ""},
		"it never says anything": {func(t *testing.T, a *apiServer) (string, []byte) {
			return serveRaw(t, func(conn net.Conn) {
				_, _ = conn.Read(make([]byte, 1<<16))
				_,
					_ = conn.Read(make([]byte, 1))
			}), a.ca
		}, "deadline exceeded"},
		"it speaks something else": {func(t *testing.T, a *apiServer) (string, []byte) {
			return serveRaw(t, func(conn net.Conn) { _, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n")) }), a.ca
		}, "tls: "},
		"it speaks plain HTTP": {func(t *testing.T, a *apiServer) (string, []byte) {
			return serveRaw(t, func(conn net.Conn) {
				_,
					_ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			}), a.ca
		}, "tls: "},
		"its certificate is of another authority": {func(t *testing.T, a *apiServer) (string, []byte) {
			return a.server.URL, newAPIServer(t, newStore("uid-b")).ca
		}, "certificate signed by unknown authority"},
		"its certificate has another name": {func(_ *testing.T, a *apiServer) (string, []byte) {
			return strings.Replace(a.server.URL, "127.0.0.1", "target.example", 1), a.ca
		}, "certificate is valid for"},
		"it wants another version of TLS": {func(_ *testing.T, a *apiServer) (string, []byte) {
			a.serving.Store(&tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10,
				Certificates: a.serving.Load().Certificates})
			return a.server.URL, a.ca
		}, "tls: "},
		"the name does not exist": {func(_ *testing.T, a *apiServer) (string,
			[]byte) {
			return "https://nowhere.invalid:6443", a.ca
		}, "no such host"},
		"the address is refused": {func(_ *testing.T, a *apiServer) (string, []byte) {
			return "https://refused.example:6443", a.ca
		}, "the address is refused"},
		"it closes the connection instead of an answer": {func(_ *testing.T, a *apiServer) (string, []byte) {
			a.setFault(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
			return a.server.URL, a.ca
		}, ""},
		"it does not answer": {func(_ *testing.T, a *apiServer) (string, []byte) {
			a.setFault(a.hangAll)
			return a.server.URL, a.ca
		}, "deadline exceeded"},
		"its answer breaks off": {func(_ *testing.T, a *apiServer) (string, []byte) {
			a.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("{"))
				panic(http.ErrAbortHandler)
			})
			return a.server.URL, a.ca
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPIServer(t, newStore("uid-a"))
			server, ca := test.server(t, a)
			log := &logged{}
			address := "127.0.0.1"
			if test.logs == "the address is refused" {
				address = "169.254.169.254"
			}
			h := start(t, Options{Logger: log.logger(), Dial: DialOptions{resolver: newNameServer(t, address).resolver()}})
			key := h.register("a", kubeconfigOf(server, ca, "secret-token"))
			status := h.expectState(key, StateDisconnected)
			h.Expect(status.Reason).To(Equal(ReasonUnreachable))
			h.Expect(status.Message).To(Equal(transport.Unreachable))
			h.Eventually(log.text).Should(MatchRegexp(reached + `.*` + test.logs))
			h.Expect(log.text()).NotTo(ContainSubstring("secret-token"))
			h.unregister(key)
		})
	}
}

// The same holds for calls of a target that is connected, and for a new connection beside it.
func TestFailuresOfCallsLookTheSame(t *testing.T) {
	var seen []string
	for name, fault := range map[string]func(a *apiServer) func(http.ResponseWriter, *http.Request) bool{
		"reset": func(*apiServer) func(http.ResponseWriter, *http.Request) bool {
			return func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
		},
		"silence": func(a *apiServer) func(http.ResponseWriter, *http.Request) bool { return a.hangAll },
	} {
		t.Run(name, func(t *testing.T) {
			log := &logged{}
			h, a, key := connected(t, Options{
				Logger: log.logger(),
				Limits: func(ClusterKey) Limits { return Limits{Timeout: time.Second} },
				Probe:  ProbeOptions{Interval: time.Hour, Timeout: patience},
			})
			held, err := h.cache.GetMetadataClient(t.Context(), key)
			h.Expect(err).NotTo(HaveOccurred())
			a.setFault(fault(a))
			err = get(held)
			var unreachable *transport.UnreachableError
			h.Expect(errors.As(err, &unreachable)).To(BeTrue(), "%v", err)
			seen = append(seen, strings.Replace(err.Error(), a.server.URL, "", 1))
			h.Eventually(log.text).Should(MatchRegexp(reached + `.+`))
			a.setFault(nil)
		})
	}
	g := NewWithT(t)
	g.Expect(seen).To(HaveLen(2))
	g.Expect(seen[0]).To(Equal(seen[1]))
	g.Expect(seen[0]).To(HaveSuffix(": " + transport.Unreachable))
}

func TestFailureOfARotationLooksTheSame(t *testing.T) {
	h, a, key := connected(t, patiently())
	h.register("a", kubeconfigOf(a.server.URL, newAPIServer(t, newStore("uid-b")).ca, "x"))
	h.Eventually(func() string { return h.status(key).PendingMessage }).Should(Equal(transport.Unreachable))
	h.Expect(h.status(key).PendingReason).To(Equal(ReasonUnreachable))
	h.Expect(h.state(key)).To(Equal(StateConnected))
}
