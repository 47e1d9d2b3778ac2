package v1alpha1

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	minSyncPeriod                  = 15 * time.Second
	maxControllerConcurrentSyncs   = 100
	maxNamespaceSelectors          = 50
	maxStalePodsNamespaces         = 50
	minNodeBackoff, maxNodeBackoff = time.Second, time.Hour
	// The most that a shoot can ask for with the annotation cloud-config-execution-max-delay-seconds.
	maxNodeAgentDelay = 30 * time.Minute
	// The class of a resource manager of a shoot, and the audience of its tokens.
	shootClass, gardenerAudience = "shoot", "gardener"
)

// controllers are all controllers that can be set: how to reach each one, its defaults and its faults. A new one needs
// a type, a field and an entry here. Defaults and faults are asked for only if it is enabled.
var controllers = []struct {
	name     string
	enabled  func(c *TargetControllers) bool
	off      func(c *TargetControllers)
	defaults func(c *TargetControllers)
	faults   func(c *TargetControllers, home string, path *field.Path) field.ErrorList
}{
	{
		"garbageCollector",
		func(c *TargetControllers) bool {
			return c.GarbageCollector != nil && ptr.Deref(c.GarbageCollector.Enabled, false)
		},
		func(c *TargetControllers) { c.GarbageCollector = nil },
		func(c *TargetControllers) {
			setDefault(&c.GarbageCollector.SyncPeriod, metav1.Duration{Duration: time.Hour})
		},
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return syncPeriodFaults(c.GarbageCollector.SyncPeriod, path)
		},
	},
	{
		"csrApprover",
		func(c *TargetControllers) bool {
			return c.CSRApprover != nil && ptr.Deref(c.CSRApprover.Enabled, false)
		},
		func(c *TargetControllers) { c.CSRApprover = nil },
		func(c *TargetControllers) { setDefault(&c.CSRApprover.ConcurrentSyncs, 1) },
		func(c *TargetControllers, home string, path *field.Path) field.ErrorList {
			faults := concurrentSyncsFaults(*c.CSRApprover.ConcurrentSyncs, path)
			named := ptr.Deref(c.CSRApprover.MachineNamespace, "")
			if home != "" && named != "" && named != home {
				faults = append(faults, field.Invalid(path.Child("machineNamespace"), named,
					fmt.Sprintf("must be that of the target's registration (%s), or empty", home)))
			}
			return append(faults, machineFaults(c.CSRApprover, path)...)
		},
	},
	{
		"tokenRequestor",
		func(c *TargetControllers) bool {
			return c.TokenRequestor != nil && ptr.Deref(c.TokenRequestor.Enabled, false)
		},
		func(c *TargetControllers) { c.TokenRequestor = nil },
		func(c *TargetControllers) { c.TokenRequestor.setDefaults() },
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return append(concurrentSyncsFaults(*c.TokenRequestor.ConcurrentSyncs, path), c.TokenRequestor.faults(path)...)
		},
	},
	{
		"nodeCriticalComponents",
		func(c *TargetControllers) bool {
			return c.NodeCriticalComponents != nil && ptr.Deref(c.NodeCriticalComponents.Enabled, false)
		},
		func(c *TargetControllers) { c.NodeCriticalComponents = nil },
		func(c *TargetControllers) {
			setDefault(&c.NodeCriticalComponents.ConcurrentSyncs, 5)
			setDefault(&c.NodeCriticalComponents.Backoff, metav1.Duration{Duration: 10 * time.Second})
		},
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			faults := concurrentSyncsFaults(*c.NodeCriticalComponents.ConcurrentSyncs, path)
			if backoff := c.NodeCriticalComponents.Backoff.Duration; backoff < minNodeBackoff || backoff > maxNodeBackoff {
				faults = append(faults, field.Invalid(path.Child("backoff"), backoff.String(),
					fmt.Sprintf("must be between %s and %s", minNodeBackoff, maxNodeBackoff)))
			}
			return faults
		},
	},
	{
		"nodeAgentReconciliationDelay",
		func(c *TargetControllers) bool {
			return c.NodeAgentReconciliationDelay != nil && ptr.Deref(c.NodeAgentReconciliationDelay.Enabled, false)
		},
		func(c *TargetControllers) { c.NodeAgentReconciliationDelay = nil },
		func(c *TargetControllers) {
			setDefault(&c.NodeAgentReconciliationDelay.MinDelay, metav1.Duration{})
			setDefault(&c.NodeAgentReconciliationDelay.MaxDelay, metav1.Duration{Duration: 5 * time.Minute})
		},
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return c.NodeAgentReconciliationDelay.faults(path)
		},
	},
	{
		"networkPolicy",
		func(c *TargetControllers) bool {
			return c.NetworkPolicy != nil && ptr.Deref(c.NetworkPolicy.Enabled, false)
		},
		func(c *TargetControllers) { c.NetworkPolicy = nil },
		func(c *TargetControllers) { setDefault(&c.NetworkPolicy.ConcurrentSyncs, 5) },
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return append(concurrentSyncsFaults(*c.NetworkPolicy.ConcurrentSyncs, path), c.NetworkPolicy.faults(path)...)
		},
	},
	{
		"tokenInvalidator",
		func(c *TargetControllers) bool {
			return c.TokenInvalidator != nil && ptr.Deref(c.TokenInvalidator.Enabled, false)
		},
		func(c *TargetControllers) { c.TokenInvalidator = nil },
		func(c *TargetControllers) { setDefault(&c.TokenInvalidator.ConcurrentSyncs, 5) },
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return concurrentSyncsFaults(*c.TokenInvalidator.ConcurrentSyncs, path)
		},
	},
	{
		"nodeHighAvailability",
		func(c *TargetControllers) bool {
			return c.NodeHighAvailability != nil && ptr.Deref(c.NodeHighAvailability.Enabled, false)
		},
		func(c *TargetControllers) { c.NodeHighAvailability = nil },
		func(*TargetControllers) {},
		func(*TargetControllers, string, *field.Path) field.ErrorList { return nil },
	},
	{
		"istioClusterConfiguration",
		func(c *TargetControllers) bool {
			return c.IstioClusterConfiguration != nil && ptr.Deref(c.IstioClusterConfiguration.Enabled, false)
		},
		func(c *TargetControllers) { c.IstioClusterConfiguration = nil },
		func(c *TargetControllers) { setDefault(&c.IstioClusterConfiguration.ConcurrentSyncs, 5) },
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return concurrentSyncsFaults(*c.IstioClusterConfiguration.ConcurrentSyncs, path)
		},
	},
	{
		"stalePods",
		func(c *TargetControllers) bool {
			return c.StalePods != nil && ptr.Deref(c.StalePods.Enabled, false)
		},
		func(c *TargetControllers) { c.StalePods = nil },
		func(c *TargetControllers) {
			setDefault(&c.StalePods.SyncPeriod, metav1.Duration{Duration: time.Minute})
			if len(c.StalePods.Namespaces) == 0 {
				c.StalePods.Namespaces = []string{metav1.NamespaceSystem}
			}
		},
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return append(syncPeriodFaults(c.StalePods.SyncPeriod, path), c.StalePods.faults(path)...)
		},
	},
	{
		"care",
		func(c *TargetControllers) bool {
			return c.Care != nil && ptr.Deref(c.Care.Enabled, false)
		},
		func(c *TargetControllers) { c.Care = nil },
		func(c *TargetControllers) {
			setDefault(&c.Care.SyncPeriod, metav1.Duration{Duration: time.Minute})
		},
		func(c *TargetControllers, _ string, path *field.Path) field.ErrorList {
			return syncPeriodFaults(c.Care.SyncPeriod, path)
		},
	},
}

