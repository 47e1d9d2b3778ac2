package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/apis/references"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/diagnosis"
	"github.com/trellis-hub/trellis/controllers/criticalcomponents"
	"github.com/trellis-hub/trellis/controllers/csrapprover"
	"github.com/trellis-hub/trellis/controllers/garbagecollector"
	"github.com/trellis-hub/trellis/controllers/networkpolicy"
	"github.com/trellis-hub/trellis/controllers/tokenrequestor"
)

// Reasons of causes that are about controllers. Others are those of events and conditions that the hub writes.
const (
	ReasonNoAccessSecret  = "NoAccessSecret"
	ReasonOtherClass      = "OtherClass"
	ReasonOtherTarget     = "OtherTarget"
	ReasonTokenDue        = "TokenDue"
	ReasonNotApproved     = "NotApproved"
	ReasonNotDecided      = "NotDecided"
	ReasonLeftToOthers    = "LeftToOthers"
	ReasonNotIssued       = "NotIssued"
	ReasonUnusable        = "CertificateSigningRequestUnusable"
	ReasonTaintStays      = "TaintStays"
	ReasonPoliciesDiffer  = "NetworkPoliciesDiffer"
	ReasonGarbageStays    = "GarbageStays"
	shownPolicies         = 5
	rounded               = time.Second
	tokenRequestorKey     = "tokenRequestor"
	csrApproverKey        = "csrApprover"
	criticalComponentsKey = "nodeCriticalComponents"
	networkPolicyKey      = "networkPolicy"
	garbageCollectorKey   = "garbageCollector"
)

// controllers are what explains the kinds that controllers in targets work on.
var controllers = map[cli.Kind]func(context.Context, *inquiry) error{
	cli.KindAccess: access, cli.KindCSR: csr, cli.KindNode: node, cli.KindService: service,
	cli.KindConfigMap: garbage(references.KindConfigMap), cli.KindSecret: garbage(references.KindSecret),
}

// access explains a Secret that asks for access to a target.
func access(ctx context.Context, i *inquiry) error {
	secret, err := i.accessSecret(ctx)
	if err != nil {
		return err
	}
	i.warned(ctx, i.source, "Secret", secret.Namespace, secret)
	if secret.Labels[tokenrequestor.PurposeLabel] != tokenrequestor.Purpose {
		i.cause(ReasonNoAccessSecret, "It does not ask for access: its label %s is not %q.", tokenrequestor.PurposeLabel,
			tokenrequestor.Purpose)
		return nil
	}
	answer, err := tokenrequestor.Explain(ctx, tokenrequestor.Question{
		Secret: secret, Target: i.status, All: i.all, Client: i.target, Now: i.env.Clock.Now(),
		Settings: func(status clustercache.Status) (tokenrequestor.Settings, bool) {
			return tokenrequestor.SettingsOf(i.controllers(status).TokenRequestor)
		},
	})
	if err != nil {
		return err
	}
	if answer.ServiceAccount.Name != "" {
		i.detail("ServiceAccount", "%s", answer.ServiceAccount)
		i.detail("Lifetime", "%s", answer.Lifetime)
	}
	if answer.Into.Name != "" {
		i.detail("Token in", "Secret %s of the target", answer.Into)
	}
	i.moment("Token ends", answer.Expiry)
	i.moment("Renewal", answer.Due)
	switch {
	case answer.Off:
		i.off(tokenRequestorKey, "The token requestor")
	case answer.Irrelevant:
		i.cause(ReasonOtherClass, "The token requestor of target %s is for Secrets of another class: the label %s of "+
			"this one is %q.", i.Target, tokenrequestor.ClassLabel, secret.Labels[tokenrequestor.ClassLabel])
	case answer.Other:
		i.cause(ReasonOtherTarget, "Its label picks another target than %s.", i.Target)
	case answer.Reason != "":
		i.cause(answer.Reason, "%s", answer.Message)
	case answer.Renewal != "":
		i.cause(ReasonTokenDue, "The hub is to renew the token at once: %s.", answer.Renewal).Unblock =
			"If that stays so, the events of the Secret and the log of the hub say what the target answers."
	}
	return nil
}

// moment is a detail about a time; nothing if it is not known.
func (i *inquiry) moment(name string, at time.Time) {
	if at.IsZero() {
		return
	}
	now := i.env.Clock.Now()
	distance := "in " + at.Sub(now).Round(rounded).String()
	if !now.Before(at) {
		distance = now.Sub(at).Round(rounded).String() + " ago"
	}
	i.detail(name, "%s (%s)", at.UTC().Format(time.RFC3339), distance)
}

