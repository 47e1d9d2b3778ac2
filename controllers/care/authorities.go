package care

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// acceptable is how long a certificate authority has to be valid.
	acceptable = 365 * 24 * time.Hour
	// maxBundle and maxCertificates bound what is looked at of one bundle.
	maxBundle, maxCertificates = 256 << 10, 64
)

// bundles are where a target has certificates of its authorities, all in kube-system.
var bundles = []struct {
	configMap string
	keys      []string
}{
	{"kube-root-ca.crt", []string{"ca.crt"}},
	{"extension-apiserver-authentication", []string{"client-ca-file", "requestheader-client-ca-file"}},
}

// authority is a certificate authority that expires soon.
type authority struct {
	name string
	ends time.Time
}

// authorities reports whether certificate authorities of a target expire within a year: those of its registration, and
// those that it has in kube-system itself, as far as they may be read.
func (r *reconciler) authorities(ctx context.Context, target *multicluster.Target) (finding, error) {
	seen := map[[sha256.Size]byte]bool{}
	var found texts
	look := func(bundle []byte) {
		for _, a := range expiring(bundle, r.clock.Now(), seen) {
			found.add(fmt.Sprintf("%q at %s", a.name, a.ends.UTC().Format(time.RFC3339)))
		}
	}
	look(target.Status.CA)
	for _, b := range bundles {
		if err := lookInto(ctx, target, b.configMap, b.keys, look); err != nil {
			return finding{}, err
		}
	}
	f := finding{constraint: hubv1alpha1.ConstraintCACertificateValiditiesAcceptable}
	if found.n > 0 {
		f.status, f.reason = metav1.ConditionFalse, hubv1alpha1.ReasonExpiringCACertificates
		f.message = fmt.Sprintf("Certificate authorities expire within a year, or have expired: %s", found)
	}
	return f, nil
}

// lookInto shows look what a ConfigMap has.
func lookInto(
	ctx context.Context, target *multicluster.Target, name string, keys []string, look func(bundle []byte),
) error {
	ctx, done := clustercache.HoldAnswers(ctx)
	defer done()
	configMap := &corev1.ConfigMap{}
	err := target.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name}, configMap)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s/%s: %w", metav1.NamespaceSystem, name, err)
	}
	for _, key := range keys {
		look([]byte(configMap.Data[key]))
	}
	return nil
}

// expiring are the certificates of a bundle that expire soon and were not seen yet. What is no certificate is left out.
func expiring(bundle []byte, now time.Time, seen map[[sha256.Size]byte]bool) (soon []authority) {
	if len(bundle) > maxBundle {
		return nil
	}
	for range maxCertificates {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return soon
		}
		if block.Type != "CERTIFICATE" || seen[sha256.Sum256(block.Bytes)] {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		seen[sha256.Sum256(block.Bytes)] = true
		if certificate.NotAfter.Before(now.Add(acceptable)) {
			soon = append(soon, authority{untrusted.Token(certificate.Subject.String()), certificate.NotAfter})
		}
	}
	return soon
}
