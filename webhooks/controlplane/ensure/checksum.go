package ensure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Prefixes of annotations of pods with the checksum of what they mount. They change with it, so that pods restart.
const (
	SecretChecksum    = "checksum/secret-"
	ConfigMapChecksum = "checksum/configmap-"
)

// Secret annotates the template of pods with the checksum of a Secret's data. The error is that of reading it, also if
// it does not exist: pods would wait for it.
func Secret(ctx context.Context, reader client.Reader, template *corev1.PodTemplateSpec, key client.ObjectKey) error {
	secret := &corev1.Secret{}
	if err := reader.Get(ctx, key, secret); err != nil {
		return fmt.Errorf("read secret %s: %w", key, err)
	}
	return annotate(template, SecretChecksum+key.Name, secret.Data)
}

// ConfigMap is Secret for a ConfigMap.
func ConfigMap(
	ctx context.Context, reader client.Reader, template *corev1.PodTemplateSpec, key client.ObjectKey,
) error {
	config := &corev1.ConfigMap{}
	if err := reader.Get(ctx, key, config); err != nil {
		return fmt.Errorf("read config map %s: %w", key, err)
	}
	return annotate(template, ConfigMapChecksum+key.Name, []any{config.Data, config.BinaryData})
}

// annotate adds the checksum of what JSON says the same way each time.
func annotate(template *corev1.PodTemplateSpec, key string, content any) error {
	document, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("the checksum for %s: %w", key, err)
	}
	sum := sha256.Sum256(document)
	template.Annotations = Entry(template.Annotations, key, hex.EncodeToString(sum[:]))
	return nil
}
