package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func registrationOf(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a-kubeconfig", Labels: map[string]string{ClusterNameLabel: "a"},
		},
		Data: data,
	}
}

// A trimmed Secret is small, and FromSecret reads the same from it as from the whole.
func TestTrim(t *testing.T) {
	good, long := encode(t, nil), bytes.Repeat([]byte("x"), MaxBytes+1)
	mebibyte := bytes.Repeat([]byte("x"), 1<<20)
	for name, c := range map[string]struct {
		data map[string][]byte
		kept int // bytes
		says string
	}{
		"a kubeconfig":         {map[string][]byte{"value": good}, len(good), ""},
		"further keys":         {map[string][]byte{"value": good, "other": mebibyte}, len(good), ""},
		"both keys":            {map[string][]byte{"value": good, "kubeconfig": mebibyte}, len(good), ""},
		"the second key":       {map[string][]byte{"value": []byte(" \n"), "kubeconfig": good}, len(good), ""},
		"as long as it may be": {map[string][]byte{"value": long[1:]}, MaxBytes, "no kubeconfig"},
		"longer":               {map[string][]byte{"value": long}, 0, "more than 65536 bytes"},
		"longer under the other key": {
			map[string][]byte{"value": nil, "kubeconfig": mebibyte}, 0, "more than 65536 bytes",
		},
		"many spaces": {
			map[string][]byte{"value": bytes.Repeat([]byte(" "), 1<<20), "kubeconfig": good},
			0, "more than 65536 bytes",
		},
		"no kubeconfig": {map[string][]byte{"other": mebibyte}, 0, "neither the key"},
		"nothing":       {nil, 0, "neither the key"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			whole, trimmed := registrationOf(c.data), registrationOf(c.data)
			for range 2 { // informers may trim twice
				Trim(trimmed)
				kept := 0
				for _, content := range trimmed.Data {
					kept += len(content)
				}
				g.Expect(kept).To(Equal(c.kept))
				g.Expect(IsRegistration(trimmed)).To(BeTrue())
				for _, s := range []*corev1.Secret{whole, trimmed} {
					config, err := FromSecret(s, Policy{})
					if c.says == "" {
						g.Expect(err).NotTo(HaveOccurred())
						g.Expect(config.Token).To(Equal(secretToken))
						continue
					}
					var fault *FaultError
					g.Expect(errors.As(err, &fault)).To(BeTrue())
					g.Expect(fault.Message).To(ContainSubstring(c.says))
				}
			}
		})
	}
}

func TestTrimOfMetadata(t *testing.T) {
	g := NewWithT(t)
	s := registrationOf(map[string][]byte{"value": encode(t, nil)})
	s.Annotations = map[string]string{"confirm": "uid", "huge": strings.Repeat("x", 200_000)}
	for i := range 10_000 {
		s.Labels[fmt.Sprint("label-", i)] = "x"
	}
	s.Finalizers = []string{"x"}
	Trim(s)
	g.Expect(s.Annotations).To(Equal(map[string]string{"confirm": "uid"}))
	g.Expect(len(s.Labels)).To(BeNumerically("<", 1000))
	g.Expect(s.Labels).To(HaveKeyWithValue(ClusterNameLabel, "a"))
	g.Expect(s.Finalizers).To(BeEmpty())

	s.Name, s.Annotations = "a-ca", map[string]string{"a": "b"}
	Trim(s)
	g.Expect(s.Labels).To(Equal(map[string]string{ClusterNameLabel: "a"}), "of what is no registration")
	g.Expect(s.Annotations).To(BeEmpty())
	g.Expect(s.Data).To(BeEmpty())
}
