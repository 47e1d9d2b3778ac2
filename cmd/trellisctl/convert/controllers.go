package convert

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/cmd/trellisctl/convert/document"
)

// What a hub takes at most, or at least, where a resource manager takes everything.
const (
	mostWorkers               = 100
	leastBackoff, mostBackoff = time.Second, time.Hour
	mostDelay                 = 30 * time.Minute
)

// The defaults of a resource manager, for settings that are to be the same whatever a class says.
const (
	defaultWorkers    = 5
	defaultSyncPeriod = time.Hour
	defaultBackoff    = 10 * time.Second
	defaultMaxDelay   = 5 * time.Minute
)

// controllers writes the controllers below a key.
func (c *converter) controllers(at string) {
	c.garbageCollector(at)
	c.csrApprover(at)
	c.tokenRequestor(at)
	c.nodeCriticalComponents(at)
	c.nodeAgentReconciliationDelay(at)
	c.networkPolicy(at)
	c.tokenInvalidator(at)
	c.nodeHighAvailability(at)
	c.plain(at, "istioClusterConfiguration", "controllers.istioClusterConfiguration",
		ptr.Deref(c.in.Controllers.IstioClusterConfiguration, workers{}))
}

// noteOff is about the controllers and webhooks that are off.
func (c *converter) noteOff() {
	if len(c.off) > 0 && c.forTarget() {
		c.note("", "", "off there, and switched off here whatever the class says: %s", strings.Join(c.off, ", "))
	} else if len(c.off) > 0 {
		c.note("", "", "off there, and by default here: %s. The rights of the hub follow from what a class mentions",
			strings.Join(c.off, ", "))
	}
	c.note("", "", "what no resource manager has, and is off by default: stalePods, care")
	if c.Standby && len(c.enabled) > 0 {
		c.note("", "", "on standby: %s are off until a TargetCluster switches them on", strings.Join(c.enabled, ", "))
	}
}

// controller writes that one is on or off, and returns its path and whether its other settings matter.
func (c *converter) controller(at, name, from string, enabled *bool) (path string, on bool) {
	path, on = at+"."+name, ptr.Deref(enabled, false)
	c.used[from] = true
	if !on {
		c.off = append(c.off, name)
	} else {
		c.enabled = append(c.enabled, name)
	}
	if on || c.forTarget() {
		c.set(path+".enabled", on && !c.Standby, from)
	}
	return path, on
}

// workers writes how many work at a time.
func (c *converter) workers(path, from string, syncs *int32, byDefault int32) {
	if syncs == nil && c.forTarget() {
		syncs = ptr.To(byDefault)
	}
	if syncs == nil {
		return
	}
	path, from = path+".concurrentSyncs", from+".concurrentSyncs"
	if *syncs > mostWorkers {
		c.note(from, path, "%d there, and %d are the most here", *syncs, mostWorkers)
		syncs = ptr.To[int32](mostWorkers)
	}
	c.set(path, *syncs, from)
}

// duration writes a duration within the bounds of a hub. What is not positive is left to its validation.
func (c *converter) duration(path, from string, value *metav1.Duration, byDefault, least, most time.Duration) {
	if value == nil && c.forTarget() {
		value = &metav1.Duration{Duration: byDefault}
	}
	if value == nil {
		return
	}
	taken := value.Duration
	if taken > 0 {
		taken = min(max(taken, least), most)
	}
	if taken != value.Duration {
		c.note(from, path, "%s there, and here it is between %s and %s", document.Short(value.Duration),
			document.Short(least),
			document.Short(most))
	}
	c.set(path, taken, from)
}

// plain writes a controller that only has workers.
func (c *converter) plain(at, name, from string, w workers) (path string, on bool) {
	path, on = c.controller(at, name, from, w.Enabled)
	if on {
		c.workers(path, from, w.ConcurrentSyncs, defaultWorkers)
	}
	return path, on
}

// one returns the setting of two keys with the same meaning, an old and a new one, and the key that has it.
func one[T any](c *converter, name, old string, value, oldValue *T) (key string, set T) {
	key, old = "controllers."+name, "controllers."+old
	switch {
	case value != nil && oldValue != nil:
		c.fault(old, "this is the old name of %s, which is there, too; only one of them can be", key)
		c.used[old] = true
	case oldValue != nil:
		c.note(old, "", "this is an old name; here it is %s", name)
		return old, *oldValue
	}
	if value == nil {
		return key, set
	}
	return key, *value
}

func (c *converter) garbageCollector(at string) {
	const from = "controllers.garbageCollector"
	gc := ptr.Deref(c.in.Controllers.GarbageCollector, garbageCollector{})
	path, on := c.controller(at, "garbageCollector", from, gc.Enabled)
	if !on {
		return
	}
	if gc.SyncPeriod == nil && c.forTarget() {
		gc.SyncPeriod = &metav1.Duration{Duration: defaultSyncPeriod}
	}
	c.takeDuration(path+".syncPeriod", gc.SyncPeriod, from+".syncPeriod")
	if c.toSource() {
		c.note("", path, "garbageCollector: only one collector may work in the source; stop that of the resource manager "+
			"first")
	}
}

