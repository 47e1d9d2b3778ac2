package bundle

import (
	"bytes"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"
)

// secret returns a Secret "garden/addons" with the given keys and values.
func secret(keysAndValues ...string) Source {
	source := Source{Namespace: "garden", Name: "addons", Data: map[string][]byte{}}
	for i := 0; i < len(keysAndValues); i += 2 {
		source.Data[keysAndValues[i]] = []byte(keysAndValues[i+1])
	}
	return source
}

// decodeText decodes one Secret with one key "data.yaml" under the default limits.
func decodeText(text string) *Bundle {
	return Decode([]Source{secret("data.yaml", text)}, Limits{})
}

// compress returns the Brotli form of a text.
func compress(t testing.TB, text string) string {
	t.Helper()
	var buffer bytes.Buffer
	writer := brotli.NewWriter(&buffer)
	_, err := writer.Write([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(writer.Close()).To(Succeed())
	return buffer.String()
}

// configMap returns a manifest.
func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  greeting: hello\n"
}

// names returns the names of the objects of a bundle.
func names(b *Bundle) []string {
	var names []string
	for _, object := range b.Objects {
		names = append(names, object.GetName())
	}
	return names
}

// faults returns the faults of a bundle as text.
func faults(b *Bundle) []string {
	var faults []string
	for _, fault := range b.Faults {
		faults = append(faults, fault.String())
	}
	return faults
}
