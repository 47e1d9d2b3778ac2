package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/apis/config/strictyaml"
	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/convert/document"
)

// Names that the chart of the hub has.
const (
	hubNamespace         = "trellis"
	sourceServiceAccount = "trellis-source"
)

// ofClass is where a hub's configuration has the class of the resource manager.
const ofClass = "classes[0]"

// options say what to make of a configuration.
type options struct {
	// HubNamespace is that of the hub.
	HubNamespace string
	// Namespace and TargetCluster are those of a TargetCluster whose settings are wanted instead of the hub's
	// configuration.
	Namespace, TargetCluster string
	// Standby leaves the controllers of the class off.
	Standby bool
}

// note is a remark on a key of the resource manager, or about all of it.
type note struct {
	// Key is that of the resource manager's configuration, Line its line; zero if it is not in the file.
	Key  string
	Line int
	// At is the key of the result that the note belongs to, empty if there is none.
	At   string
	Text string
}

// String is what is printed.
func (n note) String() string {
	switch {
	case n.Key == "":
		return n.Text
	case n.Line == 0:
		return fmt.Sprintf("%s: %s", n.Key, n.Text)
	}
	return fmt.Sprintf("%s (line %d): %s", n.Key, n.Line, n.Text)
}

// converter converts one configuration.
type converter struct {
	options

	in    *configuration
	lines strictyaml.Lines

	out   *document.Document
	notes []note
	// origins are the keys of the resource manager that keys of the result come from.
	origins map[string]string
	// used are the keys of the resource manager that were dealt with, with all below.
	used map[string]bool
	// enabled are the names of the controllers that are on there, off of those that are not.
	enabled, off []string
	faults       field.ErrorList
	errs         []error
}

// result is what became of a configuration.
type result struct {
	*document.Document

	notes   []note
	enabled []string
}

// convert makes the configuration of a hub of that of a resource manager, or the settings of a TargetCluster.
func convert(data []byte, o options) (*result, error) {
	if o.Standby { // what is off is not validated
		on := o
		on.Standby = false
		if _, err := convert(data, on); err != nil {
			return nil, err
		}
	}
	in, lines, err := decode(data)
	if err != nil {
		return nil, err
	}
	c := &converter{options: o, in: in, lines: lines, out: document.New(), origins: map[string]string{},
		used: map[string]bool{
			"apiVersion": true, "kind": true,
		}}
	switch {
	case c.Standby && c.toSource():
		return nil, cli.Refused("this resource manager works in the cluster that it runs in, and that has no " +
			"TargetCluster that could switch controllers on: leave --standby out")
	case c.forTarget():
		c.targetCluster()
	default:
		c.hub()
	}
	if err := errors.Join(c.errs...); err != nil {
		return nil, err
	}
	if len(c.faults) == 0 {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.faults, func(
		a, b *field.Error) int {
		return cmp.Compare(c.lineOf(a.Field), c.lineOf(b.Field))
	})
	if err := refuse(c.faults); err != nil {
		return nil, err
	}
	c.noteForeign()
	return &result{Document: c.out, notes: c.notes, enabled: c.enabled}, nil
}

// forTarget reports whether the settings of a TargetCluster are wanted.
func (c *converter) forTarget() bool { return c.TargetCluster != "" }

// toSource reports whether the resource manager works in the cluster that it runs in.
func (c *converter) toSource() bool {
	target := c.in.TargetClientConnection
	return target == nil || ptr.Deref(target.Kubeconfig, "") == ""
}

// set sets a key of the result that comes from one of the resource manager, or from none.
func (c *converter) set(path string, value any, from string) {
	if err := c.out.Set(path, value); err != nil {
		c.errs = append(c.errs, err)
	}
	if from != "" {
		c.origins[path] = from
		c.used[from] = true
	}
}

// take sets a key to what the resource manager has, if it has something.
func take[T any](c *converter, path string, value *T, from string) {
	if value != nil {
		c.set(path, *value, from)
	}
}

