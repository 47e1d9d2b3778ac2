package kubeconfig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd/api"
)

// minimal is the text of a kubeconfig in YAML.
const minimal = `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://target:6443"}
users:
- name: u
  user: {token: ` + secretToken + `}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
`

// expectFault expects a fault that says what is wrong and quotes nothing of the content.
func expectFault(g Gomega, err error, says string) {
	var fault *FaultError
	g.ExpectWithOffset(1, errors.As(err, &fault)).To(BeTrue(), "%v", err)
	g.ExpectWithOffset(1, fault.Reason).To(Equal(ReasonInvalid))
	g.ExpectWithOffset(1, fault.Message).To(ContainSubstring(says))
	g.ExpectWithOffset(1, fault.Message).NotTo(ContainSubstring(secretToken))
	g.ExpectWithOffset(1, len(fault.Message)).To(BeNumerically("<", 200))
}

func TestWhatWouldBeExpanded(t *testing.T) {
	const aliases, merges, tags = "anchors or aliases", "merge keys", "tags"
	for name, c := range map[string]struct{ content, says string }{
		"an alias of a value":          {minimal + "a: &a x\nb: *a\n", aliases},
		"an alias of a list":           {minimal + "a: &a [x]\nb: [*a, *a]\n", aliases},
		"an alias of a mapping":        {minimal + "a: &a {x: y}\nb: *a\n", aliases},
		"an alias as a key":            {minimal + "a: &a x\n*a : y\n", aliases},
		"an anchor of a key":           {minimal + "&a a: x\n", aliases},
		"an anchor that is not used":   {minimal + "a: &a x\n", aliases},
		"an anchor of the document":    {"&a\n" + minimal, aliases},
		"an anchor of nothing":         {minimal + "a: &a\n", aliases},
		"an alias of what holds it":    {minimal + "a: &a [*a]\n", aliases},
		"an alias in an unused user":   {minimal + "extensions: [{name: &a e, extension: *a}]\n", aliases},
		"an alias in a second one":     {minimal + "---\n&a a: *a\n", "more than one"},
		"an empty anchored second one": {minimal + "---\n&a\n", "more than one"},
		"an alias in JSON":             {`{"kind": "Config", "a": &a "x", "b": *a}`, aliases},
		"an alias without an anchor":   {minimal + "b: *a\n", "no kubeconfig"},
		"a merge key":                  {minimal + "b: {<<: {x: y}}\n", merges},
		"a merge key with an alias":    {minimal + "a: &a {x: y}\nb:\n  <<: *a\n", aliases},
		"a tag":                        {minimal + "a: !!str x\n", tags},
		"a tag of a mapping":           {minimal + "a: !!map {x: y}\n", tags},
		"a tag of a key":               {minimal + "!!str a: x\n", tags},
		"a tag of another vendor":      {minimal + "a: !<tag:example.com,2000:x> x\n", tags},
		"a tag by a directive":         {"%TAG !e! tag:example.com,2000:\n---\n" + minimal + "a: !e!x x\n", tags},
		"binary content":               {minimal + "a: !!binary aGk=\n", tags},
		"two documents":                {minimal + "---\n" + minimal, "more than one"},
		"a key that is no text":        {minimal + "? [a]\n: x\n", "no kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.content), Policy{})
			expectFault(NewWithT(t), err, c.says)
		})
	}
}

