package v1alpha1

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/addresses"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	minManagedResourceSyncPeriod = 15 * time.Second
	minTargetClusterSyncPeriod   = 5 * time.Second
	minRenewInterval             = time.Second
	minLivenessStuckAfter        = 10 * time.Second
)

// Validate returns every fault of a configuration that SetDefaults has been applied to.
func Validate(c *HubConfiguration) field.ErrorList {
	var faults field.ErrorList
	faults = append(faults, validateTypeMeta(c.TypeMeta)...)
	faults = append(faults, validateSourceClientConnection(c.SourceClientConnection,
		field.NewPath("sourceClientConnection"))...)
	faults = append(faults, validateTargetClientConnection(c.TargetClientConnection,
		field.NewPath("targetClientConnection"))...)
	faults = append(faults, validateLeaderElection(c.LeaderElection, field.NewPath("leaderElection"))...)
	faults = append(faults, validateServer(c.Server, field.NewPath("server"))...)
	faults = append(faults, validateWebhookServer(&c.Server.Webhooks, c.LeaderElection.ResourceNamespace,
		field.NewPath("server", "webhooks"))...)
	faults = append(faults, validateOneOf(c.LogLevel, field.NewPath("logLevel"), "debug", "info", "error")...)
	faults = append(faults, validateOneOf(c.LogFormat, field.NewPath("logFormat"), "json", "text")...)
	faults = append(faults, validateClasses(c.Classes, c.Controllers.ClusterID, field.NewPath("classes"))...)
	faults = append(faults, validateControllers(c.Controllers, field.NewPath("controllers"))...)
	faults = append(faults, validateClusterCache(c.ClusterCache, field.NewPath("clusterCache"))...)
	faults = append(faults, validateMonitorPeriod(c)...)
	faults = append(faults, validateSourceIdentity(c, field.NewPath("sourceIdentity"))...)
	return faults
}

func validateTypeMeta(meta metav1.TypeMeta) field.ErrorList {
	var faults field.ErrorList
	path := field.NewPath("apiVersion")
	switch {
	case meta.APIVersion == "":
		faults = append(faults, field.Required(path, "must be "+APIVersion))
	case strings.HasPrefix(meta.APIVersion, "resourcemanager.config.gardener.cloud/"):
		faults = append(faults, field.Invalid(path, meta.APIVersion,
			"this is a configuration of gardener-resource-manager; the hub's has the apiVersion "+APIVersion+" and its own list of classes"))
	default:
		faults = append(faults, validateOneOf(meta.APIVersion, path, APIVersion)...)
	}

	path = field.NewPath("kind")
	if meta.Kind == "" {
		return append(faults, field.Required(path, "must be "+Kind))
	}
	return append(faults, validateOneOf(meta.Kind, path, Kind)...)
}

func validateSourceClientConnection(c SourceClientConnection, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if !isFinite(c.QPS) {
		faults = append(faults, field.Invalid(path.Child("qps"), fmt.Sprint(c.QPS), "must be a number"))
	}
	if c.Burst < 0 {
		faults = append(faults, field.Invalid(path.Child("burst"), c.Burst, "must not be negative"))
	}
	return faults
}

func validateTargetClientConnection(c TargetClientConnection, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if c.QPS <= 0 || !isFinite(c.QPS) {
		faults = append(faults, field.Invalid(path.Child("qps"), fmt.Sprint(c.QPS),
			"must be more than 0; a target is never called without a limit"))
	}
	faults = append(faults, validateAtLeast(int64(c.Burst), 1, path.Child("burst"))...)
	faults = append(faults, validateAtLeast(int64(c.MaxInFlight), 1, path.Child("maxInFlight"))...)
	faults = append(faults, validatePositive(c.Timeout, path.Child("timeout"))...)
	return faults
}

