package convert

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// defaultExpirationSeconds is what a resource manager has for tokens of pods.
const defaultExpirationSeconds = 12 * 60 * 60

// webhooks writes the webhooks below a key.
func (c *converter) webhooks(at string) {
	before := len(c.enabled)
	in := c.in.Webhooks
	c.projectedTokenMount(at)
	c.highAvailabilityConfig(at)
	c.podSchedulerName(at)
	c.webhook(at, "seccompProfile", in.SeccompProfile)
	c.kubernetesServiceHost(at)
	c.webhook(at, "podKubeAPIServerLoadBalancing", in.PodKubeAPIServerLoadBalancing)
	c.systemComponentsConfig(at)
	c.webhook(at, "podTopologySpreadConstraints", in.PodTopologySpreadConstraints)
	c.webhook(at, "vpaInPlaceUpdates", in.VPAInPlaceUpdates)
	c.webhook(at, "endpointSliceHints", in.EndpointSliceHints)
	c.tokenInvalidatorWebhook(at)
	c.webhook(at, "crdDeletionProtection", in.CRDDeletionProtection)
	c.webhook(at, "extensionValidation", in.ExtensionValidation)
	c.nodeAgentAuthorizer(at)
	c.used["webhooks"] = true
	if len(c.enabled) == before {
		return
	}
	if c.forTarget() {
		c.set(at+".registration.scope", hubv1alpha1.WebhookScopeTarget, "")
		c.set(at+".registration.failurePolicy", "Fail", "")
	}
	c.note("", at, "webhooks: the API servers of targets have to reach the hub. Delete the configuration of the resource "+
		"manager's webhooks (gardener-resource-manager, or gardener-resource-manager-shoot) in a target before the hub "+
		"registers its own, or after it: both at once do no harm")
}

// webhook writes that one is on or off, and returns its path and whether its other settings matter.
func (c *converter) webhook(at, name string, own *switched) (path string, on bool) {
	path, on = at+"."+name, own != nil && ptr.Deref(own.Enabled, false)
	from := "webhooks." + name
	c.used[from], c.origins[path] = true, from
	if !on {
		c.off = append(c.off, from)
	} else {
		c.enabled = append(c.enabled, from)
	}
	if on || c.forTarget() {
		c.set(path+".enabled", on && !c.Standby, from)
	}
	return path, on
}

// byDefault writes what the resource manager has, or for a target its default.
func byDefault[T any](c *converter, path string, value *T, fallback T, from string) {
	if value == nil && c.forTarget() {
		value = &fallback
	}
	take(c, path, value, from)
}

func (c *converter) projectedTokenMount(at string) {
	in := ptr.Deref(c.in.Webhooks.ProjectedTokenMount, projectedTokenMount{})
	if path, on := c.webhook(at, "projectedTokenMount", &in.switched); on {
		byDefault(c, path+".expirationSeconds", in.ExpirationSeconds, defaultExpirationSeconds,
			"webhooks.projectedTokenMount.expirationSeconds")
	}
}

func (c *converter) highAvailabilityConfig(at string) {
	const from = "webhooks.highAvailabilityConfig"
	in := ptr.Deref(c.in.Webhooks.HighAvailabilityConfig, highAvailabilityConfig{})
	path, on := c.webhook(at, "highAvailabilityConfig", &in.switched)
	if !on {
		return
	}
	const notReady, unreachable = ".defaultNotReadyTolerationSeconds", ".defaultUnreachableTolerationSeconds"
	take(c, path+notReady, in.DefaultNotReadyTolerationSeconds, from+notReady)
	take(c, path+unreachable, in.DefaultUnreachableTolerationSeconds, from+unreachable)
	if c.forTarget() {
		c.set(path+".legacyMaxSkew", false, "")
		c.set(path+".templateLabelSelectorForStatefulSets", false, "")
	}
	if c.forTarget() && (in.DefaultNotReadyTolerationSeconds == nil || in.DefaultUnreachableTolerationSeconds == nil) {
		c.note("", path, "highAvailabilityConfig: a time that the resource manager does not have is that of the class; a "+
			"TargetCluster cannot say that there is none")
	}
}

