package bundle

import (
	"bytes"
	"context"
	"testing"

	"github.com/andybalholm/brotli"
	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/semaphore"
)

// Decode decodes in a session that is closed at once.
func (c *Cache) Decode(sources []Source) *Bundle {
	return c.session(func(s *Session) (*Bundle, error) {
		for _, source := range sources {
			if err := s.Add(source); err != nil {
				return nil, err
			}
		}
		b, _, err := s.Decode(context.Background(), false)
		return b, err
	})
}

// Open is Decode of what was kept.
func (c *Cache) Open(kept *Kept, sources []Source) *Bundle {
	return c.session(func(s *Session) (*Bundle, error) { return s.Open(context.Background(), kept, sources) })
}

func (c *Cache) session(with func(*Session) (*Bundle, error)) *Bundle {
	for need := (Need{}); ; {
		s, err := c.Begin(context.Background(), semaphore.Owner{Namespace: "garden", Name: "target"}, 16, need)
		if err == nil {
			var b *Bundle
			if b, err = with(s); err == nil {
				s.Close()
				return b
			}
		}
		busy, is := IsBusy(err)
		if !is {
			panic(err)
		}
		need = busy
	}
}

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
