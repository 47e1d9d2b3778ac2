package clustercache

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim"
)

// A clock that is wrong, the hub's or the target's, does not matter as long as nothing expires by it.
func TestClockOfTheTargetIsWrong(t *testing.T) {
	for name, skew := range map[string]time.Duration{"an hour fast": time.Hour, "an hour slow": -time.Hour} {
		for _, credentials := range []fleetsim.Credentials{fleetsim.Token, fleetsim.Certificate} {
			t.Run(name+", "+string(credentials), func(t *testing.T) {
				target := simulatedFleet(t, fleetsim.Options{Targets: 1, Credentials: credentials})[0]
				target.Skew(skew)
				h := start(t, Options{})
				key := h.register(target.Name(), target.Kubeconfig())
				h.expectState(key, StateConnected)
				r := h.watchConfigMaps(key)
				h.Expect(write(t.Context(), h.writer(key), "one", "x")).To(Succeed())
				h.Eventually(r.names).Should(ContainElement("one"))
				h.Consistently(func() State { return h.state(key) }).Should(Equal(StateConnected))
				h.Expect(h.cache.GetHealthCheckingState(t.Context(), key).ConsecutiveFailures).To(BeZero())
			})
		}
	}
}

// A credential ends, or has not begun, by the clock of the target, whatever the hub's own clock says. It recovers with
// a new one, and by itself when the time has come.
func TestCredentialThatIsNotValidNow(t *testing.T) {
	for name, c := range map[string]struct {
		credentials fleetsim.Credentials
		rotate      func(target *fleetsim.Target, lifetime time.Duration) error
		lifetime    time.Duration
		skew        time.Duration
	}{
		"a token that has expired":       {fleetsim.Token, rotateToken, -time.Minute, 0},
		"a token, to a fast clock":       {fleetsim.Token, rotateToken, 30 * time.Minute, time.Hour},
		"a certificate that has expired": {fleetsim.Certificate, rotateCertificate, -time.Minute, 0},
		"a certificate, to a fast clock": {fleetsim.Certificate, rotateCertificate, 30 * time.Minute, time.Hour},
		"a certificate, to a slow clock": {fleetsim.Certificate, rotateCertificate, time.Hour, -48 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			target := simulatedFleet(t, fleetsim.Options{Targets: 1, Credentials: c.credentials})[0]
			h := start(t, patiently())
			h.Expect(c.rotate(target, c.lifetime)).To(Succeed())
			target.Skew(c.skew)
			key := h.register(target.Name(), target.Kubeconfig())
			status := h.expectState(key, StateDisconnected)
			h.Expect(status.Reason).To(Equal(ReasonUnauthorized), status.Message)
			h.Expect(status.Message).NotTo(BeEmpty())

			if c.skew != 0 {
				target.Skew(0)
			} else {
				h.Expect(c.rotate(target, time.Hour)).To(Succeed())
				h.register(target.Name(), target.Kubeconfig())
			}
			h.Expect(h.expectState(key, StateConnected).CredentialExpiry).To(BeTemporally(">", time.Now()))
		})
	}
}

func rotateToken(target *fleetsim.Target, lifetime time.Duration) error {
	return target.RotateToken(fleetsim.Rotation{Lifetime: lifetime, Revoke: true})
}

func rotateCertificate(target *fleetsim.Target, lifetime time.Duration) error {
	return target.RotateClientCertificate(fleetsim.Rotation{Lifetime: lifetime, Revoke: true})
}

// A credential that expires under a connection that is open ends it, and says so; a new one brings it back.
func TestCredentialThatExpiresUnderAConnection(t *testing.T) {
	for name, rotate := range map[fleetsim.Credentials]func(*fleetsim.Target, time.Duration) error{
		fleetsim.Token: rotateToken, fleetsim.Certificate: rotateCertificate,
	} {
		t.Run(string(name), func(t *testing.T) {
			target := simulatedFleet(t, fleetsim.Options{Targets: 1, Credentials: name})[0]
			h := start(t, Options{})
			h.Expect(rotate(target, 30*time.Minute)).To(Succeed())
			key := h.register(target.Name(), target.Kubeconfig())
			h.Expect(h.expectState(key, StateConnected).CredentialExpiry).To(BeTemporally("~", time.Now().Add(30*time.Minute), time.Minute))
			r := h.watchConfigMaps(key)

			target.Skew(time.Hour)
			h.Expect(h.expectState(key, StateDisconnected).Reason).To(Equal(ReasonUnauthorized))
			h.Expect(rotate(target, 2*time.Hour)).To(Succeed())
			h.register(target.Name(), target.Kubeconfig())
			h.expectState(key, StateConnected)
			h.Expect(write(t.Context(), h.writer(key), "one", "x")).To(Succeed())
			h.Eventually(r.names).Should(ContainElement("one"))
			h.Expect(r.faultsNow()).To(BeEmpty())
		})
	}
}

