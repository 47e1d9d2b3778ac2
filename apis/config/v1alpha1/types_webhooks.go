package v1alpha1

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WebhookServer serves webhooks to the API servers of targets. What it serves for a target, its class says. All
// replicas do, whether they lead or not.
type WebhookServer struct {
	// Enabled has the hub listen. Default: false. Switch off the webhooks of all classes and TargetClusters first, and
	// wait until no TargetCluster has the condition WebhooksRegistered any longer.
	Enabled bool `json:"enabled,omitempty"`
	// Endpoint is what is listened on. Default port: 10250.
	Endpoint `json:",inline"`
	// ClientConfig is how API servers of targets reach the hub.
	ClientConfig WebhookClientConfig `json:"clientConfig,omitempty"`
	// Certificates are about the certificate of the server.
	Certificates WebhookCertificates `json:"certificates,omitempty"`
	// ClientAuthorities are those of certificates by which API servers of targets prove which cluster they are of. The
	// authorizer of node agents answers no others.
	ClientAuthorities WebhookClientAuthorities `json:"clientAuthorities,omitempty"`
	// Limits bound what requests take.
	Limits WebhookLimits `json:"limits,omitempty"`
	// ShutdownNotice is for how long a hub that ends serves as before, so that everybody notices. Then it has ten
	// seconds for the last answers. Default: 10s.
	ShutdownNotice metav1.Duration `json:"shutdownNotice,omitempty"`
}

// WebhookClientConfig is how API servers of targets reach the hub. Either URL or Service is set.
type WebhookClientConfig struct {
	// URL is what the paths of webhooks are appended to. It has no path, query, fragment or user. If its host begins
	// with {target}, as in https://{target}.webhooks.example.org, each target has a name of its own, which has to agree
	// with the path. Default: the Service trellis-webhooks in the namespace of the hub, as
	// https://trellis-webhooks.<namespace>.svc, which API servers reach that run in the same cluster.
	URL string `json:"url,omitempty"`
	// Service is one in each target that leads to the hub.
	Service *WebhookService `json:"service,omitempty"`
}

// WebhookService names a Service of targets. Namespace and Name are required.
type WebhookService struct {
	// Namespace is that of the Service.
	Namespace string `json:"namespace"`
	// Name is that of the Service.
	Name string `json:"name"`
	// Port is that of the Service. Default: 443.
	Port int32 `json:"port,omitempty"`
}

// WebhookCertificates are about the certificate of the server, and what targets trust.
type WebhookCertificates struct {
	// SecretName is the Secret in which the hub keeps its certificate authority, the certificate of the server and the
	// key of the paths of targets. Default: leaderElection.resourceName, followed by "-webhooks".
	SecretName string `json:"secretName,omitempty"`
	// ExternalSecretName is a Secret of another program, such as cert-manager, with tls.crt, tls.key and ca.crt, which
	// are used instead. It is in the namespace of the hub. Default: none.
	ExternalSecretName string `json:"externalSecretName,omitempty"`
	// Validity is that of the hub's certificate authorities, RenewAfter the age at which there is the next one, and
	// Overlap for how long the former one is accepted, at least. Defaults: 720h, 480h and 24h.
	Validity   metav1.Duration `json:"validity,omitempty"`
	RenewAfter metav1.Duration `json:"renewAfter,omitempty"`
	Overlap    metav1.Duration `json:"overlap,omitempty"`
	// Names are more names and addresses in the certificate than that of clientConfig. Default: none.
	Names []string `json:"names,omitempty"`
}

// WebhookClientAuthorities are those of client certificates of API servers.
type WebhookClientAuthorities struct {
	// SecretName is a Secret of another owner in the namespace of the hub, with certificates of authorities in ca.crt.
	// A client with a certificate of one of them for client authentication, whose common name is the UID of a cluster
	// (that of its namespace kube-system), is the API server of that cluster to the hub. So they must sign nothing
	// else. It is read every ten seconds. Default: none.
	SecretName string `json:"secretName,omitempty"`
}

// WebhookLimits bound what requests take. A target that exceeds its limits gets 429, and its failure policies decide.
type WebhookLimits struct {
	// MaxInFlight is how many requests of all targets are worked on at a time. Default: 1000.
	MaxInFlight int `json:"maxInFlight,omitempty"`
	// MaxInFlightPerTarget is how many requests of a target are. Default: 50.
	MaxInFlightPerTarget int `json:"maxInFlightPerTarget,omitempty"`
	// QPSPerTarget is how many requests of a target are served in a second. Default: 200.
	QPSPerTarget float32 `json:"qpsPerTarget,omitempty"`
	// BurstPerTarget is how many may exceed that for a short time. Default: 400.
	BurstPerTarget int `json:"burstPerTarget,omitempty"`
}

// ServerNames are the names and addresses that the certificate has to have.
func (w *WebhookServer) ServerNames() (names []string) {
	if s := w.ClientConfig.Service; s != nil {
		names = append(names, s.Name+"."+s.Namespace+".svc")
	} else if u, err := w.ClientConfig.parse(); err == nil {
		name := u.Hostname()
		if w.ClientConfig.PerTarget() {
			_, rest, _ := strings.Cut(name, ".")
			name = "*." + rest
		}
		names = append(names, name)
	}
	return append(names, w.Certificates.Names...)
}

// perTarget stands for a label that each target has of its own.
const perTarget = "{target}"

// PerTarget reports whether each target calls the hub by a name of its own.
func (c WebhookClientConfig) PerTarget() bool { return strings.Contains(c.URL, perTarget) }

