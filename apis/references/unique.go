package references

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// MakeUnique makes a ConfigMap or a Secret immutable, labels it as one that may be collected, and appends a checksum of
// its values to its name. Call it once all data are there, and before the name is used anywhere. Keys of the data are
// not part of the checksum, only their order is. Objects of other kinds are an error.
func MakeUnique(obj runtime.Object) error {
	switch o := obj.(type) {
	case *corev1.Secret:
		data := make(map[string][]byte, len(o.StringData)+len(o.Data))
		for key, value := range o.StringData {
			data[key] = []byte(value)
		}
		maps.Copy(data, o.Data)
		o.Immutable = ptr.To(true)
		name(&o.ObjectMeta, data)
	case *corev1.ConfigMap:
		data := make(map[string][]byte, len(o.Data)+len(o.BinaryData))
		for key, value := range o.Data {
			data[key] = []byte(value)
		}
		maps.Copy(data, o.BinaryData)
		o.Immutable = ptr.To(true)
		name(&o.ObjectMeta, data)
	default:
		return fmt.Errorf("making the name of %T unique: only ConfigMaps and Secrets can be made unique", obj)
	}
	return nil
}

func name(meta *metav1.ObjectMeta, data map[string][]byte) {
	metav1.SetMetaDataLabel(meta, Label, LabelValue)
	meta.Name = strings.TrimSuffix(meta.Name, delimiter) + delimiter + checksum(data)[:hashLength]
}

// checksum is that of the values in the order of their keys.
func checksum(data map[string][]byte) string {
	var hashes strings.Builder
	for _, key := range slices.Sorted(maps.Keys(data)) {
		digest := sha256.Sum256(data[key])
		hashes.WriteString(hex.EncodeToString(digest[:]))
	}
	digest := sha256.Sum256([]byte(hashes.String()))
	return hex.EncodeToString(digest[:])
}