func validateLeaderElection(l LeaderElection, path *field.Path) field.ErrorList {
	if !l.Enabled() {
		return nil
	}

	var faults field.ErrorList
	faults = append(faults, validatePositive(l.LeaseDuration, path.Child("leaseDuration"))...)
	faults = append(faults, validatePositive(l.RenewDeadline, path.Child("renewDeadline"))...)
	faults = append(faults, validatePositive(l.RetryPeriod, path.Child("retryPeriod"))...)
	if l.LeaseDuration.Duration%time.Second != 0 {
		faults = append(faults, field.Invalid(path.Child("leaseDuration"), l.LeaseDuration.Duration.String(),
			"must be whole seconds, because a Lease cannot say less"))
	}
	if l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		faults = append(faults, field.Invalid(path.Child("leaseDuration"), l.LeaseDuration.Duration.String(),
			fmt.Sprintf("must be more than renewDeadline (%s), or two replicas could lead at a time", l.RenewDeadline.Duration)))
	}
	// client-go wants the deadline to leave room for the jitter of the retries, whose factor is 1.2.
	if l.RenewDeadline.Duration-l.RetryPeriod.Duration <= l.RetryPeriod.Duration/5 {
		faults = append(faults, field.Invalid(path.Child("renewDeadline"), l.RenewDeadline.Duration.String(),
			fmt.Sprintf("must be more than 1.2 times retryPeriod (%s)", l.RetryPeriod.Duration)))
	}
	faults = append(faults, validateOneOf(l.ResourceLock, path.Child("resourceLock"), "leases")...)
	faults = append(faults, validateName(l.ResourceName, path.Child("resourceName"), validation.IsDNS1123Subdomain)...)
	faults = append(faults, validateName(l.ResourceNamespace, path.Child("resourceNamespace"),
		validation.IsDNS1123Label)...)
	return faults
}

func validateServer(s Server, path *field.Path) field.ErrorList {
	faults := validateEndpoint(s.HealthProbes, path.Child("healthProbes"))
	faults = append(faults, validateEndpoint(s.Metrics, path.Child("metrics"))...)
	if s.HealthProbes.Port == s.Metrics.Port {
		faults = append(faults, field.Invalid(path.Child("metrics", "port"), s.Metrics.Port,
			"must differ from server.healthProbes.port"))
	}
	if a := s.MetricsAuthentication; a.CertificateDirectory != "" && !a.Enabled {
		faults = append(faults, field.Invalid(path.Child("metricsAuthentication", "certificateDirectory"),
			a.CertificateDirectory, "it is only used with enabled: true"))
	}
	return faults
}

func validateEndpoint(e Endpoint, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if e.BindAddress != "" && net.ParseIP(e.BindAddress) == nil {
		faults = append(faults, field.Invalid(path.Child("bindAddress"), e.BindAddress, "must be an IP address"))
	}
	if e.Port < 1 || e.Port > math.MaxUint16 {
		faults = append(faults, field.Invalid(path.Child("port"), e.Port, "must be between 1 and 65535"))
	}
	return faults
}

func validateClasses(classes []Class, inherited *string, path *field.Path) field.ErrorList {
	if len(classes) == 0 {
		return field.ErrorList{field.Required(path,
			`at least one class is needed, such as {name: "", target: {type: Namespace}}`)}
	}

	var faults field.ErrorList
	names := sets.New[string]()
	for i, class := range classes {
		path := path.Index(i)
		if names.Has(class.Name) {
			faults = append(faults, field.Duplicate(path.Child("name"), class.Name))
		}
		names.Insert(class.Name)
		faults = append(faults, validateClassName(class.Name, path.Child("name"))...)
		faults = append(faults, validateClassTarget(class, path)...)
		faults = append(faults, validateAtLeast(int64(class.ConcurrentSyncs), 1, path.Child("concurrentSyncs"))...)
		if class.ClusterID != nil && !ptr.Equal(class.ClusterID, inherited) {
			faults = append(faults, validateClusterID(*class.ClusterID, path.Child("clusterID"))...)
		}
		faults = append(faults, validateTargetControllers(class, path.Child("controllers"))...)
		faults = append(faults, validateTargetWebhooks(class, path.Child("webhooks"))...)
		faults = append(faults, validateWhatWorks(class, classes[:i], path)...)
	}
	return faults
}