func TestWhatOnlyLooksLikeIt(t *testing.T) {
	plain, err := json.Marshal(map[string]any{
		"kind": "Config", "apiVersion": "v1", "current-context": "x",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": "https://target:6443"}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": secretToken}}},
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "c", "user": "u"}}},
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string]string{
		"YAML":                               minimal,
		"JSON":                               string(plain),
		"JSON after a byte order mark":       "\ufeff" + string(plain),
		"YAML after a byte order mark":       "\ufeff" + minimal,
		"a separator before it":              "---\n" + minimal,
		"a separator after it":               minimal + "---\n",
		"the end of the document":            minimal + "...\n",
		"comments":                           "# &a *a !!str\n" + minimal + "# <<: *a\n",
		"marks in quotes":                    minimal + `a: "&a *a !!str <<"` + "\nb: '*a'\n\"<<\": x\n",
		"marks inside a text":                minimal + "a: x&a *b\nb: a!!str\n",
		"marks in a block":                   minimal + "a: |\n  &a *a\n  !!str\nb: >\n  *a\n",
		"equal keys, of which the last wins": "current-context: y\n" + minimal,
		"equal keys in JSON":                 `{"current-context": "y", ` + string(plain[1:]),
		"numbers and dates": minimal +
			"a: 1\nb: 1.5\nc: .inf\nd: 2001-01-01\ne: 0x10\nf: ~\n1: x\ntrue: y\n",
		"unused entries": minimal +
			"preferences: {}\nextensions: [{name: e, extension: {a: [1, {b: c}]}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := Parse([]byte(content), Policy{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(config.Token).To(Equal(secretToken))
			g.Expect(config.Server).To(Equal("https://target:6443"))
		})
	}
}

func TestSizeOfTheText(t *testing.T) {
	padded := func(n int) []byte { return []byte(minimal + "#" + strings.Repeat("x", n-len(minimal)-1)) }
	nested := func(depth int) string { return "a: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n" }
	elements := func(n int) string { return "a: [" + strings.Repeat("x,", n) + "]\n" }
	for name, c := range map[string]struct {
		content []byte
		says    string // empty: it is accepted
	}{
		"64 KiB":               {padded(MaxBytes), ""},
		"one byte less":        {padded(MaxBytes - 1), ""},
		"one byte more":        {padded(MaxBytes + 1), "more than 65536 bytes"},
		"1 MiB":                {padded(1 << 20), "more than 65536 bytes"},
		"as deep":              {[]byte(minimal + nested(maxDepth-1)), ""},
		"deeper":               {[]byte(minimal + nested(maxDepth+1)), "nested"},
		"as deep as it can be": {[]byte(minimal + nested(20_000)), ""},
		"lists in lists":       {[]byte(minimal + "a:\n  " + strings.Repeat("- ", 3_000) + "x\n"), "nested"},
		"mappings in mappings": {
			[]byte(minimal + "a: " + strings.Repeat("{b: ", 3_000) + strings.Repeat("}", 3_000) + "\n"), "nested",
		},
		"brackets that never close": {[]byte(minimal + "a: " + strings.Repeat("[", 40_000)), ""},
		"many elements":             {[]byte(minimal + elements(maxElements-100)), ""},
		"more elements":             {[]byte(minimal + elements(maxElements)), "elements"},
		"as many as there can be":   {[]byte(minimal + elements(32_000)), "elements"},
		"keys without values":       {[]byte(minimal + "a: {" + strings.Repeat("x,", 32_000) + "}\n"), "elements"},
		"documents":                 {[]byte(strings.Repeat("---\n", 4_000)), "no kubeconfig"},
		"many lines":                {[]byte(minimal + strings.Repeat("\n", maxElements-100)), ""},
		"more lines":                {[]byte(minimal + strings.Repeat("\n", maxElements)), "lines"},
		"nothing":                   {nil, "no kubeconfig"},
		"spaces":                    {bytes.Repeat([]byte(" "), MaxBytes), "no kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Parse(c.content, Policy{})
			if strings.HasPrefix(name, "as deep as") || strings.HasPrefix(name, "brackets") {
				expectFault(g, err, "kubeconfig") // which bound is exceeded depends on the parser
				return
			}
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			expectFault(g, err, c.says)
		})
	}
}

