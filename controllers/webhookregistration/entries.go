package webhookregistration

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

const (
	// domain is that of the names of entries. ownPrefix is that of those for the hub's own user.
	domain    = ".webhooks.hub.gardener.cloud"
	ownPrefix = "hub-"
	// ownTimeout is how long the hub's own requests wait for a webhook, in seconds.
	ownTimeout = 2
	// probeTimeout is how long the probe does.
	probeTimeout = 5
	// probePath is what the review asks for that makes an API server call the hub.
	probePath = "/trellis-webhook-probe"
)

// Endpoint is where targets call the hub. One of both is set.
type Endpoint struct {
	// URL is what the paths of routes are appended to, as in https://trellis.garden.svc. "{target}" in its host stands
	// for a label that each target has of its own.
	URL string
	// Service is one in the targets. Its path is set for each.
	Service *admissionregistrationv1.ServiceReference
}

// to is how a target calls a route.
func (e Endpoint) to(route routes.Route, key, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: bundle}
	path := route.Path(key)
	if e.Service != nil {
		service := *e.Service
		service.Path, service.Port = &path, ptr.To(ptr.Deref(service.Port, 443))
		config.Service = &service
		return config
	}
	base := strings.ReplaceAll(e.URL, "{target}", routes.Label(route.Target, route.UID))
	config.URL = ptr.To(strings.TrimSuffix(base, "/") + path)
	return config
}

// pathsOf returns the paths of the webhooks that an entry is for.
func pathsOf(config *admissionregistrationv1.WebhookClientConfig) []string {
	path := ""
	if config.Service != nil {
		path = ptr.Deref(config.Service.Path, "")
	} else if parsed, err := url.Parse(ptr.Deref(config.URL, "")); err == nil {
		path = parsed.Path
	}
	return admission.PathsIn(routes.WebhookOf(path))
}

// registration is what the configurations of a target are made of.
type registration struct {
	endpoint Endpoint
	material *certificates.Material
	route    routes.Route // its Webhook and Ignored are set for each entry
	settings *hubv1alpha1.TargetWebhooks
	webhooks []admission.Webhook
	// user is that of the hub's own credential in the target.
	user string
	// all says whether the entries whose policy is Fail are there, too.
	all bool
}

// entry is what both kinds of configurations have of an entry.
type entry struct {
	admission.Entry
	config admissionregistrationv1.WebhookClientConfig
}

// entries returns those of mutating or of validating webhooks.
func (r *registration) entries(validating bool) (all []entry) {
	webhooks := r.webhooks
	if own := r.settings.Registration; own != nil && ptr.Deref(own.CombinePods, false) {
		webhooks = admission.Combined(webhooks, r.settings)
	}
	for i := range webhooks {
		webhook := &webhooks[i]
		if webhook.Validating != validating || !webhook.Enabled(r.settings) {
			continue
		}
		for _, e := range webhook.Entries(r.settings) {
			all = append(all, r.split(webhook.Path, e, !validating)...)
		}
	}
	return all
}

// split returns an entry as it is for others and for the hub itself.
func (r *registration) split(path string, e admission.Entry, mutating bool) []entry {
	e.Name += domain
	if mutating {
		e.ObjectSelector = admission.Excluding(e.ObjectSelector)
	}
	if e.FailurePolicy == admissionregistrationv1.Ignore {
		return []entry{{e, r.config(path, true)}}
	}
	own := e
	own.Name = ownPrefix + e.Name
	own.FailurePolicy = admissionregistrationv1.Ignore
	own.TimeoutSeconds = min(e.TimeoutSeconds, ownTimeout)
	own.MatchConditions = append([]admissionregistrationv1.MatchCondition{r.byHub("==")}, e.MatchConditions...)
	e.MatchConditions = append([]admissionregistrationv1.MatchCondition{r.byHub("!=")}, e.MatchConditions...)
	if !r.all {
		return []entry{{own, r.config(path, true)}}
	}
	return []entry{{e, r.config(path, false)}, {own, r.config(path, true)}}
}

func (r *registration) config(webhook string, ignored bool) admissionregistrationv1.WebhookClientConfig {
	route := r.route
	route.Webhook, route.Ignored = webhook, ignored
	return r.endpoint.to(route, r.material.Key, r.material.Bundle)
}

// byHub is a condition on who sends a request.
func (r *registration) byHub(operator string) admissionregistrationv1.MatchCondition {
	name := "not-by-the-hub"
	if operator == "==" {
		name = "by-the-hub"
	}
	return admissionregistrationv1.MatchCondition{
		Name: name, Expression: "request.userInfo.username " + operator + " " + literal(r.user),
	}
}

// literal is a string in CEL, whose escapes are those of JSON.
func literal(s string) string {
	encoded, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings can be encoded
	}
	return string(encoded)
}

// probe is the entry by which the hub finds out whether the target's API server can call it.
func (r *registration) probe() entry {
	return entry{admission.Entry{
		Name: "probe" + domain, FailurePolicy: admissionregistrationv1.Fail,
		MatchPolicy: admissionregistrationv1.Exact, TimeoutSeconds: probeTimeout,
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{"authorization.k8s.io"}, APIVersions: []string{"v1"},
				Resources: []string{"selfsubjectaccessreviews"},
			},
		}},
		MatchConditions: []admissionregistrationv1.MatchCondition{r.byHub("=="), {
			Name: "probe",
			Expression: fmt.Sprintf("has(object.spec.nonResourceAttributes) && "+
				"has(object.spec.nonResourceAttributes.path) && "+
				"object.spec.nonResourceAttributes.path == %q", probePath),
		}},
	}, r.config(server.ReachedPath, false)}
}

// reviewVersions are those that the server reads.
var reviewVersions = []string{"v1", "v1beta1"}

// mutating are the entries of the MutatingWebhookConfiguration.
func (r *registration) mutating() (webhooks []admissionregistrationv1.MutatingWebhook) {
	for _, e := range r.entries(false) {
		webhooks = append(webhooks, admissionregistrationv1.MutatingWebhook{
			Name: e.Name, ClientConfig: e.config, Rules: admission.Scoped(e.Rules), FailurePolicy: &e.FailurePolicy,
			MatchPolicy: &e.MatchPolicy, NamespaceSelector: &e.NamespaceSelector, ObjectSelector: &e.ObjectSelector,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: &e.TimeoutSeconds,
			AdmissionReviewVersions: reviewVersions, MatchConditions: e.MatchConditions,
			ReinvocationPolicy: ptr.To(admissionregistrationv1.NeverReinvocationPolicy),
		})
	}
	return webhooks
}

// validating are the entries of the ValidatingWebhookConfiguration.
func (r *registration) validating() (webhooks []admissionregistrationv1.ValidatingWebhook) {
	for _, e := range append([]entry{r.probe()}, r.entries(true)...) {
		webhooks = append(webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: e.Name, ClientConfig: e.config, Rules: admission.Scoped(e.Rules), FailurePolicy: &e.FailurePolicy,
			MatchPolicy: &e.MatchPolicy, NamespaceSelector: &e.NamespaceSelector, ObjectSelector: &e.ObjectSelector,
			SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: &e.TimeoutSeconds,
			AdmissionReviewVersions: reviewVersions, MatchConditions: e.MatchConditions,
		})
	}
	return webhooks
}