// sourceControllerFaults rejects controllers that have nothing to do in the source: it has no home namespace.
func sourceControllerFaults(c hubv1alpha1.TargetControllers, path *field.Path) (faults field.ErrorList) {
	if c.TokenRequestor != nil && ptr.Deref(c.TokenRequestor.Enabled, false) {
		faults = append(faults, field.Forbidden(path.Child("tokenRequestor"),
			"tokens are requested of targets with a registration"))
	}
	if a := c.CSRApprover; a != nil && ptr.Deref(a.Enabled, false) && !ptr.Deref(a.WithoutMachines, false) {
		faults = append(faults, field.Required(path.Child("csrApprover", "withoutMachines"),
			"the source has no home namespace with Machines"))
	}
	return faults
}

// validateTargetControllers rejects controllers of a class that would never work.
func validateTargetControllers(class Class, path *field.Path) field.ErrorList {
	if len(class.Controllers.Enabled()) == 0 {
		return nil
	}
	faults := class.Controllers.Faults(class.Target.Namespace, path)
	approver := class.Controllers.CSRApprover
	if approver != nil && ptr.Deref(approver.MachineNamespace, "") != "" && class.Target.Type == TargetNamespace {
		faults = append(faults, field.Forbidden(path.Child("csrApprover", "machineNamespace"), ofRegistrations))
	}
	if class.Target.Type == TargetSource {
		faults = append(faults, sourceControllerFaults(class.Controllers, path)...)
	}
	return faults
}

// validateTargetWebhooks rejects webhooks of a class that would never work.
func validateTargetWebhooks(class Class, path *field.Path) field.ErrorList {
	faults := class.Webhooks.Faults(class.Target.Namespace, path)
	authorizer := class.Webhooks.NodeAgentAuthorizer
	if authorizer == nil || !authorizer.IsEnabled() {
		return faults
	}
	path = path.Child("nodeAgentAuthorizer")
	if class.Target.Type == TargetNamespace && ptr.Deref(authorizer.MachineNamespace, "") != "" {
		faults = append(faults, field.Forbidden(path.Child("machineNamespace"), ofRegistrations))
	}
	if class.Target.Type == TargetSource && !ptr.Deref(authorizer.WithoutMachines, false) {
		faults = append(faults, field.Required(path.Child("withoutMachines"),
			"the source has no home namespace with Machines"))
	}
	return faults
}

// ofRegistrations is about Machines that cannot be in one namespace.
const ofRegistrations = "the Machines of each target of this class are in the namespace of its registration"

// validateWhatWorks rejects controllers and webhooks of a class that nothing can come of, or that two classes have in
// one target.
func validateWhatWorks(class Class, before []Class, path *field.Path) (faults field.ErrorList) {
	if !class.Works() {
		return nil
	}
	first, what := path.Child("webhooks"), class.Webhooks.Enabled()
	if enabled := class.Controllers.Enabled(); len(enabled) > 0 {
		first, what = path.Child("controllers"), enabled
	}
	if class.DryRun {
		faults = append(faults, field.Forbidden(first.Child(what[0]), "with dryRun, nothing is written to targets"))
	}
	shared := func(other Class) bool { return other.Target == class.Target && other.Works() }
	if class.Target.Type != TargetNamespace && slices.ContainsFunc(before, shared) {
		faults = append(faults, field.Forbidden(first.Child(what[0]),
			"another class has controllers or webhooks in the same target; one class has to have all of them"))
	}
	return faults
}

