package csrapprover

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of what is looked at. A request of a real kubelet has 2 KiB and a dozen names.
const (
	maxRequest   = 64 << 10
	maxNames     = 500
	maxAddresses = 500
)

const pemType = "CERTIFICATE REQUEST"

// unusableError says that something cannot be judged, for a reason that will not go away by itself.
type unusableError struct{ fault string }

func (e *unusableError) Error() string { return e.fault }

func unusable(format string, args ...any) error {
	return &unusableError{untrusted.Message(fmt.Sprintf(format, args...))}
}

// parse reads the certificate request of a CertificateSigningRequest. Its signature is not checked: the signer does.
func parse(csr *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, error) {
	if len(csr.Spec.Request) > maxRequest {
		return nil, unusable("spec.request has %d bytes, more than %d", len(csr.Spec.Request), maxRequest)
	}
	block, _ := pem.Decode(csr.Spec.Request)
	switch {
	case block == nil:
		return nil, unusable("spec.request is not in PEM")
	case block.Type != pemType:
		return nil, unusable("spec.request is a %q instead of a %q", block.Type, pemType)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, unusable("spec.request cannot be parsed: %s", err)
	}
	names := len(request.DNSNames) + len(request.IPAddresses) + len(request.EmailAddresses) + len(request.URIs)
	if names > maxNames {
		return nil, unusable("spec.request has %d alternative names, more than %d", names, maxNames)
	}
	return request, nil
}

// decided reports whether nothing is left to decide of a CertificateSigningRequest.
func decided(csr *certificatesv1.CertificateSigningRequest) bool {
	for _, condition := range csr.Status.Conditions {
		if decides(string(condition.Type)) {
			return true
		}
	}
	return len(csr.Status.Certificate) > 0
}

func decides(conditionType string) bool {
	return conditionType == string(certificatesv1.CertificateApproved) ||
		conditionType == string(certificatesv1.CertificateDenied)
}

// isName reports whether an object can have a name, which may come from any client.
func isName(name string) bool { return len(utilvalidation.IsDNS1123Subdomain(name)) == 0 }
