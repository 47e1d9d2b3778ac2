package kubeconfig

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
)

// maxMetadata is how many bytes of labels, and of annotations, are kept of a Secret.
const maxMetadata = 8 << 10

// Trim reduces a Secret with the cluster-name label to what FromSecret needs, so that large Secrets do not fill the
// memory of the hub. Content that is too long for Parse is dropped, which FromSecret reports. It may be called twice.
func Trim(s *corev1.Secret) {
	s.ManagedFields, s.OwnerReferences, s.Finalizers, s.Type = nil, nil, nil, ""
	s.Annotations = trimMap(s.Annotations, "")
	if !IsRegistration(s) {
		s.Labels, s.Annotations = map[string]string{ClusterNameLabel: s.Labels[ClusterNameLabel]}, nil
		s.Data = nil
		return
	}
	s.Labels = trimMap(s.Labels, ClusterNameLabel)
	name, content, ok := contentOf(s)
	switch {
	case droppedContent(s): // by an earlier call
	case !ok:
		s.Data = nil
	case len(content) > MaxBytes:
		// API servers never send StringData, so this mark cannot be forged.
		s.Data, s.StringData = nil, map[string]string{name: ""}
	default:
		s.Data = map[string][]byte{name: content}
	}
}

// trimMap keeps the shortest entries, and the one with the given key.
func trimMap(all map[string]string, needed string) map[string]string {
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	if size <= maxMetadata {
		return all
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a)+len(all[a]), len(b)+len(all[b])), strings.Compare(a, b))
	})
	kept, left := map[string]string{}, maxMetadata
	for _, key := range keys {
		if left -= len(key) + len(all[key]); left >= 0 || key == needed {
			kept[key] = all[key]
		}
	}
	return kept
}

// contentOf returns the kubeconfig in a Secret: the first of the accepted keys that is not blank.
func contentOf(s *corev1.Secret) (name string, content []byte, ok bool) {
	for _, name := range []string{secret.KubeconfigDataName, alternativeDataName} {
		if content := s.Data[name]; len(content) > MaxBytes || len(strings.TrimSpace(string(content))) > 0 {
			return name, content, true
		}
	}
	return "", nil, false
}

// droppedContent reports whether Trim dropped the kubeconfig.
func droppedContent(s *corev1.Secret) bool { return len(s.Data) == 0 && len(s.StringData) > 0 }
