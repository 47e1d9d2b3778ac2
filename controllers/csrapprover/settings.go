package csrapprover

import (
	"errors"
	"fmt"

	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// Settings are those of the approver in one target. The zero value looks for Machines in the home namespace of the
// target, and has all that is optional switched off.
type Settings struct {
	// ConcurrentSyncs is how many requests of the target are worked on at a time. Less than one is one.
	ConcurrentSyncs int
	// MachineNamespace is the namespace of the source with the Machines of the target. It can only be the home namespace
	// of the target, which is what empty means: those of other targets have Machines with the same node names.
	MachineNamespace string
	// WithoutMachines switches the check of Machines off. A kubelet then needs no more than a Node, and a node agent
	// counts as being on the node with the name of its machine. It is for targets whose machines are not managed by the
	// source.
	WithoutMachines bool
	// Gardenadm has client certificates for gardenadm approved, which are of use in a garden or self-hosted cluster only.
	Gardenadm bool
	// Strict denies kubelets usages that no server certificate needs, and e-mail addresses and URIs. It denies node agents
	// organizations, which become groups of their users.
	Strict bool
	// MigrationUser allows the ServiceAccount kube-system/gardener-node-agent, which node agents used to be, to ask for
	// the certificates of machines.
	MigrationUser bool
}

// SettingsOf are those of a target whose requests are decided as own says. Nil: they are not.
func SettingsOf(own *hubv1alpha1.CSRApproverController) (settings Settings, on bool) {
	if own == nil {
		return Settings{}, false
	}
	return Settings{
		ConcurrentSyncs:  int(*own.ConcurrentSyncs),
		MachineNamespace: ptr.Deref(own.MachineNamespace, ""),
		WithoutMachines:  ptr.Deref(own.WithoutMachines, false),
		Gardenadm:        ptr.Deref(own.Gardenadm, false),
		Strict:           ptr.Deref(own.Strict, false),
		MigrationUser:    ptr.Deref(own.MigrationUser, false),
	}, true
}

// Validate reports whether Machines can be looked for where the settings have them, for a target with a home namespace,
// which is empty for a target that is not registered in the source. If not, nothing is approved or denied. All other
// faults are those of hubv1alpha1.TargetControllers.Faults, with which a target has no approver.
func (s Settings) Validate(home string) error {
	switch {
	case s.MachineNamespace != "" && s.MachineNamespace != home:
		return fmt.Errorf("machineNamespace is %q, but has to be the home namespace of the target, %q",
			s.MachineNamespace, home)
	case home == "" && !s.WithoutMachines:
		return errors.New("the target has no home namespace in which Machines could be looked for")
	}
	return nil
}
