package providers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
	"github.com/trellis-hub/trellis/webhooks/controlplane/example"
)

// ReaderOf returns what reads from the cluster of a request.
type ReaderOf = func(context.Context, *admission.Request) (client.Reader, error)

// all are the providers by name, which is the one in their Definitions.
var all = map[string]func(ReaderOf) ([]*controlplane.Webhook, error){
	example.Name: example.Webhooks,
}

// Names are those of all providers.
func Names() []string { return slices.Sorted(maps.Keys(all)) }

// Unknown returns a fault for each wanted provider that the hub was not built with. path is that of the list.
func Unknown(wanted []string, path *field.Path) (faults field.ErrorList) {
	for i, name := range wanted {
		if _, is := all[name]; !is {
			faults = append(faults, field.NotSupported(path.Index(i), name, Names()))
		}
	}
	return faults
}

// Webhooks returns those of all providers, as a hub serves them.
func Webhooks(readerOf ReaderOf) (webhooks []admission.Webhook, err error) {
	for _, name := range Names() {
		own, err := all[name](readerOf)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", name, err)
		}
		for _, webhook := range own {
			webhooks = append(webhooks, webhook.Admission())
		}
	}
	return webhooks, nil
}