// takeDuration is take for durations, which are written in their short form.
func (c *converter) takeDuration(path string, value *metav1.Duration, from string) {
	if value != nil {
		c.set(path, value.Duration, from)
	}
}

// note adds a note about a key of the resource manager, which is dealt with then.
func (c *converter) note(key, at, format string, args ...any) {
	c.used[key] = true
	c.notes = append(c.notes, note{Key: key, Line: c.lines[key], At: at, Text: fmt.Sprintf(format, args...)})
}

// noteIf is note for a key that is in the file.
func (c *converter) noteIf(key, at, format string, args ...any) {
	if _, ok := c.lines[key]; ok {
		c.note(key, at, format, args...)
	}
}

// fault refuses a key of the resource manager.
func (c *converter) fault(key, format string, args ...any) {
	c.faults = append(c.faults, field.Forbidden(field.NewPath(key), fmt.Sprintf(format, args...)+c.where(key)))
}

// where is the position of a key, for the end of an error.
func (c *converter) where(key string) string {
	if line := c.lineOf(key); line > 0 {
		return fmt.Sprintf(" (line %d)", line)
	}
	return ""
}

// lineOf is the line of a key, or of the nearest one above it that is in the file; zero if there is none.
func (c *converter) lineOf(key string) int {
	for at := key; at != ""; at = parentOf(at) {
		if line := c.lines[at]; line > 0 {
			return line
		}
	}
	return 0
}

// parentOf is the path of what a key or an element of a list is in, empty for none.
func parentOf(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// hub writes the configuration of a hub.
func (c *converter) hub() {
	c.set("apiVersion", configv1alpha1.APIVersion, "")
	c.set("kind", configv1alpha1.Kind, "")
	c.class()
	if c.toSource() {
		c.set("sourceIdentity.serviceAccount.namespace", c.HubNamespace, "")
		c.set("sourceIdentity.serviceAccount.name", sourceServiceAccount, "")
	}
	c.leaderElection()
	c.connections()
	c.process()
	c.managedResources()
}

// class writes the class, with its controllers.
func (c *converter) class() {
	const key = "controllers.resourceClass"
	name := ptr.Deref(c.in.Controllers.ResourceClass, resourcesv1alpha1.DefaultClassName)
	switch name {
	case resourcesv1alpha1.DefaultClassName, "":
		name = resourcesv1alpha1.DefaultClass
		c.noteIf(key, ofClass+".name", "the default class has the empty name here")
	case resourcesv1alpha1.AllClasses:
		name = resourcesv1alpha1.DefaultClass
		c.note(key, ofClass+".name",
			"a hub has no class for all classes; this is the default one, add each other one to classes")
	}
	c.set(ofClass+".name", name, key)
	if c.toSource() {
		c.set(ofClass+".target.type", configv1alpha1.TargetSource, "")
		c.namespaceSelector()
	} else {
		c.set(ofClass+".target.type", configv1alpha1.TargetNamespace, "")
		if name != resourcesv1alpha1.DefaultClass {
			c.note("", ofClass+".name", "registrations for this class have the label %s: %s", hubv1alpha1.ClassLabel, name)
		}
	}
	c.workersOfClass(name)
	c.controllers(ofClass + ".controllers")
	c.webhooks(ofClass + ".webhooks")
	c.noteOff()
}

// namespaceSelector has a class for the source say what the resource manager has as the namespaces of its caches.
func (c *converter) namespaceSelector() {
	const at, key = ofClass + ".namespaceSelector", "sourceClientConnection.namespaces"
	const old = "sourceClientConnection.namespace"
	from, namespaces := key, c.namespaces()
	if c.in.SourceClientConnection.Namespace != nil {
		from = old
	}
	c.used[key], c.used[old] = true, true
	switch len(namespaces) {
	case 0:
		c.set(at, metav1.LabelSelector{}, "")
		c.note("", at, "sourceClientConnection.namespaces is empty, so ManagedResources of all namespaces are applied to "+
			"the source; name those that may")
	case 1:
		c.set(at, metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespaces[0]}}, from)
	default:
		c.set(at, metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
		}}, from)
	}
}

