package kubeconfig

import (
	"encoding/asn1"
	"encoding/pem"
	"strings"
)

// Bounds of keys and certificates. What is larger would take seconds to validate, or to verify a server with.
const (
	// maxKeyBits is the largest modulus of an RSA key.
	maxKeyBits = 16384
	// maxPublicKeyBytes is the length of a public key in DER that is none of RSA. Those of all elliptic curves are much
	// shorter.
	maxPublicKeyBytes = 2048
	// maxPrivateKeyBytes is the length of a private key in DER. One of RSA with two primes and 16,384 bits has 9.3 KiB.
	maxPrivateKeyBytes = 12 << 10
	// maxAuthorities and maxChain are how many certificates certificate-authority-data and client-certificate-data may
	// hold.
	maxAuthorities = 128
	maxChain       = 16
	// maxKeyDepth is how deeply the parts of a private key are nested that are looked at: PKCS #8 around PKCS #1 with
	// further primes.
	maxKeyDepth = 5
)

const (
	blockCertificate = "CERTIFICATE"
	blockPrivateKey  = "PRIVATE KEY"
)

var oidRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}

// judgeCertificates refuses certificates in a PEM text that exceed a bound, before anything computes with them. field
// names their field.
func judgeCertificates(field string, text []byte, most int) error {
	n := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != blockCertificate {
			continue
		}
		if n++; n > most {
			return invalid("%s holds more than %d certificates", field, most)
		}
		switch bits, ok := publicKeyBits(block.Bytes); {
		case !ok:
			return invalid("%s holds a malformed certificate", field)
		case bits > maxKeyBits:
			return invalid("%s holds a certificate whose key has more than %d bits", field, maxKeyBits)
		}
	}
	return nil
}

// publicKeyBits returns the length of the public key of a certificate, and false if it cannot be determined.
func publicKeyBits(certificate []byte) (bits int, ok bool) {
	outer, ok := sequence(certificate)
	if !ok {
		return 0, false
	}
	toBeSigned, ok := sequence(outer)
	if !ok {
		return 0, false
	}
	// The version, which has a tag of its own, may be missing. Then come the serial number, the algorithm of the
	// signature, the issuer, the validity and the subject.
	before := 5
	var value asn1.RawValue
	rest, err := asn1.Unmarshal(toBeSigned, &value)
	if err == nil && value.Class == asn1.ClassContextSpecific {
		rest, err = asn1.Unmarshal(rest, &value)
	}
	for range before - 1 {
		if err != nil {
			return 0, false
		}
		rest, err = asn1.Unmarshal(rest, &value)
	}
	if err != nil {
		return 0, false
	}
	key, ok := sequence(rest)
	if !ok {
		return 0, false
	}
	return subjectKeyBits(key)
}

// subjectKeyBits is publicKeyBits for the content of a SubjectPublicKeyInfo.
func subjectKeyBits(key []byte) (bits int, ok bool) {
	algorithm, ok := sequence(key)
	if !ok {
		return 0, false
	}
	var oid asn1.ObjectIdentifier
	if _, err := asn1.Unmarshal(algorithm, &oid); err != nil {
		return 0, false
	}
	if !oid.Equal(oidRSA) {
		if len(key) > maxPublicKeyBytes {
			return maxKeyBits + 1, true
		}
		return 8 * len(key), true
	}
	var first asn1.RawValue
	rest, err := asn1.Unmarshal(key, &first)
	if err != nil {
		return 0, false
	}
	var text asn1.BitString
	if _, err := asn1.Unmarshal(rest, &text); err != nil {
		return 0, false
	}
	numbers, ok := sequence(text.Bytes)
	if !ok {
		return 0, false
	}
	var modulus asn1.RawValue
	if _, err := asn1.Unmarshal(numbers, &modulus); err != nil || modulus.Tag != asn1.TagInteger {
		return 0, false
	}
	return integerBits(modulus), true
}

// judgePrivateKeys refuses private keys in a PEM text that are too large, before anything computes with them.
func judgePrivateKeys(text []byte) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, blockPrivateKey) {
			continue
		}
		if len(block.Bytes) > maxPrivateKeyBytes || largestInteger(block.Bytes, 0) > maxKeyBits {
			return invalid("client-key-data holds a key of more than %d bits", maxKeyBits)
		}
	}
	return nil
}

// largestInteger returns the number of bits of the largest integer in DER. An octet string may hold another key, as
// that of PKCS #8 does.
func largestInteger(der []byte, depth int) (bits int) {
	for len(der) > 0 && depth < maxKeyDepth {
		var value asn1.RawValue
		rest, err := asn1.Unmarshal(der, &value)
		if err != nil {
			return bits
		}
		der = rest
		switch {
		case value.Class != asn1.ClassUniversal:
		case value.Tag == asn1.TagInteger:
			bits = max(bits, integerBits(value))
		case value.Tag == asn1.TagSequence, value.Tag == asn1.TagOctetString:
			bits = max(bits, largestInteger(value.Bytes, depth+1))
		}
	}
	return bits
}

// integerBits returns the number of bits of an integer from its length.
func integerBits(value asn1.RawValue) int {
	digits := value.Bytes
	for len(digits) > 0 && digits[0] == 0 {
		digits = digits[1:]
	}
	return 8 * len(digits)
}

// sequence returns the content of the sequence that der begins with.
func sequence(der []byte) (content []byte, ok bool) {
	var value asn1.RawValue
	if _, err := asn1.Unmarshal(der, &value); err != nil || value.Class != asn1.ClassUniversal ||
		value.Tag != asn1.TagSequence || !value.IsCompound {
		return nil, false
	}
	return value.Bytes, true
}