func TestLengthsOfFields(t *testing.T) {
	type mutation = func(*api.Config, *api.Cluster, *api.AuthInfo)
	for name, c := range map[string]struct {
		most   int
		mutate func(n int) mutation
	}{
		"token": {maxToken, func(n int) mutation {
			return func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) { u.Token = strings.Repeat("x", n) }
		}},
		"server": {maxServer, func(n int) mutation {
			return func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) {
				c.Server = "https://target/" + strings.Repeat("x", n-15)
			}
		}},
		"server name": {maxName, func(n int) mutation {
			return func(_ *api.Config, c *api.Cluster, _ *api.AuthInfo) { c.TLSServerName = strings.Repeat("x", n) }
		}},
		"username": {maxBasic, func(n int) mutation {
			return func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
				u.Token, u.Username, u.Password = "", strings.Repeat("x", n), "p"
			}
		}},
		"password": {maxBasic, func(n int) mutation {
			return func(_ *api.Config, _ *api.Cluster, u *api.AuthInfo) {
				u.Token, u.Username, u.Password = "", "u", strings.Repeat("x", n)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Parse(encode(t, c.mutate(c.most)), Policy{})
			g.Expect(err).NotTo(HaveOccurred())
			_, err = Parse(encode(t, c.mutate(c.most+1)), Policy{})
			expectFault(g, err, fmt.Sprintf("more than %d bytes", c.most))
		})
	}
}

// certify returns a certificate with an unusable public key, in DER.
func certify(t testing.TB, public any) []byte {
	t.Helper()
	g := NewWithT(t)
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, signer)
	g.Expect(err).NotTo(HaveOccurred())
	return der
}

// withKey replaces the public key of a certificate by one with any algorithm. The signature is not verified.
func withKey(t testing.TB, algorithm pkix.AlgorithmIdentifier, key []byte) []byte {
	t.Helper()
	g := NewWithT(t)
	der := certify(t, &rsa.PublicKey{N: odd(1024), E: 65537})
	var certificate struct {
		TBS, Algorithm asn1.RawValue
		Signature      asn1.BitString
	}
	_, err := asn1.Unmarshal(der, &certificate)
	g.Expect(err).NotTo(HaveOccurred())
	var parts []asn1.RawValue
	_, err = asn1.Unmarshal(certificate.TBS.FullBytes, &parts)
	g.Expect(err).NotTo(HaveOccurred())
	public, err := asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}{algorithm, asn1.BitString{Bytes: key, BitLength: 8 * len(key)}})
	g.Expect(err).NotTo(HaveOccurred())
	parts[6] = asn1.RawValue{FullBytes: public}
	changed, err := asn1.Marshal(parts)
	g.Expect(err).NotTo(HaveOccurred())
	certificate.TBS = asn1.RawValue{FullBytes: changed}
	der, err = asn1.Marshal(certificate)
	g.Expect(err).NotTo(HaveOccurred())
	return der
}

// odd returns an odd number with so many bits.
func odd(bits int) *big.Int {
	n := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	return n.SetBit(n, 0, 1)
}

func inPEM(kind string, ders ...[]byte) []byte {
	var text []byte
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	return text
}

// sequenceOf returns numbers as a sequence in DER.
func sequenceOf(t testing.TB, numbers ...*big.Int) []byte {
	t.Helper()
	var content []byte
	for _, n := range numbers {
		part, err := asn1.Marshal(n)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		content = append(content, part...)
	}
	der, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: content})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return der
}

// rsaKey returns a private key whose numbers are not related to each other.
func rsaKey(t testing.TB, modulus, exponent, prime int) []byte {
	t.Helper()
	p := odd(prime)
	return sequenceOf(t, big.NewInt(0), odd(modulus), big.NewInt(65537), odd(exponent), p, p, p, p, p)
}