// namespaces are those of the source that the resource manager is confined to.
func (c *converter) namespaces() []string {
	namespaces := c.in.SourceClientConnection.Namespaces
	if one := ptr.Deref(c.in.SourceClientConnection.Namespace, ""); one != "" && !slices.Contains(namespaces, one) {
		namespaces = append(namespaces[:len(namespaces):len(namespaces)], one)
	}
	return namespaces
}

// workersOfClass never takes fewer workers than a class has by default: there they are for one target.
func (c *converter) workersOfClass(name string) {
	key := "controllers.managedResource.concurrentSyncs"
	syncs := c.in.Controllers.ManagedResource.ConcurrentSyncs
	if syncs == nil {
		return
	}
	key = c.written(key)
	least := 5
	if name == resourcesv1alpha1.DefaultClass {
		least = 20
	}
	at := ofClass + ".concurrentSyncs"
	if *syncs > least || *syncs < 1 { // what cannot be is refused later
		c.set(at, *syncs, key)
	}
	c.note(key, at, "there, the workers are for one target; here, for all targets of the class, and those that wait "+
		"for their target do not count. Not below %d, the default", least)
}

// written is a key as the file has it, which may spell managedResource in the plural.
func (c *converter) written(key string) string {
	const prefix = "controllers.managedResource."
	if rest, ok := strings.CutPrefix(key, prefix); ok {
		if other := "controllers.managedResources." + rest; c.lines[other] > 0 {
			return other
		}
	}
	return key
}

// leaderElection takes the times of the Lease. The hub's is another one.
func (c *converter) leaderElection() {
	l := c.in.LeaderElection
	if l.LeaderElect != nil && !*l.LeaderElect {
		c.note("leaderElection.leaderElect", "", "not taken over: a hub has two replicas")
	}
	c.used["leaderElection.leaderElect"] = true
	c.takeDuration("leaderElection.leaseDuration", l.LeaseDuration, "leaderElection.leaseDuration")
	c.takeDuration("leaderElection.renewDeadline", l.RenewDeadline, "leaderElection.renewDeadline")
	c.takeDuration("leaderElection.retryPeriod", l.RetryPeriod, "leaderElection.retryPeriod")
	c.set("leaderElection.resourceNamespace", c.HubNamespace, "")
	c.noteIf("leaderElection.resourceNamespace", "leaderElection.resourceNamespace",
		"one Lease for the hub, in its own namespace")
	c.noteIf("leaderElection.resourceName", "", "the hub's Lease is called trellis; by the Lease "+
		"gardener-resource-manager it sees that a resource manager holds a namespace")
	if lock := ptr.Deref(l.ResourceLock, "leases"); lock != "leases" {
		c.note("leaderElection.resourceLock", "", "the hub knows leases only")
	}
	c.used["leaderElection.resourceLock"] = true
}

// connections takes the limits of the connection to the target. That to the source serves all targets.
func (c *converter) connections() {
	const literally = "not taken over: it was the limit of one resource manager, and this connection serves all " +
		"targets; the API server's priority and fairness limits it"
	c.noteIf("sourceClientConnection.qps", "", literally)
	c.noteIf("sourceClientConnection.burst", "", literally)
	c.noteIf("sourceClientConnection.kubeconfig", "",
		"not taken over: it is a file of the resource manager's pod; the hub uses its service account")
	if c.toSource() {
		c.noteIf("targetClientConnection", "", "without a kubeconfig, the target is the source")
		return
	}
	target, qps, burst := c.in.TargetClientConnection, "targetClientConnection.qps", "targetClientConnection.burst"
	if value := ptr.Deref(target.QPS, 0); value > 0 {
		c.set(qps, value, qps)
	}
	if value := ptr.Deref(target.Burst, 0); value > 0 {
		c.set(burst, value, burst)
	}
	c.noteLimits()
}