func validateClassName(name string, path *field.Path) field.ErrorList {
	switch name {
	case resourcesv1alpha1.DefaultClassName:
		return field.ErrorList{field.Invalid(path, name,
			`this is gardener-resource-manager's name of the default class; write ""`)}
	case resourcesv1alpha1.AllClasses:
		return field.ErrorList{field.Invalid(path, name, "a hub has no class for all classes; list each one")}
	}

	var faults field.ErrorList
	for _, problem := range validation.IsValidLabelValue(name) {
		faults = append(faults, field.Invalid(path, name, problem))
	}
	if len(faults) > 0 {
		return faults
	}
	for _, problem := range validation.IsQualifiedName(resourcesv1alpha1.Finalizer(name)) {
		faults = append(faults, field.Invalid(path, name,
			"the finalizer "+resourcesv1alpha1.Finalizer(name)+" would not be valid: "+problem))
	}
	return faults
}

func validateClassTarget(class Class, path *field.Path) field.ErrorList {
	var (
		faults     field.ErrorList
		target     = class.Target
		targetPath = path.Child("target")
	)

	if target.Type == "" {
		faults = append(faults, field.Required(targetPath.Child("type"), "must be Namespace, Source or Registration"))
	} else {
		faults = append(faults, validateOneOf(target.Type, targetPath.Child("type"), TargetNamespace, TargetSource,
			TargetRegistration)...)
	}

	if target.Type == TargetRegistration {
		faults = append(faults, validateName(target.Namespace, targetPath.Child("namespace"), validation.IsDNS1123Label)...)
		faults = append(faults, validateName(target.Name, targetPath.Child("name"), validation.IsDNS1123Subdomain)...)
	} else {
		if target.Namespace != "" {
			faults = append(faults, field.Forbidden(targetPath.Child("namespace"), "only allowed for the type Registration"))
		}
		if target.Name != "" {
			faults = append(faults, field.Forbidden(targetPath.Child("name"), "only allowed for the type Registration"))
		}
	}

	selectorPath := path.Child("namespaceSelector")
	if class.NamespaceSelector == nil {
		if target.Type == TargetSource || target.Type == TargetRegistration {
			faults = append(faults, field.Required(selectorPath,
				fmt.Sprintf("the target type %s needs it: it says whose ManagedResources may be applied there", target.Type)))
		}
		return faults
	}
	return append(faults, metav1validation.ValidateLabelSelector(class.NamespaceSelector,
		metav1validation.LabelSelectorValidationOptions{}, selectorPath)...)
}

func validateControllers(c Controllers, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if c.ClusterID != nil {
		faults = append(faults, validateClusterID(*c.ClusterID, path.Child("clusterID"))...)
	}

	mr, mrPath := c.ManagedResource, path.Child("managedResource")
	faults = append(faults, validateDurationAtLeast(mr.SyncPeriod, minManagedResourceSyncPeriod,
		mrPath.Child("syncPeriod"))...)
	for _, problem := range validation.IsValidLabelValue(mr.ManagedByLabelValue) {
		faults = append(faults, field.Invalid(mrPath.Child("managedByLabelValue"), mr.ManagedByLabelValue, problem))
	}
	faults = append(faults, validateAtLeast(int64(mr.MaxConcurrentObjects), 1, mrPath.Child("maxConcurrentObjects"))...)

	tc, tcPath := c.TargetCluster, path.Child("targetCluster")
	faults = append(faults, validateAtLeast(int64(tc.ConcurrentSyncs), 1, tcPath.Child("concurrentSyncs"))...)
	faults = append(faults, validateDurationAtLeast(tc.SyncPeriod, minTargetClusterSyncPeriod,
		tcPath.Child("syncPeriod"))...)
	faults = append(faults, validateCare(c.Care, path.Child("care"))...)
	return append(faults, validateHeartbeat(c.Heartbeat, path.Child("heartbeat"))...)
}

// withoutThreshold are the conditions that change immediately.
var withoutThreshold = sets.New(hubv1alpha1.ConditionReady, hubv1alpha1.ConditionConnected,
	hubv1alpha1.ConditionCredentialsValid, hubv1alpha1.ConditionHubReady, hubv1alpha1.ConditionDuplicateRegistration)