// forgedKey returns the numbers of an RSA key that crypto/rsa takes for a good one, and its certificate. Its factors
// are no primes, which nothing checks: it is as costly to read as a real one of that length, but quickly made.
func forgedKey(t testing.TB, bits int) (numbers []*big.Int, certificate []byte) {
	t.Helper()
	one, e := big.NewInt(1), big.NewInt(65537)
	p := new(big.Int).Sub(new(big.Int).Lsh(one, uint(bits/2)), one)
	q := new(big.Int).SetBit(odd(bits/2), bits/2-2, 1)
	p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
	n := new(big.Int).Mul(p, q)
	d := new(big.Int).ModInverse(e, new(big.Int).Mul(p1, q1))
	NewWithT(t).Expect(n.BitLen()).To(Equal(bits))
	numbers = []*big.Int{
		{}, n, e, d, p, q, new(big.Int).Mod(d, p1), new(big.Int).Mod(d, q1), new(big.Int).ModInverse(q, p),
	}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}
	return numbers, inPEM("CERTIFICATE", withKey(t, algorithm, sequenceOf(t, n, e)))
}

// inPKCS8 puts a private key into the form that names its algorithm.
func inPKCS8(t testing.TB, key []byte) []byte {
	t.Helper()
	der, err := asn1.Marshal(pkcs8{0, pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}, key})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return der
}

func rsaCertificate(t testing.TB, bits int) []byte {
	t.Helper()
	algorithm := pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}
	return withKey(t, algorithm, sequenceOf(t, odd(bits), big.NewInt(65537)))
}

func TestCertificatesOfTheServer(t *testing.T) {
	oidDSA, oidEC := asn1.ObjectIdentifier{1, 2, 840, 10040, 4, 1}, asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
	curve, err := asn1.Marshal(asn1.ObjectIdentifier{1, 2, 3, 4})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	unknown := pkix.AlgorithmIdentifier{Algorithm: oidEC, Parameters: asn1.RawValue{FullBytes: curve}}
	authority := certify(t, &rsa.PublicKey{N: odd(2048), E: 65537})
	for name, c := range map[string]struct {
		text []byte
		says string
	}{
		"16,384 bits":      {inPEM("CERTIFICATE", rsaCertificate(t, maxKeyBits)), ""},
		"8 bits more":      {inPEM("CERTIFICATE", rsaCertificate(t, maxKeyBits+8)), "bits"},
		"300,000 bits":     {inPEM("CERTIFICATE", rsaCertificate(t, 300_000)), "bits"},
		"after a good one": {inPEM("CERTIFICATE", authority, rsaCertificate(t, 200_000)), "bits"},
		"DSA": {
			inPEM("CERTIFICATE", authority, withKey(t, pkix.AlgorithmIdentifier{Algorithm: oidDSA}, make([]byte, 384))),
			"",
		},
		"DSA of 300,000 bits": {
			inPEM("CERTIFICATE", withKey(t, pkix.AlgorithmIdentifier{Algorithm: oidDSA}, make([]byte, 40_000))), "bits",
		},
		"an unknown curve": {
			inPEM("CERTIFICATE", withKey(t, unknown, make([]byte, 65))), "no PEM certificate",
		},
		"a point of 30,000 bytes": {
			inPEM("CERTIFICATE", withKey(t, unknown, make([]byte, 30_000))), "bits",
		},
		"no certificate inside": {inPEM("CERTIFICATE", []byte("x")), "malformed"},
		"a list without end":    {inPEM("CERTIFICATE", bytes.Repeat([]byte{0x30, 0x80}, 5_000)), "malformed"},
		"many": {
			inPEM("CERTIFICATE", slices.Repeat([][]byte{smallCertificate(t)}, maxAuthorities)...), "",
		},
		"too many": {
			inPEM("CERTIFICATE", slices.Repeat([][]byte{smallCertificate(t)}, maxAuthorities+1)...),
			"more than 128 certificates",
		},
		"other blocks": {append(inPEM("X509 CRL", []byte("x")), inPEM("CERTIFICATE", authority)...), ""},
		"blocks without content": {
			bytes.Repeat([]byte("-----BEGIN A-----\n-----END A-----\n"), 1_000), "no PEM certificate",
		},
		"blocks without an end": {bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\n"), 1_500), "no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config := &Config{Server: "https://target", Token: "x", CA: c.text}
			err := config.validate(Policy{})
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			expectFault(g, err, c.says)
		})
	}
}