// noteLimits is about limits that are not in the file.
func (c *converter) noteLimits() {
	target := c.in.TargetClientConnection
	qps, burst := ptr.Deref(target.QPS, 0), ptr.Deref(target.Burst, 0)
	if qps <= 0 {
		c.noteIf("targetClientConnection.qps", "", "no target is called without a limit, which is 500 by default")
	}
	if burst <= 0 {
		c.noteIf("targetClientConnection.burst", "", "no target is called without a limit, which is 1000 by default")
	}
	if qps <= 0 || burst <= 0 {
		c.note("", "", "targetClientConnection: by default 100 requests a second there and 500 here, 130 and 1000 for a "+
			"short time")
	}
}

// process takes what is about the process.
func (c *converter) process() {
	if probes := c.in.Server.HealthProbes; probes != nil {
		take(c, "server.healthProbes.bindAddress", probes.BindAddress, "server.healthProbes.bindAddress")
		take(c, "server.healthProbes.port", probes.Port, "server.healthProbes.port")
	}
	if metrics := c.in.Server.Metrics; metrics != nil {
		take(c, "server.metrics.bindAddress", metrics.BindAddress, "server.metrics.bindAddress")
		take(c, "server.metrics.port", metrics.Port, "server.metrics.port")
	}
	d := c.in.Debugging
	take(c, "debugging.enableProfiling", d.EnableProfiling, "debugging.enableProfiling")
	take(c, "debugging.enableContentionProfiling", d.EnableContentionProfiling, "debugging.enableContentionProfiling")
	take(c, "logLevel", c.in.LogLevel, "logLevel")
	take(c, "logFormat", c.in.LogFormat, "logFormat")
}

// managedResources takes what is part of every object, so that no object changes.
func (c *converter) managedResources() {
	const at = "controllers.managedResource."
	take(c, "controllers.clusterID", c.in.Controllers.ClusterID, "controllers.clusterID")
	m := c.in.Controllers.ManagedResource
	take(c, at+"managedByLabelValue", m.ManagedByLabelValue, c.written(at+"managedByLabelValue"))
	if m.SyncPeriod != nil {
		c.note(c.written(at+"syncPeriod"), "", "not taken over: there it is how soon drift is corrected; here drift is "+
			"watched, and the default of 10m is a safety net")
	}
	if ptr.Deref(m.AlwaysUpdate, false) {
		c.note(c.written(at+"alwaysUpdate"), "", "not taken over: what differs is written at once here. If the admission "+
			"of a target has to see every object regularly, set controllers.managedResource.alwaysUpdate and syncPeriod; it "+
			"costs one request an object in each period")
	} else if m.AlwaysUpdate != nil {
		c.note(c.written(at+"alwaysUpdate"), "", "off there, and by default here")
	}
}

// targetCluster writes the settings of a TargetCluster.
func (c *converter) targetCluster() {
	c.set("apiVersion", hubv1alpha1.GroupVersion.String(), "")
	c.set("kind", "TargetCluster", "")
	c.set("metadata.namespace", c.Namespace, "")
	c.set("metadata.name", c.TargetCluster, "")
	if c.toSource() {
		c.fault("targetClientConnection.kubeconfig",
			"this resource manager works in the cluster that it runs in, and that is no TargetCluster: what works there is "+
				"up to the class")
		return
	}
	const qps, burst = "targetClientConnection.qps", "targetClientConnection.burst"
	target := c.in.TargetClientConnection
	if value := ptr.Deref(target.QPS, 0); value > 0 {
		c.set("spec.client.qps", whole(value), qps)
	}
	if value := ptr.Deref(target.Burst, 0); value > 0 {
		c.set("spec.client.burst", value, burst)
	}
	c.noteLimits()
	c.controllers("spec.controllers")
	c.webhooks("spec.webhooks")
	c.noteOff()
	c.note("", "", "classes, managedByLabelValue, clusterID and what is about the process is in the hub's "+
		"configuration, not in a TargetCluster")
	c.used["controllers.resourceClass"], c.used["controllers.clusterID"] = true, true
	for _, key := range []string{"controllers.managedResource", "controllers.managedResources", "leaderElection",
		"debugging",
		"logLevel", "logFormat", "server.healthProbes", "server.metrics"} {
		c.used[key] = true
	}
	for _, key := range []string{"kubeconfig", "qps", "burst"} {
		c.used["sourceClientConnection."+key] = true
	}
}

