package remote

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/trellis-hub/trellis/addresses"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// serve starts a server that notes the tokens it is shown.
func serve(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, ca []byte,
	tokens *atomic.Pointer[string]) {
	t.Helper()
	tokens = &atomic.Pointer[string]{}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get("Authorization")
		tokens.Store(&token)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), tokens
}

// A server that is asked first could have the token sent to another one.
func TestNoRedirectIsFollowed(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			g := NewWithT(t)
			thief, _, stolen := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			server, ca, shown := serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r,
					thief.URL+r.URL.Path, code)
			})
			config := &kubeconfig.Config{Server: server.URL, CA: ca,
				Token: "secret-token"} // both servers have the same certificate
			_, err := Connect(t.Context(), config, time.Minute, addresses.Any())
			g.Expect(err).To(MatchError(ContainSubstring("redirects to another address, which is not followed")))
			g.Expect(cli.ExitCode(err)).To(Equal(cli.ExitRefused))
			g.Expect(shown.Load()).To(HaveValue(Equal("Bearer secret-token")))
			g.Expect(stolen.Load()).To(BeNil())
		})
	}
}

func TestAddressesThatAreNotAllowedAreNotDialled(t *testing.T) {
	server, ca, shown := serve(t, func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	})
	allowed, err := addresses.Allow("127.0.0.0/8")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, test := range map[string]struct {
		policy  addresses.Policy
		says    string
		dialled bool
	}{
		"nothing is allowed": {addresses.Policy{},
			"127.0.0.1 is a loopback address; --allow-network allows a network", false},
		"the loopback network":  {allowed, "does not accept the credential", true},
		"the source is allowed": {addresses.Any(), "does not accept the credential", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			shown.Store(nil)
			_, err := ConnectREST(t.Context(), &rest.Config{Host: server.URL, BearerToken: "x",
				TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, time.Minute, test.policy)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(cli.ExitCode(err)).To(Equal(cli.ExitRefused))
			g.Expect(shown.Load() != nil).To(Equal(test.dialled))
		})
	}
}

func TestNetworksThatMakeNoSenseAreRefused(t *testing.T) {
	g := NewWithT(t)
	_, err := (&Flags{AllowedNetworks: []string{"127.0.0.1"}}).Policy()
	g.Expect(err).To(MatchError(ContainSubstring(`--allow-network: network "127.0.0.1": must be a network`)))
	g.Expect(cli.ExitCode(err)).To(Equal(cli.ExitUsage))
}

func TestNetworksOfTheEnvironment(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("TRELLISCTL_ALLOW_NETWORK", "::1/128,127.0.0.1")
	_, err := (&Flags{}).Policy()
	g.Expect(err).To(MatchError(ContainSubstring(`$TRELLISCTL_ALLOW_NETWORK: network "127.0.0.1": must be a network`)))
	t.Setenv("TRELLISCTL_ALLOW_NETWORK", "::1/128,127.0.0.0/8")
	policy, err := (&Flags{}).Policy()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policy.Addresses.CheckHost("127.0.0.1")).To(Succeed())
	policy, err = (&Flags{AllowedNetworks: []string{"169.254.0.0/16"}}).Policy()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policy.Addresses.CheckHost("127.0.0.1")).To(MatchError(addresses.ErrRefused), "the flag is used instead")
}
