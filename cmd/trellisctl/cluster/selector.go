package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
)

// label gives a registration the labels of the user, and those that the hub's selector asks for. It returns an error if
// the hub would not use the registration.
func (a *add) label(ctx context.Context, source *cli.Source, registration *corev1.Secret) error {
	maps.Copy(registration.Labels, a.labels)
	heartbeat, err := a.hub.Read(ctx, source, a.env.Clock.Now())
	if err != nil {
		return fmt.Errorf("reading the heartbeat of the hub: %w", err)
	}
	if !heartbeat.Known {
		a.env.Note("Whether the hub selects registrations by labels is not known: %s. If it does, give them with --labels.",
			heartbeat.Problem)
		return nil
	}
	added := missingLabels(heartbeat.Registrations(), registration.Labels)
	maps.Copy(registration.Labels, added)
	if !heartbeat.Registers(registration.Labels) {
		return cli.Refused("the hub would not use the registration: its clusterCache.registrationSelector is %q, and the "+
			"labels would be %q; set others with --labels", heartbeat.RegistrationSelector, labels.Set(registration.Labels))
	}
	if len(added) > 0 {
		a.env.Note("The registration gets the label %s, which the hub's selector asks for.", labels.Set(added))
	}
	return nil
}

// missingLabels are the labels that a selector asks for and leaves no choice of their values, as far as they are not
// set.
func missingLabels(selector labels.Selector, set map[string]string) map[string]string {
	missing := map[string]string{}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		values := r.Values().List()
		_, has := set[r.Key()]
		asks := slices.Contains([]selection.Operator{selection.Equals, selection.DoubleEquals, selection.In}, r.Operator())
		switch {
		case has:
		case asks && len(values) == 1:
			missing[r.Key()] = values[0]
		case r.Operator() == selection.Exists:
			missing[r.Key()] = "true"
		}
	}
	return missing
}

// warnIfNotSelected warns if the hub leaves a registration out because of its labels.
func warnIfNotSelected(env *cli.Env, heartbeat *cli.Heartbeat, registration *corev1.Secret) {
	if note := notSelected(heartbeat, registration); note != "" {
		env.Warn("%s", note)
	}
}

// notSelected describes that the hub leaves a registration out because of its labels; empty if it does not.
func notSelected(heartbeat *cli.Heartbeat, registration *corev1.Secret) string {
	if heartbeat.Registers(registration.Labels) {
		return ""
	}
	return fmt.Sprintf("the hub does not use the Secret %s: its labels do not match the hub's "+
		"clusterCache.registrationSelector %q", registration.Name, heartbeat.RegistrationSelector)
}
