package ensure

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Setting sets a field of a configuration, such as that of the kubelet, given by its path. It fails if the path leads
// through something else than an object. Values are those of JSON: string, bool, int64, float64, []any, map[string]any.
func Setting(configuration map[string]any, value any, path ...string) error {
	if err := unstructured.SetNestedField(configuration, value, path...); err != nil {
		return fmt.Errorf("set %v: %w", path, err)
	}
	return nil
}

// NoSetting removes a field of a configuration.
func NoSetting(configuration map[string]any, path ...string) {
	unstructured.RemoveNestedField(configuration, path...)
}

// FeatureGate switches a feature of a component with a configuration of the kubelet's kind on or off.
func FeatureGate(configuration map[string]any, name string, enabled bool) error {
	return Setting(configuration, enabled, "featureGates", name)
}
