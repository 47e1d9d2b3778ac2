package controlplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// The ports of FreePort: below those that the kernel gives to outgoing connections and to listeners that name none, so
// that no other process gets one by chance between its choice and its use.
const lowestPort, ports = 20000, 12000

// This process counts from a port of its own, so that it does not get one twice while it has not used it yet.
var (
	firstPort = rand.Uint32N(ports)
	nextPort  atomic.Uint32
)

// FreePort returns a port of 127.0.0.1 that no process listens on, for a server that needs one as a parameter and is
// started soon. It errs if there is none.
func FreePort() (int, error) {
	var err error
	for range 100 {
		port := lowestPort + int((firstPort+nextPort.Add(1))%ports)
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("finding a free port: %w", err)
}