func validateCare(c Care, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	seen := sets.New[string]()
	for i, threshold := range c.ConditionThresholds {
		path := path.Child("conditionThresholds").Index(i)
		switch {
		case threshold.Type == "":
			faults = append(faults, field.Required(path.Child("type"), "the type of a condition"))
		case withoutThreshold.Has(threshold.Type):
			faults = append(faults, field.Invalid(path.Child("type"), threshold.Type,
				"this condition has no threshold, it changes at once"))
		case seen.Has(threshold.Type):
			faults = append(faults, field.Duplicate(path.Child("type"), threshold.Type))
		default:
			for _, problem := range validation.IsValidLabelValue(threshold.Type) {
				faults = append(faults, field.Invalid(path.Child("type"), threshold.Type, problem))
			}
		}
		seen.Insert(threshold.Type)
		faults = append(faults, validateDurationAtLeast(threshold.Duration, 0, path.Child("duration"))...)
	}
	return append(faults, validateDurationAtLeast(c.ManagedResourceProgressingThreshold, 0,
		path.Child("managedResourceProgressingThreshold"))...)
}

// validateHeartbeat ensures that a slightly late renewal does not count as a missing one.
func validateHeartbeat(h Heartbeat, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	faults = append(faults, validateDurationAtLeast(h.RenewInterval, minRenewInterval, path.Child("renewInterval"))...)
	if h.MonitorPeriod.Duration < 2*h.RenewInterval.Duration {
		faults = append(faults, field.Invalid(path.Child("monitorPeriod"), h.MonitorPeriod.Duration.String(),
			fmt.Sprintf("must be at least twice renewInterval (%s)", h.RenewInterval.Duration)))
	}
	faults = append(faults, validatePositive(h.TargetMonitorPeriod, path.Child("targetMonitorPeriod"))...)
	return append(faults, validateDurationAtLeast(h.LivenessStuckAfter, minLivenessStuckAfter,
		path.Child("livenessStuckAfter"))...)
}

// validateMonitorPeriod ensures that a hub that waits for its next probe does not count as one that does not work.
func validateMonitorPeriod(c *HubConfiguration) field.ErrorList {
	interval, timeout, monitor := c.ClusterCache.ProbeInterval.Duration, c.ClusterCache.ProbeTimeout.Duration,
		c.Controllers.Heartbeat.MonitorPeriod.Duration
	if least := 2*interval + timeout; interval > 0 && timeout > 0 && monitor < least {
		return field.ErrorList{field.Invalid(field.NewPath("controllers", "heartbeat", "monitorPeriod"), monitor.String(),
			fmt.Sprintf("must be at least twice clusterCache.probeInterval and clusterCache.probeTimeout together (%s), since probes are the signs of life", least))}
	}
	return nil
}

// validateClusterID rejects ":", which ends the cluster ID in an origin.
func validateClusterID(id string, path *field.Path) field.ErrorList {
	switch {
	case strings.Contains(id, ":"):
		return field.ErrorList{field.Invalid(path, id, `must not contain ":"`)}
	case strings.HasPrefix(id, "<"):
		return validateOneOf(id, path, ClusterIDFromCluster, ClusterIDDefault)
	default:
		return nil
	}
}

