package fleetsim

import "fmt"

// RotateToken puts a new token into the kubeconfig.
func (t *Target) RotateToken(r Rotation) error {
	if err := t.credentials.rotateToken(r); err != nil {
		return fmt.Errorf("rotating the token of %s: %w", t.name, err)
	}
	return nil
}

// RotateClientCertificate puts a new client certificate into the kubeconfig.
func (t *Target) RotateClientCertificate(r Rotation) error {
	if err := t.credentials.rotateCertificate(r); err != nil {
		return fmt.Errorf("rotating the client certificate of %s: %w", t.name, err)
	}
	return nil
}

// Revoke ends all tokens and client certificates of kubeconfigs but the newest.
func (t *Target) Revoke() { t.credentials.revoke() }

// RotateServingCertificate makes a new serving certificate, signed by the same authority. New connections see it, open ones
// continue. Revoke means nothing here.
func (t *Target) RotateServingCertificate(r Rotation) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newServing(t.ca, r)
}

// RotateCA makes a new authority and a serving certificate that it signs, so that only clients with the new kubeconfig can
// connect. Open connections continue, unless r says Revoke: then they are reset.
func (t *Target) RotateCA(r Rotation) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ca, err := newAuthority(t.name+"-ca", t.options.Clock())
	if err != nil {
		return fmt.Errorf("rotating the certificate authority of %s: %w", t.name, err)
	}
	if err := t.newServing(ca, r); err != nil {
		return err
	}
	t.ca = ca
	if r.Revoke {
		t.listener.Reset()
	}
	return nil
}

func (t *Target) newServing(ca *authority, r Rotation) error {
	certificate, err := ca.serving(t.name, t.options.Clock(), r.Lifetime)
	if err != nil {
		return fmt.Errorf("rotating the serving certificate of %s: %w", t.name, err)
	}
	t.tls.Store(tlsConfig(certificate))
	return nil
}
