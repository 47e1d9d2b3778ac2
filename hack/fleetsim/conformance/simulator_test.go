package conformance

import (
	"context"
	"net/http/httptest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
)

// startSimulator starts a simulated API server. It has no controllers either.
func startSimulator(context.Context) (*server, func(), error) {
	simulator, err := apiserver.New(apiserver.Options{Name: "conformance", NoControllers: true, IssueToken: issueToken})
	if err != nil {
		return nil, nil, err
	}
	listener := httptest.NewUnstartedServer(simulator)
	listener.EnableHTTP2 = true
	listener.StartTLS()
	s := &server{name: "the simulator", url: listener.URL, client: listener.Client()}
	s.compact = func(context.Context) error {
		simulator.Compact()
		return nil
	}
	return s, func() {
		simulator.Stop()
		s.client.CloseIdleConnections()
		listener.Close()
	}, nil
}

// issueToken makes what looks like a token.
func issueToken(_, _ string, _ types.UID, seconds int64) (string, time.Time, error) {
	return "header.claims.signature", time.Now().Add(time.Duration(seconds) * time.Second), nil
}
