package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// sum returns the SHA-256 of the concatenated texts.
func sum(texts ...string) string {
	digest := sha256.Sum256([]byte(strings.Join(texts, "")))
	return hex.EncodeToString(digest[:])
}

func TestChecksumIsTheOneOfTheSpecification(t *testing.T) {
	a, b := configMap("a"), configMap("b")
	ignored := "metadata: {name: i, annotations: {resources.gardener.cloud/mode: Ignore}}\n"
	compressed := compress(t, a+"---\n"+b)

	for name, test := range map[string]struct {
		sources  []Source
		expected string
	}{
		"nothing":                     {nil, sum()},
		"one object":                  {[]Source{secret("k", a)}, sum(a)},
		"a key with two objects":      {[]Source{secret("k", a+"---\n"+b)}, sum(a+"---\n"+b, a+"---\n"+b)},
		"compressed as it is":         {[]Source{secret("k.br", compressed)}, sum(compressed, compressed)},
		"keys in order":               {[]Source{secret("2", b, "1", a)}, sum(a, b)},
		"Secrets in order":            {[]Source{secret("2", b), secret("1", a)}, sum(b, a)},
		"the same key in two Secrets": {[]Source{secret("1", b), secret("1", a)}, sum(b, a)},
		"mode Ignore is not counted":  {[]Source{secret("1", ignored, "2", ignored+"---\n"+a)}, sum(ignored + "---\n" + a)},
		"undecodable keys are not":    {[]Source{secret("1", "- x", "2.br", "garbage", "3", "", "4", a)}, sum(a)},
		"bad documents are not":       {[]Source{secret("1", "- x\n---\n"+a)}, sum("- x\n---\n" + a)},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Decode(test.sources, Limits{}).Checksum).To(Equal(test.expected))
		})
	}
}

func TestHashIsOfTheContentOnly(t *testing.T) {
	g := NewWithT(t)
	one, two := secret("a", "x", "b", "y"), secret("b", "y", "a", "x")
	two.Namespace, two.Name, two.UID, two.ResourceVersion = "other", "name", "uid", "7"
	g.Expect(hashOf([]Source{one})).To(Equal(hashOf([]Source{two})))
	g.Expect(Decode([]Source{one}, Limits{}).Hash).To(Equal(hashOf([]Source{one})))
	g.Expect(hashOf(nil).String()).To(HaveLen(64))

	for name, other := range map[string][]Source{
		"nothing":                {},
		"an empty Secret":        {secret()},
		"another value":          {secret("a", "x", "b", "z")},
		"another key":            {secret("a", "x", "c", "y")},
		"bytes moved":            {secret("a", "xb", "", "y")},
		"two Secrets":            {secret("a", "x"), secret("b", "y")},
		"two Secrets, reordered": {secret("b", "y"), secret("a", "x")},
	} {
		g.Expect(hashOf(other)).NotTo(Equal(hashOf([]Source{one})), name)
	}
}
