package hostile

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// aliases is a kubeconfig of some 215 KiB whose value is a list that refers thousands of times to a long text.
func aliases(valid []byte, form string) []byte {
	const length, references = 100 << 10, 35_000
	var out strings.Builder
	out.Write(valid)
	switch form {
	case "list":
		fmt.Fprintf(&out, "x: &a %q\ny: [%s*a]\n", strings.Repeat("a", length), strings.Repeat("*a,", references))
	case "nested":
		out.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
		for i := range 9 {
			fmt.Fprintf(&out, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
		}
	case "merge":
		fmt.Fprintf(&out, "x: &a {k: %q}\ny:\n", strings.Repeat("a", length))
		for range 8000 {
			out.WriteString("- {<<: *a}\n")
		}
	case "depth":
		out.WriteString("x: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "\n")
	case "keys":
		out.WriteString("x:\n")
		for i := range 20_000 {
			fmt.Fprintf(&out, "  k%d: {}\n", i)
		}
	}
	return []byte(out.String())
}

// absurdKey is a private key of RSA with so many bits that its checks take minutes, in PEM. Its numbers fit each
// other as far as they are cheap to check.
var absurdKey = sync.OnceValues(func() ([]byte, error) {
	const bits = 230_000
	random := func(bits int) (*big.Int, error) {
		n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits))) //nolint:gosec // it is positive
		if err != nil {
			return nil, fmt.Errorf("a large number: %w", err)
		}
		return n.SetBit(n.SetBit(n, 0, 1), bits-1, 1), nil
	}
	one := big.NewInt(1)
	for {
		p, err := random(bits / 2)
		if err != nil {
			return nil, err
		}
		q, err := random(bits / 2)
		if err != nil {
			return nil, err
		}
		p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
		e := big.NewInt(65537)
		d := new(big.Int).ModInverse(e, new(big.Int).Mul(p1, q1))
		inverse := new(big.Int).ModInverse(q, p)
		if d == nil || inverse == nil {
			continue
		}
		raw, err := asn1.Marshal(struct {
			Version                        int
			N                              *big.Int
			E                              int
			D, P, Q, DModP, DModQ, Inverse *big.Int
		}{0, new(big.Int).Mul(p, q), 65537, d, p, q, new(big.Int).Mod(d, p1), new(big.Int).Mod(d, q1), inverse})
		if err != nil {
			return nil, fmt.Errorf("encoding a large key: %w", err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: raw}), nil
	}
})

// withKey is a kubeconfig with a client certificate and a key.
func (id *identity) withKey(address string, key []byte) ([]byte, error) {
	leaf, err := x509.ParseCertificate(id.certificate.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("certificate of a kubeconfig: %w", err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw})
	return testbed.Rewrite(id.kubeconfig(address), func(config *testbed.KubeConfig) {
		for _, user := range config.AuthInfos {
			user.Token, user.ClientCertificateData, user.ClientKeyData = "", certificate, key
		}
	}), nil
}