// csr explains a CertificateSigningRequest.
func csr(ctx context.Context, i *inquiry) error {
	request := &certificatesv1.CertificateSigningRequest{}
	if err := i.target.Get(ctx, i.subject.Key(), request); err != nil {
		return missing(err, "CertificateSigningRequest", i.Name)
	}
	i.detail("Signer", "%s", request.Spec.SignerName)
	i.detail("Requested by", "%s", request.Spec.Username)
	i.warned(ctx, i.source, "TargetCluster", i.cluster.Namespace, i.cluster)
	settings, on := csrapprover.SettingsOf(i.controllers(i.status).CSRApprover)
	if !on {
		i.off(csrApproverKey, "The approver of certificates")
		settings.WithoutMachines = true // it has to be one that can be used
	}
	judgement, err := csrapprover.Explain(ctx, settings, i.cluster.Namespace, i.source, i.target, request)
	switch {
	case csrapprover.IsUnusable(err):
		i.cause(ReasonUnusable, "%s", err)
		return nil
	case err != nil:
		return err
	}
	if judgement.Kind != "" {
		i.detail("Certificate", "%s", judgement.Kind)
	}
	if decided := judgement.Decided; decided != nil {
		i.decided(request, decided)
	}
	if on {
		i.judged(judgement)
	}
	return nil
}

// decided explains a request that is approved or denied.
func (i *inquiry) decided(
	request *certificatesv1.CertificateSigningRequest, by *certificatesv1.CertificateSigningRequestCondition,
) {
	i.Cause = nil
	i.detail("Decision", "%s (%s): %s", by.Type, by.Reason, by.Message)
	switch {
	case by.Type == certificatesv1.CertificateDenied:
		cause := i.cause(by.Reason, "%s", by.Message)
		cause.Since = diagnosis.Since(by.LastUpdateTime)
		cause.Unblock = "A denial is final. Correct what it names; the client has to send another request."
	case len(request.Status.Certificate) == 0:
		i.cause(ReasonNotIssued, "It is approved, and its signer has not issued the certificate.").Unblock =
			"See the signer: for those of Kubernetes, the kube-controller-manager of the target."
	}
}

// judged explains what the approver would decide now.
func (i *inquiry) judged(j *csrapprover.Judgement) {
	now := ""
	switch {
	case !j.Ours:
		now = "it is left to others"
	case j.Approved:
		now = "it would be approved"
	case j.Denied:
		now = "it would be denied: " + j.Check
	}
	i.detail("Now", "%s", now)
	if j.Decided != nil {
		return
	}
	switch {
	case !j.Ours:
		i.cause(ReasonLeftToOthers, "The hub leaves it to others: it is neither for the server certificate of a kubelet nor "+
			"for the client certificate of a node agent.")
	case j.Approved:
		i.cause(ReasonNotDecided, "All checks pass, and the hub has not approved it yet.").Unblock =
			"Wait a moment. If that stays so, see the log of the hub."
	case j.Missing && i.env.Clock.Now().Before(j.Until):
		until := j.Until.UTC().Format(time.RFC3339)
		i.cause(ReasonNotApproved, "What is missing may still come until %s: %s.", until, j.Check)
	default:
		i.cause(ReasonNotApproved, "The hub is about to deny it: %s.", j.Check)
	}
}

// node explains the taint of critical components.
func node(ctx context.Context, i *inquiry) error {
	found := &corev1.Node{}
	if err := i.target.Get(ctx, i.subject.Key(), found); err != nil {
		return missing(err, "Node", i.Name)
	}
	if !criticalcomponents.Waits(found) {
		i.detail("Taint", "it does not have that of critical components")
		return nil
	}
	i.warned(ctx, i.target, "Node", metav1.NamespaceDefault, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: found.Name}})
	reason, note, err := criticalcomponents.Explain(ctx, i.target, found)
	if err != nil {
		return err
	}
	if note == "" {
		note = "All critical components are ready."
	}
	i.detail("Components", "%s", note)
	settings, on := criticalcomponents.SettingsOf(i.controllers(i.status).NodeCriticalComponents)
	switch {
	case !on:
		i.off(criticalComponentsKey, "The controller of critical components")
	case reason != "":
		i.cause(reason, "It has the taint of critical components. %s", note)
	default:
		i.cause(ReasonTaintStays, "All critical components are ready, and the taint is still there. The hub looks again %s "+
			"after it has looked.", settings.Backoff).Unblock = "Wait a moment. If that stays so, see the log of the hub."
	}
	return nil
}