// A credential that has expired before it comes leaves the one in place that serves, and says so.
func TestNewCredentialThatHasExpired(t *testing.T) {
	for name, rotate := range map[fleetsim.Credentials]func(fleetsim.Rotation, *fleetsim.Target) error{
		fleetsim.Token:       func(r fleetsim.Rotation, target *fleetsim.Target) error { return target.RotateToken(r) },
		fleetsim.Certificate: func(r fleetsim.Rotation, target *fleetsim.Target) error { return target.RotateClientCertificate(r) },
	} {
		t.Run(string(name), func(t *testing.T) {
			target := simulatedFleet(t, fleetsim.Options{Targets: 1, Credentials: name})[0]
			h := start(t, Options{})
			key := h.register(target.Name(), target.Kubeconfig())
			before := h.expectState(key, StateConnected)
			r := h.watchConfigMaps(key)

			h.Expect(rotate(fleetsim.Rotation{Lifetime: -time.Minute}, target)).To(Succeed())
			h.register(target.Name(), target.Kubeconfig())
			h.Eventually(func() string { return h.status(key).PendingReason }).Should(Equal(ReasonUnauthorized))
			status := h.status(key)
			h.Expect(status.State).To(Equal(StateConnected))
			h.Expect(status.Connection).To(Equal(before.Connection))
			h.Expect(status.CredentialExpiry).To(Equal(before.CredentialExpiry), "that of the one in use")
			h.Expect(status.PendingMessage).NotTo(BeEmpty())
			h.Expect(write(t.Context(), h.writer(key), "one", "x")).To(Succeed())
			h.Eventually(r.names).Should(ContainElement("one"))
			h.Expect(r.syncs()).To(Equal(1))

			h.Expect(rotate(fleetsim.Rotation{Lifetime: time.Hour}, target)).To(Succeed())
			h.register(target.Name(), target.Kubeconfig())
			h.Eventually(func() string { return h.status(key).PendingSecretResourceVersion }).Should(BeEmpty())
			h.Expect(h.state(key)).To(Equal(StateConnected))
			h.Expect(r.faultsNow()).To(BeEmpty())
		})
	}
}

// The certificate of the server is judged by the hub's clock. The log reports that it is not valid at present, and a
// valid certificate ends the fault.
func TestServingCertificateThatIsNotValidNow(t *testing.T) {
	target := simulatedFleet(t, fleetsim.Options{Targets: 1, Clock: func() time.Time { return time.Now().Add(72 * time.Hour) }})[0]
	log := &logged{}
	options := patiently()
	options.Logger = log.logger()
	h := start(t, options)
	key := h.register(target.Name(), target.Kubeconfig())
	status := h.expectState(key, StateDisconnected)
	h.Expect(status.Reason).To(Equal(ReasonUnreachable))
	h.Eventually(log.text).Should(ContainSubstring("not yet valid"))

	good := simulatedFleet(t, fleetsim.Options{Targets: 1, Seed: 7})[0]
	h.register(target.Name(), good.Kubeconfig())
	h.expectState(key, StateConnected)
	h.Expect(good.RotateServingCertificate(fleetsim.Rotation{Lifetime: -time.Minute})).To(Succeed())
	h.strikeConnections(good)
	h.Eventually(log.text).Should(ContainSubstring("expired"))
	h.Expect(good.RotateServingCertificate(fleetsim.Rotation{})).To(Succeed())
	h.expectState(key, StateConnected)
}

// strikeConnections ends the connections to a target.
func (h *hub) strikeConnections(target *fleetsim.Target) {
	h.t.Helper()
	h.Expect(target.ResetConnections()).To(BeNumerically(">", 0))
}