func (c *converter) csrApprover(at string) {
	const key = "csrApprover"
	from, a := one(c, key, "kubeletCSRApprover", c.in.Controllers.CSRApprover, c.in.Controllers.KubeletCSRApprover)
	isOld := from != "controllers."+key
	machines := from + ".machineNamespace"
	on := ptr.Deref(a.Enabled, false)
	if on && a.MachineNamespace != nil && *a.MachineNamespace == "" {
		c.fault(machines, "must not be empty; without the key, no Machines are asked for")
		return
	}
	if on && c.toSource() && (a.MachineNamespace != nil || isOld) {
		c.used[from] = true
		c.note(from, "", "not taken over: the source has no registration, and Machines are those of the namespace of one")
		return
	}
	path, on := c.controller(at, key, from, a.Enabled)
	if !on {
		return
	}
	c.workers(path, from, a.ConcurrentSyncs, 1)
	without := a.MachineNamespace == nil && !isOld
	if without || c.forTarget() {
		c.set(path+".withoutMachines", without, "")
	}
	switch {
	case without:
		c.note("", path+".withoutMachines",
			"csrApprover: without machineNamespace, the resource manager asks for no Machines; here that has to be said")
	case c.forTarget():
		named := ptr.Deref(a.MachineNamespace, c.Namespace)
		c.set(path+".machineNamespace", named, machines)
	default:
		c.note(machines, path,
			"not taken over: Machines are those of the namespace of the registration; register the target in that namespace")
	}
}

func (c *converter) tokenRequestor(at string) {
	const from, name = "controllers.tokenRequestor", "tokenRequestor"
	w := ptr.Deref(c.in.Controllers.TokenRequestor, workers{})
	if ptr.Deref(w.Enabled, false) && c.toSource() {
		c.note(from, "", "not taken over: tokens are requested of targets with a registration, not of the source")
		return
	}
	path, on := c.plain(at, name, from, w)
	if !on {
		return
	}
	if c.forTarget() {
		c.set(path+".class", "shoot", "")
		c.set(path+".audiences", []string{"gardener"}, "")
	}
	c.note("", path, "tokenRequestor: Secrets of the class shoot and tokens for the audience gardener, as with the "+
		"resource manager. One older than v1.85 takes Secrets of every class: class: \"\" does")
	c.note("", path, "tokenRequestor: the account of the registration cannot be named by other Secrets here")
}

func (c *converter) nodeCriticalComponents(at string) {
	const key = "nodeCriticalComponents"
	from, n := one(c, key, "node", c.in.Controllers.NodeCriticalComponents, c.in.Controllers.Node)
	path, on := c.plain(at, key, from, n.workers)
	if on {
		c.duration(path+".backoff", from+".backoff", n.Backoff, defaultBackoff, leastBackoff, mostBackoff)
	}
}

func (c *converter) nodeAgentReconciliationDelay(at string) {
	const from, name = "controllers.nodeAgentReconciliationDelay", "nodeAgentReconciliationDelay"
	d := ptr.Deref(c.in.Controllers.NodeAgentReconciliationDelay, nodeAgentReconciliationDelay{})
	path, on := c.controller(at, name, from, d.Enabled)
	if on {
		c.duration(path+".minDelay", from+".minDelay", d.MinDelay, 0, 0, mostDelay)
		c.duration(path+".maxDelay", from+".maxDelay", d.MaxDelay, defaultMaxDelay, 0, mostDelay)
	}
}

func (c *converter) networkPolicy(at string) {
	const from = "controllers.networkPolicy"
	n := ptr.Deref(c.in.Controllers.NetworkPolicy, networkPolicy{})
	path, on := c.plain(at, "networkPolicy", from, n.workers)
	if !on {
		return
	}
	if len(n.NamespaceSelectors) > 0 || c.forTarget() {
		c.set(path+".namespaceSelectors", slices.Concat([]metav1.LabelSelector{}, n.NamespaceSelectors),
			from+".namespaceSelectors")
	}
	if len(n.NamespaceSelectors) == 0 {
		c.note("", path, "networkPolicy: Services of all namespaces, also those of users")
	}
	if s := n.IngressControllerSelector; s != nil {
		key := from + ".ingressControllerSelector"
		c.set(path+".ingressControllerSelector.namespace", s.Namespace, key)
		c.set(path+".ingressControllerSelector.podSelector", s.PodSelector, key)
	}
	if c.forTarget() {
		c.set(path+".onlyWithClientPods", false, "")
	}
	c.note("", path, "networkPolicy: a resource manager from v1.140 on leaves out policies whose namespace has no pod "+
		"with their label; onlyWithClientPods: true does")
}

func (c *converter) tokenInvalidator(at string) {
	const name = "tokenInvalidator"
	of := c.in.Controllers
	from, w := "controllers."+name, ptr.Deref(of.TokenInvalidator, workers{})
	if of.TokenValidator != nil {
		other := "controllers.tokenValidator"
		if of.TokenInvalidator != nil && !equal(*of.TokenInvalidator, *of.TokenValidator) {
			c.fault(other, "this is another name of %s, which has another value", from)
		}
		c.note(other, "", "this is another name of tokenInvalidator")
		if of.TokenInvalidator == nil {
			from, w = other, *of.TokenValidator
		}
	}
	path, on := c.plain(at, name, from, w)
	if on {
		c.note("", path, "tokenInvalidator: the controller marks Secrets; what makes their tokens useless is the webhook "+
			"of the same name")
	}
}

func equal(a, b workers) bool {
	return ptr.Equal(a.Enabled, b.Enabled) && ptr.Equal(a.ConcurrentSyncs, b.ConcurrentSyncs)
}

// nodeHighAvailability follows the webhook, as with the resource manager.
func (c *converter) nodeHighAvailability(at string) {
	path, on := c.controller(at, "nodeHighAvailability", "webhooks.highAvailabilityConfig",
		ptr.Deref(c.in.Webhooks.HighAvailabilityConfig, highAvailabilityConfig{}).Enabled)
	if on {
		c.note("", path, "nodeHighAvailability: a resource manager from v1.141 on has this controller, too, with its "+
			"webhook highAvailabilityConfig")
	}
}