func (c *NodeAgentReconciliationDelayController) faults(path *field.Path) (faults field.ErrorList) {
	least, most := c.MinDelay.Duration, c.MaxDelay.Duration
	if least < 0 {
		faults = append(faults, field.Invalid(path.Child("minDelay"), least.String(), "must not be negative"))
	}
	switch {
	case most < 0:
		faults = append(faults, field.Invalid(path.Child("maxDelay"), most.String(), "must not be negative"))
	case most > maxNodeAgentDelay:
		faults = append(faults, field.Invalid(path.Child("maxDelay"), most.String(),
			fmt.Sprintf("must be at most %s", maxNodeAgentDelay)))
	case most < least:
		faults = append(faults, field.Invalid(path.Child("maxDelay"), most.String(),
			fmt.Sprintf("must not be less than minDelay (%s)", least)))
	}
	return faults
}

// machineFaults are those of settings that need Machines although the controller is configured to work without them.
func machineFaults(c *CSRApproverController, path *field.Path) (faults field.ErrorList) {
	if !ptr.Deref(c.WithoutMachines, false) {
		return nil
	}
	if named := ptr.Deref(c.MachineNamespace, ""); named != "" {
		faults = append(faults, field.Invalid(path.Child("machineNamespace"), named, "must be empty with withoutMachines"))
	}
	if ptr.Deref(c.MigrationUser, false) {
		faults = append(faults, field.Invalid(path.Child("migrationUser"), true,
			"must be false with withoutMachines: a label of the user's Machine identifies it"))
	}
	return faults
}

// setDefaults sets what a resource manager of a shoot has.
func (c *TokenRequestorController) setDefaults() {
	setDefault(&c.ConcurrentSyncs, 5)
	setDefault(&c.Class, shootClass)
}

// TokenAudiences are Audiences or their default, which follows from the class that the target has in the end. Empty
// means those of the target's API server.
func (c *TokenRequestorController) TokenAudiences() []string {
	if c.Audiences == nil && ptr.Deref(c.Class, shootClass) == shootClass {
		return []string{gardenerAudience}
	}
	return c.Audiences
}

