package v1alpha1

// Types of constraints of a TargetCluster. True is the good status of all of them.
const (
	// ConstraintWebhooksUnproblematic reports whether no webhook of the target can stop what keeps it alive.
	ConstraintWebhooksUnproblematic = "WebhooksUnproblematic"
	// ConstraintCACertificateValiditiesAcceptable is there only if a certificate authority of the target expires within a
	// year.
	ConstraintCACertificateValiditiesAcceptable = "CACertificateValiditiesAcceptable"
	// ConstraintCRDsWithProblematicConversionWebhooks is there only if objects of a CustomResourceDefinition with a
	// conversion webhook may be stored in more than one version. It is False then, as all constraints are.
	ConstraintCRDsWithProblematicConversionWebhooks = "CRDsWithProblematicConversionWebhooks"
)

// Reasons of constraints. ReasonTargetUnreachable is one more.
const (
	// ReasonNoProblematicWebhooks (WebhooksUnproblematic).
	ReasonNoProblematicWebhooks = "NoProblematicWebhooks"
	// ReasonProblematicWebhooks (WebhooksUnproblematic): at least one can stop what keeps the target alive.
	ReasonProblematicWebhooks = "ProblematicWebhooks"
	// ReasonExpiringCACertificates (CACertificateValiditiesAcceptable): at least one expires within a year.
	ReasonExpiringCACertificates = "ExpiringCACertificates"
	// ReasonProblematicConversionWebhooks (CRDsWithProblematicConversionWebhooks).
	ReasonProblematicConversionWebhooks = "CRDsWithProblematicConversionWebhooks"
	// ReasonCheckFailed: what the constraint is about could not be read.
	ReasonCheckFailed = "CheckFailed"
)

// ErrorProblematicWebhook is the error code of Gardener for webhooks that do not follow the best practices of
// Kubernetes. The message of a constraint that is False for that begins with it.
const ErrorProblematicWebhook = "ERR_PROBLEMATIC_WEBHOOK"

// Keys on configurations of webhooks in targets. They are Gardener's.
const (
	// ExcludeWebhookLabel, "true" on a configuration of webhooks, confirms that its webhooks do no harm.
	ExcludeWebhookLabel = "remediation.webhook.shoot.gardener.cloud/exclude"
	// WarningAnnotation says what was changed on an object that is not managed.
	WarningAnnotation = "gardener.cloud/warning"
)