// ServerName is the name by which a target calls the hub that has a label of its own.
func (c WebhookClientConfig) ServerName(label string) string {
	if s := c.Service; s != nil {
		return s.Name + "." + s.Namespace + ".svc"
	}
	u, err := url.Parse(strings.Replace(c.URL, perTarget, label, 1))
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// parse parses the URL, with a name in the place of that of a target.
func (c WebhookClientConfig) parse() (*url.URL, error) {
	return url.Parse(strings.Replace(c.URL, perTarget, "target", 1)) //nolint:wrapcheck // the caller says what it was
}

// setWebhookDefaults sets the defaults of a server that is switched on.
func setWebhookDefaults(w *WebhookServer, l LeaderElection) {
	if !w.Enabled {
		return
	}
	setDefault(&w.Port, 10250)
	if w.ClientConfig.Service != nil {
		setDefault(&w.ClientConfig.Service.Port, 443)
	} else if l.ResourceNamespace != "" {
		setDefault(&w.ClientConfig.URL, "https://trellis-webhooks."+l.ResourceNamespace+".svc")
	}
	setDefault(&w.Certificates.SecretName, l.ResourceName+"-webhooks")
	setDuration(&w.Certificates.Validity, 30*24*time.Hour)
	setDuration(&w.Certificates.RenewAfter, 20*24*time.Hour)
	setDuration(&w.Certificates.Overlap, 24*time.Hour)
	setDefault(&w.Limits.MaxInFlight, 1000)
	setDefault(&w.Limits.MaxInFlightPerTarget, 50)
	setDefault(&w.Limits.QPSPerTarget, 200)
	setDefault(&w.Limits.BurstPerTarget, 400)
	setDuration(&w.ShutdownNotice, 10*time.Second)
}

func validateWebhookServer(w *WebhookServer, namespace string, path *field.Path) (faults field.ErrorList) {
	if !w.Enabled {
		return nil
	}
	if namespace == "" {
		faults = append(faults, field.Required(field.NewPath("leaderElection", "resourceNamespace"),
			"the Secret of the webhooks is in this namespace"))
	}
	faults = append(faults, validateEndpoint(w.Endpoint, path)...)
	faults = append(faults, validateClientConfig(w.ClientConfig, path.Child("clientConfig"))...)
	c, at := w.Certificates, path.Child("certificates")
	faults = append(faults, validateName(c.SecretName, at.Child("secretName"), validation.IsDNS1123Subdomain)...)
	if c.ExternalSecretName != "" {
		faults = append(faults,
			validateName(c.ExternalSecretName, at.Child("externalSecretName"), validation.IsDNS1123Subdomain)...)
		if c.ExternalSecretName == c.SecretName {
			faults = append(faults, field.Invalid(at.Child("externalSecretName"), c.ExternalSecretName,
				"must differ from secretName, which the hub writes"))
		}
	}
	if clients := w.ClientAuthorities.SecretName; clients != "" {
		at := path.Child("clientAuthorities", "secretName")
		faults = append(faults, validateName(clients, at, validation.IsDNS1123Subdomain)...)
		if clients == c.SecretName || clients == c.ExternalSecretName {
			faults = append(faults, field.Invalid(at, clients,
				"must differ from the Secrets of the server's certificates"))
		}
	}
	faults = append(faults, validatePositive(c.RenewAfter, at.Child("renewAfter"))...)
	faults = append(faults, validatePositive(c.Overlap, at.Child("overlap"))...)
	if c.Validity.Duration < c.RenewAfter.Duration+2*24*time.Hour {
		faults = append(faults, field.Invalid(at.Child("validity"), c.Validity.Duration.String(), fmt.Sprintf(
			"must be at least two days more than renewAfter (%s): targets that are away have to get the next authority",
			c.RenewAfter.Duration)))
	}
	limits := path.Child("limits")
	faults = append(faults, validateAtLeast(int64(w.Limits.MaxInFlight), 1, limits.Child("maxInFlight"))...)
	faults = append(faults,
		validateAtLeast(int64(w.Limits.MaxInFlightPerTarget), 1, limits.Child("maxInFlightPerTarget"))...)
	faults = append(faults, validateAtLeast(int64(w.Limits.BurstPerTarget), 1, limits.Child("burstPerTarget"))...)
	if w.Limits.QPSPerTarget <= 0 || !isFinite(w.Limits.QPSPerTarget) {
		faults = append(faults, field.Invalid(limits.Child("qpsPerTarget"), fmt.Sprint(w.Limits.QPSPerTarget),
			"must be more than 0"))
	}
	return append(faults, validatePositive(w.ShutdownNotice, path.Child("shutdownNotice"))...)
}

func validateClientConfig(c WebhookClientConfig, path *field.Path) (faults field.ErrorList) {
	if s := c.Service; s != nil {
		path := path.Child("service")
		faults = append(faults, validateName(s.Namespace, path.Child("namespace"), validation.IsDNS1123Label)...)
		faults = append(faults, validateName(s.Name, path.Child("name"), validation.IsDNS1035Label)...)
		if c.URL != "" {
			faults = append(faults, field.Forbidden(path, "only one of url and service can be set"))
		}
		return faults
	}
	path = path.Child("url")
	if c.URL == "" {
		return append(faults, field.Required(path, "how API servers of targets reach the hub"))
	}
	u, err := c.parse()
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(c.URL, "?#") {
		faults = append(faults, field.Invalid(path, c.URL, "must be as https://host:port, without user, query and fragment"))
	} else if strings.Trim(u.Path, "/") != "" {
		faults = append(faults, field.Invalid(path, c.URL, "must not have a path: the server looks at all of it"))
	} else if c.PerTarget() && !strings.HasPrefix(c.URL, "https://"+perTarget+".") {
		faults = append(faults, field.Invalid(path, c.URL, "{target} must be the first part of the name of the host"))
	}
	return faults
}