// service explains the network policies of a Service.
func service(ctx context.Context, i *inquiry) error {
	settings, on := networkpolicy.SettingsOf(i.controllers(i.status).NetworkPolicy)
	found := &corev1.Service{}
	if err := i.target.Get(ctx, i.subject.Key(), found); err != nil {
		return missing(err, "Service", i.subject.Name)
	}
	if !on {
		i.off(networkPolicyKey, "The controller of network policies")
		return nil
	}
	state, err := networkpolicy.Explain(ctx, i.target, i.status, settings, i.subject.Key())
	if err != nil {
		return missing(err, "Service", i.subject.Name)
	}
	i.warned(ctx, i.target, "Service", found.Namespace, found)
	if state.Idle != "" {
		i.detail("Policies", "none: %s", state.Idle)
	} else {
		i.detail("Policies", "%s", named(state.Wanted))
	}
	if len(state.Shortened) > 0 {
		i.detail("Labels", "clients need these, since longer ones are none: %s", strings.Join(state.Shortened, ", "))
	}
	switch {
	case state.Reason != "":
		i.cause(state.Reason, "%s", state.Message)
	case !state.Settled():
		var parts []string
		for what, list := range map[string][]types.NamespacedName{
			"missing": state.Missing, "other than they should be": state.Different, "too many": state.Surplus,
		} {
			if len(list) > 0 {
				parts = append(parts, what+": "+named(list))
			}
		}
		slices.Sort(parts)
		i.cause(ReasonPoliciesDiffer, "Its policies are not as they should be; %s.", strings.Join(parts, "; ")).Unblock =
			"Wait a moment. If that stays so, the log of the hub says what the target answers."
	}
	return nil
}

// named names the first ones.
func named(list []types.NamespacedName) string {
	var names []string
	for _, name := range list[:min(len(list), shownPolicies)] {
		names = append(names, name.String())
	}
	if more := len(list) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// garbage explains a ConfigMap or a Secret that may be garbage.
func garbage(kind string) func(context.Context, *inquiry) error {
	return func(ctx context.Context, i *inquiry) error {
		state, err := garbagecollector.Explain(
			ctx, i.target, kind, i.subject.Key(), garbagecollector.DefaultMinimumLifetime, i.env.Clock)
		if err != nil {
			return missing(err, kindNames[i.subject.Kind], i.subject.Name)
		}
		if !state.Labelled {
			i.detail("Collection", "never: it does not have the label %s=%s", references.Label, references.LabelValue)
			return nil
		}
		var users []string
		for _, user := range state.Users {
			users = append(users, user.Kind.String()+" "+user.Name)
		}
		if state.More > 0 {
			users = append(users, fmt.Sprintf("and %d more", state.More))
		}
		settings, on := garbagecollector.SettingsOf(i.controllers(i.status).GarbageCollector)
		switch {
		case len(users) > 0:
			i.detail("Used by", "%s", strings.Join(users, ", "))
			i.detail("Collection", "not while it is used")
		case state.Deleting:
			i.detail("Collection", "it is being deleted")
		case !on:
			i.off(garbageCollectorKey, "The garbage collector")
			i.detail("Used by", "nothing")
		case !state.Garbage:
			i.detail("Used by", "nothing")
			i.moment("Collection", state.From)
		default:
			i.detail("Used by", "nothing")
			i.moment("Collectable", state.From)
			i.detail("Collection", "by the next pass; there is one every %s", settings.SyncPeriod)
			if late := state.From.Add(2 * settings.SyncPeriod); i.env.Clock.Now().After(late) {
				i.warned(ctx, i.source, "TargetCluster", i.cluster.Namespace, i.cluster)
				i.cause(ReasonGarbageStays, "Nothing refers to it now, and it has not been collected. If nothing has for more "+
					"than %s, passes fail.", settings.SyncPeriod).Unblock = fmt.Sprintf(
					"The events of the TargetCluster say why: trellisctl -n %s events cluster %s", i.cluster.Namespace, i.cluster.Name)
			}
		}
		return nil
	}
}