// whole is a number of requests a second as a TargetCluster has it: rounded up.
func whole(qps float32) int32 {
	const most = 1 << 20
	rounded := int32(min(qps, most))
	if float32(rounded) < min(qps, most) {
		rounded++
	}
	return rounded
}

// check reads the result as a hub does. A fault is one of the key that it comes from.
func (c *converter) check() error {
	written, err := c.out.YAML(nil)
	if err != nil {
		return err
	}
	if c.forTarget() {
		return c.checkTarget(written)
	}
	_, err = configv1alpha1.Load(written)
	if err == nil {
		return nil
	}
	var all utilerrors.Aggregate
	if !errors.As(err, &all) {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	for _, err := range all.Errors() {
		var fault *field.Error
		if !errors.As(err, &fault) {
			return fmt.Errorf("the result cannot be read: %w", err)
		}
		c.faults = append(c.faults, c.original(fault))
	}
	return nil
}

// checkTarget checks the settings of a TargetCluster.
func (c *converter) checkTarget(written []byte) error {
	tc := &hubv1alpha1.TargetCluster{}
	if err := unmarshalStrict(written, tc); err != nil {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	controllers := ptr.Deref(tc.Spec.Controllers, hubv1alpha1.TargetControllers{})
	controllers.SetDefaults()
	webhooks := ptr.Deref(tc.Spec.Webhooks, hubv1alpha1.TargetWebhooks{})
	webhooks.SetDefaults(hubv1alpha1.WebhookScopeTarget)
	spec := field.NewPath("spec")
	for _, fault := range append(controllers.Faults(c.Namespace, spec.Child("controllers")),
		webhooks.Faults(c.Namespace, spec.Child("webhooks"))...) {
		c.faults = append(c.faults, c.original(fault))
	}
	return nil
}

// original is a fault of the result as one of the resource manager's key.
func (c *converter) original(fault *field.Error) *field.Error {
	for at := fault.Field; at != ""; at = parentOf(at) {
		if key := c.origins[at]; key != "" {
			moved := *fault
			moved.Field, moved.Detail = key, strings.TrimSpace(fault.Detail+c.where(key))
			return &moved
		}
	}
	return fault
}

// noteForeign explains each key of the file that was not dealt with, in their order, one note for a key and all below
// it.
func (c *converter) noteForeign() {
	byLine := slices.SortedFunc(maps.Keys(c.lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.lines[a], c.lines[b]), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	for _, key := range byLine {
		if key == "webhooks" || c.isUsed(key) {
			continue
		}
		if why := configv1alpha1.WhyForeign(key); why != "" {
			c.note(key, "", "%s", why)
		}
	}
	slices.SortStableFunc(c.notes, func(a, b note) int { return cmp.Compare(order(a), order(b)) })
}

// order has notes about the file in its order, and what is about none of its keys at the end.
func order(n note) int {
	if n.Line == 0 {
		return 1 << 30
	}
	return n.Line
}

// isUsed reports whether a key, or one above it, was dealt with.
func (c *converter) isUsed(key string) bool {
	for ; key != ""; key = parentOf(key) {
		if c.used[key] {
			return true
		}
	}
	return false
}