func (c *converter) podSchedulerName(at string) {
	in := ptr.Deref(c.in.Webhooks.PodSchedulerName, podSchedulerName{})
	if path, on := c.webhook(at, "podSchedulerName", &in.switched); on {
		byDefault(c, path+".schedulerName", in.SchedulerName, corev1.DefaultSchedulerName,
			"webhooks.podSchedulerName.schedulerName")
	}
}

// kubernetesServiceHost is left off in a class for many targets: pods would get the API server of another one.
func (c *converter) kubernetesServiceHost(at string) {
	const name, from = "kubernetesServiceHost", "webhooks.kubernetesServiceHost"
	in := ptr.Deref(c.in.Webhooks.KubernetesServiceHost, kubernetesServiceHost{})
	if ptr.Deref(in.Enabled, false) && !c.forTarget() && !c.toSource() {
		c.set(at+"."+name+".enabled", false, from)
		c.note(from, at+"."+name, "left off: it names the API server of one target, and a class has many. Each "+
			"TargetCluster has to switch it on with its own host: --target-cluster")
		return
	}
	path, on := c.webhook(at, name, &in.switched)
	if !on {
		return
	}
	take(c, path+".host", in.Host, from+".host")
	if c.forTarget() {
		c.set(path+".port", 443, "")
	}
}

func (c *converter) systemComponentsConfig(at string) {
	const from = "webhooks.systemComponentsConfig"
	in := ptr.Deref(c.in.Webhooks.SystemComponentsConfig, systemComponentsConfig{})
	path, on := c.webhook(at, "systemComponentsConfig", &in.switched)
	if !on {
		return
	}
	labels := func(name string, value map[string]string) {
		if len(value) > 0 || c.forTarget() {
			copied := map[string]string{}
			maps.Copy(copied, value)
			c.set(path+"."+name, copied, from+"."+name)
		}
	}
	labels("nodeSelector", in.NodeSelector)
	labels("podNodeSelector", in.PodNodeSelector)
	if len(in.PodTolerations) > 0 || c.forTarget() {
		c.set(path+".podTolerations", slices.Concat([]corev1.Toleration{}, in.PodTolerations), from+".podTolerations")
	}
}

func (c *converter) tokenInvalidatorWebhook(at string) {
	const name, other = "tokenInvalidator", "webhooks.tokenValidator"
	own := c.in.Webhooks.TokenInvalidator
	if again := c.in.Webhooks.TokenValidator; again != nil {
		if own != nil && !ptr.Equal(own.Enabled, again.Enabled) {
			c.fault(other, "this is another name of webhooks.%s, which has another value", name)
		}
		c.note(other, "", "this is another name of %s", name)
		own = again
	}
	c.webhook(at, name, own)
}

func (c *converter) nodeAgentAuthorizer(at string) {
	const from = "webhooks.nodeAgentAuthorizer"
	in := ptr.Deref(c.in.Webhooks.NodeAgentAuthorizer, nodeAgentAuthorizer{})
	path, on := c.webhook(at, "nodeAgentAuthorizer", &in.switched)
	if !on {
		return
	}
	byDefault(c, path+".authorizeWithSelectors", in.AuthorizeWithSelectors, false, from+".authorizeWithSelectors")
	named := ptr.Deref(in.MachineNamespace, "")
	if named == "" || c.toSource() || c.forTarget() {
		c.set(path+".withoutMachines", named == "" || c.toSource(), "")
	}
	switch {
	case named == "":
		c.note("", path+".withoutMachines",
			"nodeAgentAuthorizer: without machineNamespace, agents are named after nodes; here that is a setting")
	case c.toSource():
		c.note(from+".machineNamespace", path,
			"not taken over: the source has no registration, and Machines are those of the namespace of one")
	case c.forTarget():
		c.set(path+".machineNamespace", named, from+".machineNamespace")
	default:
		c.note(from+".machineNamespace", path,
			"not taken over: Machines are those of the namespace of the registration; register the target in that namespace")
	}
}
