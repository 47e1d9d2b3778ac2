package kubeconfig

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
)

// Bounds of keys and certificates. What is larger would take seconds to validate, or to verify a server with.
const (
	// maxKeyBits is the largest modulus of an RSA key in a certificate.
	maxKeyBits = 16384
	// maxClientKeyBits is the same of a client's private key. Signing takes a tenth of a second with it at each handshake,
	// and ten times that with twice as many bits. API servers verify no longer ones.
	maxClientKeyBits = 8192
	// maxPublicKeyBytes is the length of a public key in DER that is none of RSA. Those of all elliptic curves are much
	// shorter.
	maxPublicKeyBytes = 2048
	// maxPrivateKeyBytes is the length of a private key in DER. One of RSA with two primes and 8,192 bits has 4.7 KiB.
	maxPrivateKeyBytes = 12 << 10
	// maxAuthorities and maxChain are how many certificates certificate-authority-data and client-certificate-data may
	// hold.
	maxAuthorities = 128
	maxChain       = 16
	// maxKeyDepth is how deeply the parts of a private key are nested that are looked at: PKCS #8 around PKCS #1 with
	// further primes.
	maxKeyDepth = 5
	// maxPrimeSurplus is by how many bits a prime of an RSA key may be longer than half of the modulus. Those that usual
	// programs make are no longer than half of it.
	maxPrimeSurplus = 8
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
		if len(block.Bytes) > maxPrivateKeyBytes || largestInteger(block.Bytes, 0) > maxClientKeyBits {
			return invalid("client-key-data holds a key of more than %d bits", maxClientKeyBits)
		}
		if err := judgeRSAKey(block.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// pkcs8 is the form of a private key that names its algorithm.
type pkcs8 struct {
	Version   int
	Algorithm pkix.AlgorithmIdentifier
	Key       []byte
}

// pkcs1 is a private key of RSA. It is declared like its equivalent in crypto/x509, so that no key is read here in
// another way than there.
type pkcs1 struct {
	Version      int
	N            *big.Int
	E            int
	D, P, Q      *big.Int
	DP, DQ, QInv *big.Int       `asn1:"optional"`
	Further      []furtherPrime `asn1:"optional,omitempty"`
}

type furtherPrime struct{ Prime, Exponent, Coefficient *big.Int }

// judgeRSAKey refuses an RSA key for which crypto/rsa would compute a power of large numbers before it finds out
// whether they belong together. It does so if a CRT value is missing, and takes nine seconds if the primes are as long
// as the longest modulus. With all CRT values it only multiplies and divides, which takes less than a tenth of a
// second. All usual programs, among them OpenSSL and Go, write CRT values. Only lengths of numbers are looked at.
func judgeRSAKey(der []byte) error {
	var wrapped pkcs8
	if _, err := asn1.Unmarshal(der, &wrapped); err == nil {
		der = wrapped.Key
	}
	var key pkcs1
	if _, err := asn1.Unmarshal(der, &key); err != nil {
		return nil //nolint:nilerr // crypto/x509 cannot read it as a key of RSA either, and computes nothing
	}
	if len(key.Further) > 0 {
		return invalid("client-key-data holds an RSA key with more than two primes")
	}
	for _, value := range []*big.Int{key.DP, key.DQ, key.QInv} {
		if value == nil || value.Sign() <= 0 {
			return invalid("client-key-data holds an RSA key without CRT values (exponent1, exponent2 and coefficient): " +
				"create a key that has them, as openssl does")
		}
	}
	// Long primes would also make each handshake expensive.
	prime := key.N.BitLen()/2 + maxPrimeSurplus
	if p, q := key.P.BitLen(), key.Q.BitLen(); p > prime || q > prime ||
		key.DP.BitLen() > p || key.DQ.BitLen() > q || key.QInv.BitLen() > p {
		return invalid("client-key-data holds an RSA key whose primes or CRT values are too long for its modulus")
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