// kubeconfigCases are those of registrations that are costly to read, and of many that are slow to connect.
func kubeconfigCases() []attack {
	var out []attack
	for _, form := range []string{"list", "nested", "merge", "depth", "keys"} {
		for _, before := range []bool{false, true} {
			name := "kubeconfig, aliases: " + form
			if before {
				name += ", there at the start"
			}
			out = append(out, attack{
				row: 1, name: name, budget: oneTarget, before: before, calls: true, quick: form == "list" && !before,
				begin: func(ctx context.Context, s *scene) error {
					return s.register(ctx, "t", aliases(s.identity.kubeconfig("https://127.0.0.1:1"), form))
				},
			})
		}
	}
	out = append(out, attack{
		row: 1, name: "kubeconfigs of 900 KiB, ten of them", budget: manyTargets, calls: true,
		begin: func(ctx context.Context, s *scene) error {
			padding := "# " + strings.Repeat("x", 700<<10) + "\n"
			padded := append(s.identity.kubeconfig("https://127.0.0.1:1"), padding...)
			return s.registerAll(ctx, 10, padded)
		},
	}, attack{
		row: 2, name: "RSA keys of 230,000 bits, ten Secrets",
		budget: manyTargets, calls: true, window: 30 * time.Second,
		begin: func(ctx context.Context, s *scene) error {
			key, err := absurdKey()
			if err != nil {
				return err
			}
			kubeconfig, err := s.identity.withKey("https://127.0.0.1:1", key)
			if err != nil {
				return err
			}
			return s.registerAll(ctx, 10, kubeconfig)
		},
	}, attack{
		row: 2, name: "an RSA key in a small kubeconfig, ten Secrets that change",
		budget: manyTargets, calls: true, quick: true,
		begin: func(ctx context.Context, s *scene) error {
			// 64 KiB of kubeconfig hold a key of that size.
			key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: make([]byte, 30<<10)})
			kubeconfig, err := s.identity.withKey("https://127.0.0.1:1", key)
			if err != nil {
				return err
			}
			return s.registerAll(ctx, 10, kubeconfig)
		},
		goesOn: func(ctx context.Context, s *scene) error {
			for i := 0; ; i++ {
				if err := slowly(ctx, 100*time.Millisecond); err != nil {
					return err
				}
				secret := testbed.Registration(s.namespace, "t"+strconv.Itoa(i%10), nil)
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"a":"%d"}}}`, i)
				err := s.tenant.Patch(ctx, secret, client.RawPatch("application/merge-patch+json", patch))
				if client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("changing a Secret: %w", err)
				}
			}
		},
	})
	for _, v := range []struct {
		name          string
		registrations int
		quick         bool
	}{{"500 registrations", 500, false}, {"100 registrations", 100, true}} {
		out = append(out, attack{
			row: 9, name: v.name + " that answer /version and then hang",
			budget: manyTargets, window: 30 * time.Second, quick: v.quick,
			begin: func(ctx context.Context, s *scene) error {
				hangsLater := func(w http.ResponseWriter, r *http.Request) bool { return !isVersion(r) && hangs(w, r) }
				srv, err := s.server(serverOptions{intercept: hangsLater}) //nolint:contextcheck // it is closed
				if err != nil {
					return err
				}
				return s.registerAll(ctx, v.registrations, srv.kubeconfig())
			},
		})
	}
	out = append(out, attack{
		row: 9, name: "200 registrations that answer nothing at all", budget: manyTargets, window: 30 * time.Second,
		begin: func(ctx context.Context, s *scene) error {
			srv, err := s.server(serverOptions{intercept: hangs}) //nolint:contextcheck // it is closed
			if err != nil {
				return err
			}
			return s.registerAll(ctx, 200, srv.kubeconfig())
		},
	})
	return out
}

// slowly waits.
func slowly(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// slowDiscovery answers discovery late, with a failure.
func slowDiscovery(w http.ResponseWriter, r *http.Request) bool {
	_, ok := isResource(r.URL.Path)
	if ok || isVersion(r) {
		return false
	}
	if slow(r, 9*time.Second) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "unavailable") // a client that left gets no answer
	}
	return true
}

// discoveryCases are those of discovery that is slow and then fails.
func discoveryCases() []attack {
	objects := func() []string {
		var out []string
		for i := range 150 {
			const rest = `"kind":"K","metadata":{"namespace":"default","name":"o"}}`
			out = append(out, fmt.Sprintf(`{"apiVersion":"g%d.example.org/v1",%s`, i, rest))
		}
		return out
	}
	return []attack{{
		row: 4, name: "slow failing discovery, 150 objects", budget: oneTarget, quick: true, stalls: true,
		window: 30 * time.Second,
		long:   13 * time.Minute, // the heartbeat once stopped after ten, and /healthz failed after twelve
		begin: func(ctx context.Context, s *scene) error {
			srv, err := s.server(serverOptions{intercept: slowDiscovery}) //nolint:contextcheck // it is closed
			if err != nil {
				return err
			}
			if err := s.manage(ctx, "t", "t-objects", objects()...); err != nil {
				return err
			}
			return s.register(ctx, "t", srv.kubeconfig())
		},
	}, {
		row: 4, name: "slow failing discovery, 30 targets of 150 objects",
		budget: manyTargets, window: 30 * time.Second,
		begin: func(ctx context.Context, s *scene) error {
			for i := range 30 {
				srv, err := s.server(serverOptions{intercept: slowDiscovery}) //nolint:contextcheck // it is closed
				if err != nil {
					return err
				}
				name := "t" + strconv.Itoa(i)
				if err := s.manage(ctx, name, name+"-objects", objects()...); err != nil {
					return err
				}
				if err := s.register(ctx, name, srv.kubeconfig()); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}
