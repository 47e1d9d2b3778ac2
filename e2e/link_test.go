package e2e

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// link is the network between a hub and a cluster. It can be cut, while all others still reach the cluster.
type link struct {
	listener net.Listener
	server   string
	cluster  *testbed.Cluster

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	work  sync.WaitGroup
}

// newLink makes a link that ends with the test.
func newLink(t *testing.T, cluster *testbed.Cluster) *link {
	t.Helper()
	g := NewWithT(t)
	server, err := url.Parse(cluster.Host())
	g.Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	l := &link{listener: listener, server: server.Host, cluster: cluster, conns: map[net.Conn]bool{}}
	l.work.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.setCut(true)
		l.work.Wait()
	})
	return l
}

// kubeconfig is the access of an administrator through the link.
func (l *link) kubeconfig() []byte {
	return testbed.Rewrite(l.cluster.Kubeconfig(), func(config *testbed.KubeConfig) {
		for _, c := range config.Clusters {
			c.Server = "https://" + l.listener.Addr().String()
		}
	})
}

// setCut cuts or mends the link. Connections that are open when it is cut end.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for c := range l.conns {
			_ = c.Close()
		}
	}
}

func (l *link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.work.Go(func() { l.serve(conn) })
	}
}

func (l *link) serve(near net.Conn) {
	far, err := net.Dial("tcp", l.server)
	if err != nil || !l.hold(near, far) {
		_ = near.Close()
		if far != nil {
			_ = far.Close()
		}
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = near.Close()
			_ = far.Close()
		})
	}
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, near)
	delete(l.conns, far)
}

// hold remembers connections unless the link is cut.
func (l *link) hold(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return false
	}
	for _, c := range conns {
		l.conns[c] = true
	}
	return true
}
