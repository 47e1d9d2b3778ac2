package convert

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/apis/config/strictyaml"
	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// maxInput bounds a file. Gardener's largest one has a few KiB.
	maxInput = 1 << 20
	// maxFaults and maxFault bound what is reported about a file: how many faults, and how long each is.
	maxFaults, maxFault = 20, 400
)

// keys are what a resource manager reads and its documentation says beside the fields.
var keys = strictyaml.Keys{Synonyms: map[string]string{"controllers.managedResources": "managedResource"}}

// readFile reads a file, or stdin if it is named "-".
func readFile(name string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the user named it
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	data, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if len(data) > maxInput {
		return nil, cli.Refused("%s has more than %d MiB, and no configuration has", name, maxInput>>20)
	}
	return data, nil
}

// decode reads the configuration of a resource manager.
func decode(data []byte) (*configuration, strictyaml.Lines, error) {
	in := &configuration{}
	lines, faults, err := strictyaml.Decode(data, in, keys)
	if err != nil {
		return nil, nil, cli.Refused("the configuration cannot be read: %s", untrusted.Text(err.Error(), maxFault))
	}
	if about := whatItIs(in); about != nil {
		return nil, nil, about
	}
	return in, lines, refuse(faults)
}

// whatItIs is the error about a file that is something else than the configuration of a resource manager.
func whatItIs(in *configuration) error {
	switch {
	case in.APIVersion == configv1alpha1.APIVersion:
		return cli.Refused("this is the configuration of a hub already")
	case in.APIVersion == "v1" && in.Kind == "ConfigMap":
		return cli.Refused(`this is a ConfigMap; the configuration is in it: -o jsonpath='{.data.config\.yaml}'`)
	case in.APIVersion != grmAPIVersion || in.Kind != grmKind:
		return cli.Refused("this is no configuration of a resource manager: apiVersion is %q and kind is %q, not %q and %q",
			untrusted.Name(in.APIVersion), untrusted.Name(in.Kind), grmAPIVersion, grmKind)
	}
	return nil
}

// refuse makes one error of all faults, each once; nil if there are none.
func refuse(faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	var said []string
	for _, fault := range faults {
		text := untrusted.Text(fault.Error(), maxFault)
		if !slices.Contains(said, text) {
			said = append(said, text)
		}
	}
	if more := len(said) - maxFaults; more > 0 {
		said = append(said[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	return &cli.ExitError{Code: cli.ExitRefused, Err: errors.New("the configuration is faulty:\n  " +
		strings.Join(said, "\n  "))}
}