// smallCertificate returns one of about 250 bytes.
func smallCertificate(t testing.TB) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return certify(t, &key.PublicKey)
}

func TestKeysOfTheClient(t *testing.T) {
	certificate, key := keyPair(t, time.Now().Add(time.Hour))
	primes := append(sequenceOf(t, big.NewInt(0)), sequenceOf(t, odd(40_000), odd(8), odd(8))...)
	for name, c := range map[string]struct {
		certificate, key []byte
		says             string
	}{
		"an elliptic curve":         {certificate, key, ""},
		"a long modulus":            {certificate, inPEM("RSA PRIVATE KEY", rsaKey(t, maxClientKeyBits+8, 8, 8)), "bits"},
		"a modulus of 300,000 bits": {certificate, inPEM("RSA PRIVATE KEY", rsaKey(t, 300_000, 8, 8)), "bits"},
		"a long exponent":           {certificate, inPEM("RSA PRIVATE KEY", rsaKey(t, 2048, 40_000, 8)), "bits"},
		"long primes": {
			certificate, inPEM("RSA PRIVATE KEY", rsaKey(t, 2048, 2048, maxClientKeyBits+8)), "bits",
		},
		"long further primes": {
			certificate, inPEM("RSA PRIVATE KEY", bytes.Join([][]byte{primes}, nil)), "bits",
		},
		"PKCS #8": {
			certificate, inPEM("PRIVATE KEY", inPKCS8(t, rsaKey(t, 300_000, 8, 8))), "bits",
		},
		"the name of another kind": {certificate, inPEM("EC PRIVATE KEY", rsaKey(t, 50_000, 8, 8)), "bits"},
		"a good one before it": {
			certificate, append(slices.Clone(key), inPEM("RSA PRIVATE KEY", rsaKey(t, 50_000, 8, 8))...), "bits",
		},
		"very many primes": {
			certificate, inPEM("RSA PRIVATE KEY", bytes.Repeat(rsaKey(t, 64, 64, 64), 200)), "bits",
		},
		"numbers that do not fit": {
			certificate, inPEM("RSA PRIVATE KEY", rsaKey(t, maxClientKeyBits, maxClientKeyBits, maxClientKeyBits/2)), "key pair",
		},
		"a long key in the certificate": {
			inPEM("CERTIFICATE", rsaCertificate(t, 300_000)), key, "client-certificate-data",
		},
		"a long chain":   {bytes.Repeat(certificate, maxChain), key, ""},
		"a longer chain": {bytes.Repeat(certificate, maxChain+1), key, "more than 16 certificates"},
		"no certificate": {nil, key, "key pair"},
		"DER without an end": {
			certificate, inPEM("PRIVATE KEY", bytes.Repeat([]byte{0x30, 0x84, 0x7f, 0xff, 0xff, 0xff}, 1_000)),
			"key pair",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config := &Config{Server: "https://target", ClientCertificate: c.certificate, ClientKey: c.key}
			err := config.validate(Policy{})
			if c.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			expectFault(g, err, c.says)
		})
	}
}

