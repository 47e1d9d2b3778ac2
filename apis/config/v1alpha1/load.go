package v1alpha1

import (
	"fmt"

	"github.com/trellis-hub/trellis/apis/config/strictyaml"
)

// Load reads a configuration file. The result has all defaults set and is valid.
//
// The error is an Aggregate (k8s.io/apimachinery/pkg/util/errors) of all faults, each with the path of its field:
// unknown keys, with the nearest known one; duplicate keys; values of the wrong type; and the faults that Validate
// finds. If the file is not YAML, the error is about that alone.
func Load(data []byte) (*HubConfiguration, error) {
	config := &HubConfiguration{}
	_, faults, err := strictyaml.Decode(data, config, strictyaml.Keys{Synonyms: synonyms, Foreign: foreign})
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	SetDefaults(config)
	faults = append(faults, Validate(config)...)
	if len(faults) > 0 {
		return nil, faults.ToAggregate()
	}
	return config, nil
}