func (c *TokenRequestorController) faults(path *field.Path) (faults field.ErrorList) {
	for i, audience := range c.Audiences {
		if audience == "" {
			faults = append(faults, field.Invalid(path.Child("audiences").Index(i), audience, "must not be empty"))
		}
	}
	if namespace := ptr.Deref(c.TargetNamespace, ""); namespace != "" && len(validation.IsDNS1123Label(namespace)) > 0 {
		faults = append(faults, field.Invalid(path.Child("targetNamespace"), namespace, "must be the name of a namespace"))
	}
	faults = append(faults, serviceAccountFaults(c.AllowedServiceAccounts, path.Child("allowedServiceAccounts"))...)
	return append(faults, serviceAccountFaults(c.DeniedServiceAccounts, path.Child("deniedServiceAccounts"))...)
}

// serviceAccountFaults are those of entries that match nothing, which would allow or deny less than was meant.
func serviceAccountFaults(entries []string, path *field.Path) (faults field.ErrorList) {
	for i, entry := range entries {
		namespace, name, named := strings.Cut(entry, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || named && len(validation.IsDNS1123Subdomain(name)) > 0 {
			faults = append(faults, field.Invalid(path.Index(i), entry, "must be a namespace, or namespace/name"))
		}
	}
	return faults
}

func (c *NetworkPolicyController) faults(path *field.Path) (faults field.ErrorList) {
	selectors := path.Child("namespaceSelectors")
	if len(c.NamespaceSelectors) > maxNamespaceSelectors {
		faults = append(faults, field.TooMany(selectors, len(c.NamespaceSelectors), maxNamespaceSelectors))
	}
	for i := range c.NamespaceSelectors {
		faults = append(faults, selectorFaults(&c.NamespaceSelectors[i], selectors.Index(i))...)
	}
	if controller := c.IngressControllerSelector; controller != nil {
		path := path.Child("ingressControllerSelector")
		if len(validation.IsDNS1123Label(controller.Namespace)) > 0 {
			faults = append(faults, field.Invalid(path.Child("namespace"), controller.Namespace,
				"must be the name of a namespace"))
		}
		faults = append(faults, selectorFaults(&controller.PodSelector, path.Child("podSelector"))...)
	}
	return faults
}

func selectorFaults(selector *metav1.LabelSelector, path *field.Path) field.ErrorList {
	if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
		return field.ErrorList{field.Invalid(path, *selector, err.Error())}
	}
	return nil
}

func (c *StalePodsController) faults(path *field.Path) (faults field.ErrorList) {
	namespaces := path.Child("namespaces")
	if len(c.Namespaces) > maxStalePodsNamespaces {
		faults = append(faults, field.TooMany(namespaces, len(c.Namespaces), maxStalePodsNamespaces))
	}
	for i, namespace := range c.Namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			faults = append(faults, field.Invalid(namespaces.Index(i), namespace, "must be the name of a namespace"))
		}
	}
	return faults
}

func syncPeriodFaults(period *metav1.Duration, path *field.Path) field.ErrorList {
	if period.Duration < minSyncPeriod {
		return field.ErrorList{field.Invalid(path.Child("syncPeriod"), period.Duration.String(),
			"must be at least "+minSyncPeriod.String())}
	}
	return nil
}

func concurrentSyncsFaults(syncs int32, path *field.Path) field.ErrorList {
	if syncs < 1 || syncs > maxControllerConcurrentSyncs {
		return field.ErrorList{field.Invalid(path.Child("concurrentSyncs"), syncs,
			fmt.Sprintf("must be between 1 and %d", maxControllerConcurrentSyncs))}
	}
	return nil
}

func setDefault[T any](value **T, to T) {
	if *value == nil {
		*value = &to
	}
}

// SetDefaults sets the fields of controllers that are switched on to their defaults.
func (c *TargetControllers) SetDefaults() {
	for _, controller := range controllers {
		if controller.enabled(c) {
			controller.defaults(c)
		}
	}
}

// Faults returns what is wrong with the controllers that are switched on, after SetDefaults, for a target of a home
// namespace. An empty one means the source cluster, or that it is not known which target it will be.
func (c *TargetControllers) Faults(home string, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, controller := range controllers {
		if controller.enabled(c) {
			all = append(all, controller.faults(c, home, path.Child(controller.name))...)
		}
	}
	return all
}

// Enabled returns the names of the controllers that are switched on.
func (c *TargetControllers) Enabled() (names []string) {
	for _, controller := range controllers {
		if controller.enabled(c) {
			names = append(names, controller.name)
		}
	}
	return names
}

// WithoutFaulty returns the controllers without those that are off or faulty, after SetDefaults.
func (c *TargetControllers) WithoutFaulty(home string) TargetControllers {
	good := *c
	for _, controller := range controllers {
		if !controller.enabled(c) || len(controller.faults(c, home, nil)) > 0 {
			controller.off(&good)
		}
	}
	return good
}

// Merge returns the controllers with each single field that own has instead, but for StalePods.HomeNamespace: a user
// who may change a TargetCluster need not be allowed to delete pods of the source. The fields of both are shared with
// the result, and not to be changed.
func (c *TargetControllers) Merge(own *TargetControllers) TargetControllers {
	merged := merge(c, own)
	if own != nil && own.StalePods != nil {
		merged.StalePods.HomeNamespace = nil
		if c.StalePods != nil {
			merged.StalePods.HomeNamespace = c.StalePods.HomeNamespace
		}
	}
	return merged
}
