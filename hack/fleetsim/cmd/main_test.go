package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/addresses"
	registration "github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serving runs the command until it has started its fleet, and returns what it printed.
func serving(t *testing.T, args ...string) (printed string, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var stdout bytes.Buffer
	err = serve(ctx, args, &stdout, writer(func(p []byte) {
		if bytes.Contains(p, []byte("API servers run")) {
			stop()
		}
	}))
	stop()
	return stdout.String(), err
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestServePrintsSecretsThatAreReadyToApply(t *testing.T) {
	g := NewWithT(t)
	printed, err := serving(t, "--targets", "3", "--namespace-prefix", "shoot--x--", "--objects", "shoot-20")
	g.Expect(err).NotTo(HaveOccurred())
	documents := strings.Split(printed, "---\n")
	g.Expect(documents).To(HaveLen(1 + 3 + 3))
	g.Expect(documents[1]).To(ContainSubstring("kind: Namespace"))
	local, err := addresses.Allow("127.0.0.0/8")
	g.Expect(err).NotTo(HaveOccurred())
	for _, document := range documents[4:] {
		secret := &corev1.Secret{}
		g.Expect(yaml.UnmarshalStrict([]byte(document), secret)).To(Succeed())
		g.Expect(registration.IsRegistration(secret)).To(BeTrue())
		g.Expect(secret.Namespace).To(Equal("shoot--x--" + strings.TrimSuffix(secret.Name, "-kubeconfig")))
		_, err := registration.FromSecret(secret, registration.Policy{Addresses: local})
		g.Expect(err).NotTo(HaveOccurred())
	}
	printed, err = serving(t, "--targets", "2", "--namespace", "fleet")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(printed, "---\n")).To(Equal(1 + 2))
}

func TestAWrongCommandLine(t *testing.T) {
	for args, says := range map[string]string{
		"--target 3":         "flag provided but not defined: -target",
		"--targets 0":        "the number of targets is 0",
		"--objects shoot-30": `there are no objects "shoot-30"`,
		"x":                  `"x" is not a flag`,
	} {
		g := NewWithT(t)
		_, err := serving(t, strings.Fields(args)...)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
}