func validateClusterCache(c ClusterCache, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	faults = append(faults, validatePositive(c.ProbeInterval, path.Child("probeInterval"))...)
	faults = append(faults, validatePositive(c.ProbeTimeout, path.Child("probeTimeout"))...)
	if c.ProbeTimeout.Duration > c.ProbeInterval.Duration {
		faults = append(faults, field.Invalid(path.Child("probeTimeout"), c.ProbeTimeout.Duration.String(),
			fmt.Sprintf("must not be more than probeInterval (%s)", c.ProbeInterval.Duration)))
	}
	faults = append(faults, validateAtLeast(int64(c.FailureThreshold), 1, path.Child("failureThreshold"))...)
	faults = append(faults, validateAtLeast(int64(c.ConnectConcurrency), 1, path.Child("connectConcurrency"))...)
	faults = append(faults, validatePositive(c.DisconnectGrace, path.Child("disconnectGrace"))...)
	faults = append(faults, validateAtLeast(int64(c.MassDisconnectPercent), 1, path.Child("massDisconnectPercent"))...)
	if c.MassDisconnectPercent > 100 {
		faults = append(faults, field.Invalid(path.Child("massDisconnectPercent"), c.MassDisconnectPercent,
			"must not be more than 100"))
	}
	faults = append(faults, validatePositive(c.MassDisconnectLimit, path.Child("massDisconnectLimit"))...)
	faults = append(faults, validateAtLeast(int64(c.MaxObjectsPerTarget), 1, path.Child("maxObjectsPerTarget"))...)
	faults = append(faults,
		validateAtLeast(int64(c.MaxRegistrationsPerNamespace), 1, path.Child("maxRegistrationsPerNamespace"))...)
	faults = append(faults, metav1validation.ValidateLabelSelector(c.RegistrationSelector,
		metav1validation.LabelSelectorValidationOptions{}, path.Child("registrationSelector"))...)
	faults = append(faults, validatePositive(c.DrainTimeout, path.Child("drainTimeout"))...)
	for i, proxy := range c.AllowedProxyURLs {
		faults = append(faults, validateProxyURL(proxy, path.Child("allowedProxyURLs").Index(i))...)
	}
	for i, network := range c.AllowedNetworks {
		if _, err := addresses.ParseNetwork(network); err != nil {
			faults = append(faults, field.Invalid(path.Child("allowedNetworks").Index(i), network, err.Error()))
		}
	}
	return faults
}

// validateProxyURL never repeats the URL, because it may contain a password.
func validateProxyURL(proxy string, path *field.Path) field.ErrorList {
	const hidden = "(not shown)"
	parsed, err := url.Parse(proxy)
	if err != nil || parsed.Host == "" {
		return field.ErrorList{field.Invalid(path, hidden, "must be a URL such as http://proxy.example.com:3128")}
	}
	if !slices.Contains([]string{"http", "https", "socks5"}, parsed.Scheme) {
		return field.ErrorList{field.Invalid(path, hidden, "must begin with http://, https:// or socks5://")}
	}
	return nil
}

func validateSourceIdentity(c *HubConfiguration, path *field.Path) field.ErrorList {
	if c.SourceIdentity == nil {
		isSource := func(class Class) bool { return class.Target.Type == TargetSource }
		if slices.ContainsFunc(c.Classes, isSource) {
			return field.ErrorList{field.Required(path,
				"a class has the target type Source, which is never served with the hub's own rights")}
		}
		return nil
	}
	path = path.Child("serviceAccount")
	faults := validateName(c.SourceIdentity.ServiceAccount.Namespace, path.Child("namespace"), validation.IsDNS1123Label)
	return append(faults, validateName(c.SourceIdentity.ServiceAccount.Name, path.Child("name"),
		validation.IsDNS1123Subdomain)...)
}

func validateName(name string, path *field.Path, check func(string) []string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var faults field.ErrorList
	for _, problem := range check(name) {
		faults = append(faults, field.Invalid(path, name, problem))
	}
	return faults
}

func validateOneOf[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func validateAtLeast(value, least int64, path *field.Path) field.ErrorList {
	if value >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be at least %d", least))}
}

func validateDurationAtLeast(value metav1.Duration, least time.Duration, path *field.Path) field.ErrorList {
	if value.Duration >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), "must be at least "+least.String())}
}

func validatePositive(value metav1.Duration, path *field.Path) field.ErrorList {
	if value.Duration > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), "must be more than 0s")}
}

func isFinite(f float32) bool {
	return !math.IsInf(float64(f), 0) && !math.IsNaN(float64(f))
}