// A key that lacks something or has lengths that do not fit is refused before crypto/rsa computes with it, which would
// take seconds at the largest modulus.
func TestCostlyKeysOfTheClient(t *testing.T) {
	const crt, long, pair = "CRT values (", "too long for its modulus", "key pair"
	forged, certificate := forgedKey(t, maxClientKeyBits)
	changed := func(at int, n *big.Int) []*big.Int {
		numbers := slices.Clone(forged)
		numbers[at] = n
		return numbers
	}
	// longer has an element of another kind after the numbers, or between them.
	longer := func(before []*big.Int, element []byte, after ...*big.Int) []byte {
		numbers := func(ns []*big.Int) []byte { content, _ := sequence(sequenceOf(t, ns...)); return content }
		der, err := asn1.Marshal(asn1.RawValue{
			Tag: asn1.TagSequence, IsCompound: true,
			Bytes: slices.Concat(numbers(before), element, numbers(after)),
		})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return der
	}
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	of := certify(t, &small.PublicKey)
	further, err := asn1.Marshal([]furtherPrime{{odd(8), odd(8), odd(8)}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	half := maxClientKeyBits / 2
	for name, c := range map[string]struct {
		key         []byte
		certificate []byte // nil: that of the forged key
		says        string
	}{
		"the largest":              {sequenceOf(t, forged...), nil, ""},
		"one of Go":                {x509.MarshalPKCS1PrivateKey(small), of, ""},
		"primes as long as can be": {rsaKey(t, maxClientKeyBits, maxClientKeyBits, half+maxPrimeSurplus), nil, pair},
		"no CRT values":            {sequenceOf(t, forged[:6]...), nil, crt},
		"one CRT value":            {sequenceOf(t, forged[:7]...), nil, crt},
		"two CRT values":           {sequenceOf(t, forged[:8]...), nil, crt},
		"a first exponent of 0":    {sequenceOf(t, changed(6, new(big.Int))...), nil, crt},
		"a second exponent of 0":   {sequenceOf(t, changed(7, new(big.Int))...), nil, crt},
		"a coefficient of 0":       {sequenceOf(t, changed(8, new(big.Int))...), nil, crt},
		"a negative coefficient":   {sequenceOf(t, changed(8, big.NewInt(-1))...), nil, crt},
		"CRT values that are skipped": {
			longer(forged[:6], []byte{asn1.TagNull, 0}, forged[6:]...), nil, crt,
		},
		"what follows is ignored": {longer(forged, []byte{asn1.TagNull, 0}), nil, ""},
		"a long first prime":      {sequenceOf(t, changed(4, odd(half+maxPrimeSurplus+1))...), nil, long},
		"a long second prime":     {sequenceOf(t, changed(5, odd(half+maxPrimeSurplus+1))...), nil, long},
		"the longest primes": {
			sequenceOf(t, slices.Replace(slices.Clone(forged), 4, 6,
				odd(maxClientKeyBits), odd(maxClientKeyBits))...), nil, long,
		},
		"the longest primes without CRT values": {
			sequenceOf(t, slices.Concat(forged[:4], []*big.Int{odd(maxClientKeyBits), odd(maxClientKeyBits)})...), nil, crt,
		},
		"a short modulus":        {sequenceOf(t, changed(1, odd(1024))...), nil, long},
		"a long first exponent":  {sequenceOf(t, changed(6, odd(half+1))...), nil, long},
		"a long second exponent": {sequenceOf(t, changed(7, odd(half+1))...), nil, long},
		"a long coefficient":     {sequenceOf(t, changed(8, odd(half+1))...), nil, long},
		"three primes":           {longer(forged, further), nil, "more than two primes"},
		"three primes and no CRT values": {
			longer(forged[:6], further), nil, "more than two primes",
		},
	} {
		for form, key := range map[string][]byte{
			"PKCS #1": inPEM("RSA PRIVATE KEY", c.key), "PKCS #8": inPEM("PRIVATE KEY", inPKCS8(t, c.key)),
			"the name of another kind": inPEM("EC PRIVATE KEY", inPKCS8(t, c.key)),
			"a second one": slices.Concat(
				inPEM("RSA PRIVATE KEY", sequenceOf(t, forged...)), inPEM("RSA PRIVATE KEY", c.key),
			),
		} {
			t.Run(name+" in "+form, func(t *testing.T) {
				g := NewWithT(t)
				config := &Config{Server: "https://target", ClientCertificate: certificate, ClientKey: key}
				if c.certificate != nil {
					config.ClientCertificate = inPEM("CERTIFICATE", c.certificate)
				}
				if form == "a second one" && (c.says == pair || c.certificate != nil) {
					return // the first key is used
				}
				err := config.validate(Policy{})
				if c.says == "" {
					g.Expect(err).NotTo(HaveOccurred())
					return
				}
				expectFault(g, err, c.says)
			})
		}
	}
}

// What a kubeconfig costs is bounded by its length, whatever it holds: what is allocated, and, as far as allocations
// show it, what is computed. Without the bounds, some of these would take gigabytes or half a minute.
func TestCostOfTheWorst(t *testing.T) {
	certificate, _ := keyPair(t, time.Now().Add(time.Hour))
	largest, certificateOfLargest := forgedKey(t, maxClientKeyBits)
	keyed := func(certificate, key []byte) string {
		encoded := base64.StdEncoding.EncodeToString
		user := "client-certificate-data: " + encoded(certificate) +
			", client-key-data: " + encoded(inPEM("RSA PRIVATE KEY", key))
		return strings.Replace(minimal, "token: "+secretToken, user, 1)
	}
	for name, content := range map[string]string{
		"an alias bomb": minimal + "a: &a " + strings.Repeat("x", 20_000) + "\nb: [" +
			strings.Repeat("*a,", 14_000) + "]\n",
		"a tree of aliases":  minimal + "a: &a [x,x,x,x,x,x,x,x,x]\n" + tree(9),
		"elements":           minimal + "a: [" + strings.Repeat("x,", 32_000) + "]\n",
		"empty mappings":     minimal + "a: [" + strings.Repeat("{},", 21_000) + "]\n",
		"keys":               minimal + "a: {" + strings.Repeat("x,", 32_000) + "}\n",
		"nesting":            minimal + "a: " + strings.Repeat("[", 60_000),
		"block nesting":      minimal + "a:\n  " + strings.Repeat("- ", 30_000) + "x\n",
		"question marks":     minimal + strings.Repeat("? ", 30_000),
		"comments":           minimal + strings.Repeat("#\n", 30_000),
		"comments in a list": minimal + "a:\n" + strings.Repeat("- #\n", 16_000),
		"documents":          minimal + strings.Repeat("---\n", 16_000),
		"anchors":            minimal + "a: [" + strings.Repeat("&a x,", 12_000) + "]\n",
		"tags":               minimal + "a: [" + strings.Repeat("!x,", 20_000) + "]\n",
		"quotes":             minimal + "a: " + strings.Repeat(`"" `, 20_000) + "\n",
		"escapes":            minimal + `a: "` + strings.Repeat(`\x00`, 16_000) + "\"\n",
		"a long key":         keyed(certificate, rsaKey(t, 250_000, 8, 8)),
		"an allowed key":     keyed(certificate, rsaKey(t, maxClientKeyBits, maxClientKeyBits, maxClientKeyBits/2)),
		"the largest key":    keyed(certificateOfLargest, sequenceOf(t, largest...)),
		"without CRT values": keyed(certificateOfLargest, sequenceOf(t, largest[:6]...)),
		"long primes": keyed(certificate, sequenceOf(t, append(slices.Clone(largest[:4]),
			odd(maxClientKeyBits), odd(maxClientKeyBits))...)),
		"a wrong CRT value": keyed(certificateOfLargest, sequenceOf(t, append(slices.Clone(largest[:8]),
			odd(maxClientKeyBits/2-1))...)),
		"1 MiB": minimal + "a: [" + strings.Repeat("x,", 1<<19) + "]\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			_, _ = Parse([]byte(content), Policy{})
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes: %d KiB in %s", len(content), (after.TotalAlloc-before.TotalAlloc)>>10, took)
			g.Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 48<<20))
		})
	}
}

// tree refers to lists that refer to lists.
func tree(levels int) string {
	var text strings.Builder
	for i := range levels {
		fmt.Fprintf(&text, "%c: &%c [%s]\n", 'b'+i, 'b'+i, strings.Repeat(fmt.Sprintf("*%c,", 'a'+i), 9))
	}
	return text.String()
}
