package csrapprover

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
)

// Users and organizations of certificates, as Kubernetes and Gardener name them.
const (
	nodeUserPrefix      = "system:node:"
	nodesGroup          = "system:nodes"
	bootstrapUserPrefix = "system:bootstrap:"
	nodeAgentPrefix     = "gardener.cloud:node-agent:machine:"
	gardenadmPrefix     = "gardener.cloud:gardenadm:shoot:"
	shootsGroup         = "gardener.cloud:system:shoots"
	migrationUser       = "system:serviceaccount:kube-system:gardener-node-agent"
)

// Kinds of certificates, for messages.
const (
	kubeletKind   = "kubelet server certificate"
	nodeAgentKind = "gardener-node-agent certificate"
	gardenadmKind = "gardenadm certificate"
)

// machineNodeLabel is the label of a Machine that has the name of its Node.
const machineNodeLabel = "node"

var machineList = schema.GroupVersionKind{Group: "machine.sapcloud.io", Version: "v1alpha1", Kind: "MachineList"}

// outcome is what becomes of a request.
type outcome string

const (
	noOpinion outcome = "" // another approver may decide it
	approved  outcome = "approved"
	denied    outcome = "denied"
)

// decision is the result of judging a request.
type decision struct {
	outcome outcome
	kind    string // of the certificate
	check   string // which failed
	live    bool   // it depends on the Node or the Machines
	missing bool   // the Node or the Machine, or what it is known by, is not there, and may still come
}

// judge judges one request, by what the Node and the Machines are like at that moment.
type judge struct {
	Settings
	home    string        // the namespace of the Machines
	source  client.Reader // has the Machines
	target  client.Reader // has the Node
	spec    *certificatesv1.CertificateSigningRequestSpec
	request *x509.CertificateRequest
}

func (j *judge) judge(ctx context.Context) (decision, error) {
	name := j.request.Subject.CommonName
	var v decision
	var err error
	switch {
	case j.spec.SignerName == certificatesv1.KubeletServingSignerName:
		v, err = j.kubelet(ctx)
		v.kind = kubeletKind
	case strings.HasPrefix(name, nodeAgentPrefix):
		v, err = j.nodeAgent(ctx)
		v.kind = nodeAgentKind
	case strings.HasPrefix(name, gardenadmPrefix) && j.Gardenadm:
		v = j.gardenadm()
		v.kind = gardenadmKind
	}
	return v, err
}

func deny(format string, args ...any) decision {
	return decision{outcome: denied, check: fmt.Sprintf(format, args...)}
}

// denyNow is for what Node and Machines are like, denyLater for one that is missing.
func denyNow(format string, args ...any) decision {
	v := deny(format, args...)
	v.live = true
	return v
}

func denyLater(format string, args ...any) decision {
	v := denyNow(format, args...)
	v.missing = true
	return v
}

var approve = decision{outcome: approved}

// kubelet judges a request for the server certificate of a kubelet.
func (j *judge) kubelet(ctx context.Context) (decision, error) {
	user, subject := j.spec.Username, j.request.Subject
	switch {
	case !strings.HasPrefix(user, nodeUserPrefix):
		return deny("username %q does not begin with %q", untrusted.Name(user), nodeUserPrefix), nil
	case len(j.request.DNSNames)+len(j.request.IPAddresses) == 0:
		return deny("there are neither DNS names nor IP addresses among the subject alternative names"), nil
	case subject.CommonName != user:
		return deny("common name %q is not the username %q", untrusted.Name(subject.CommonName), untrusted.Name(user)), nil
	case !slices.Equal(subject.Organization, []string{nodesGroup}):
		return deny("the organization is not %q and nothing else", nodesGroup), nil
	}
	name := strings.TrimPrefix(user, nodeUserPrefix)
	if !isName(name) { // it will never be that of a Node
		return deny("%q is not the name of a Node", untrusted.Name(name)), nil
	}
	node, err := j.node(ctx, name)
	if err != nil {
		return decision{}, err
	}
	if node == nil {
		return denyLater("Node %q does not exist", name), nil
	}
	if v, err := j.kubeletMachine(ctx, name); err != nil || v.outcome == denied {
		return v, err
	}
	if v, err := j.addresses(node); err != nil || v.outcome == denied {
		return v, err
	}
	return j.strict(), nil
}

// kubeletMachine reports whether a node has exactly one Machine.
func (j *judge) kubeletMachine(ctx context.Context, node string) (decision, error) {
	if j.WithoutMachines {
		return approve, nil
	}
	if len(node) > utilvalidation.LabelValueMaxLength { // it will never be in a label
		return deny("no Machine can have the label %s=%s", machineNodeLabel, node), nil
	}
	machines, err := j.machines(ctx, client.MatchingLabels{machineNodeLabel: node})
	switch {
	case err != nil:
		return decision{}, err
	case len(machines) == 0:
		return denyLater("there is no Machine with the label %s=%s", machineNodeLabel, node), nil
	case len(machines) > 1:
		return denyNow("there is more than one Machine with the label %s=%s", machineNodeLabel, node), nil
	}
	return approve, nil
}

// addresses compares the alternative names with the addresses of the Node, as sets.
func (j *judge) addresses(node *corev1.Node) (decision, error) {
	if n := len(node.Status.Addresses); n > maxAddresses {
		return decision{}, unusable("Node %s has %d addresses, more than %d", node.Name, n, maxAddresses)
	}
	names, bad := sets.New[string](), ""
	ips := sets.New[netip.Addr]()
	for _, address := range node.Status.Addresses {
		switch address.Type {
		case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
			names.Insert(address.Address)
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			ip, err := netip.ParseAddr(address.Address)
			if err != nil || ip.Zone() != "" {
				bad = address.Address
				continue
			}
			ips.Insert(ip)
		}
	}
	wantedIPs := sets.New[netip.Addr]()
	for _, raw := range j.request.IPAddresses {
		ip, _ := netip.AddrFromSlice(raw) // one that is none equals no address
		wantedIPs.Insert(ip)
	}
	switch {
	case !names.Equal(sets.New(j.request.DNSNames...)):
		return denyNow("the DNS names are not those of Node %q", node.Name), nil
	case bad != "":
		return denyNow("Node %q has the address %q, which is not an IP address", node.Name, untrusted.Name(bad)), nil
	case !ips.Equal(wantedIPs):
		return denyNow("the IP addresses are not those of Node %q", node.Name), nil
	}
	return approve, nil
}

// strict reports whether a kubelet asks for no more than a server certificate.
func (j *judge) strict() decision {
	if !j.Strict {
		return approve
	}
	for _, usage := range j.spec.Usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth:
		default:
			return deny("usage %q is not one of a server certificate", untrusted.Name(string(usage)))
		}
	}
	if len(j.request.EmailAddresses)+len(j.request.URIs) > 0 {
		return deny("there are e-mail addresses or URIs among the subject alternative names")
	}
	return approve
}

// nodeAgent judges a request for the client certificate of a node agent.
func (j *judge) nodeAgent(ctx context.Context) (decision, error) {
	commonName, user := j.request.Subject.CommonName, j.spec.Username
	machine := strings.TrimPrefix(commonName, nodeAgentPrefix)
	if !isName(machine) { // it will never be that of a Machine
		return deny("%q is not the name of a Machine", untrusted.Name(machine)), nil
	}
	if orgs := len(j.request.Subject.Organization); j.Strict && orgs > 0 {
		return deny("a node agent is in no groups, but there are %d organizations", orgs), nil
	}
	node := machine
	if !j.WithoutMachines {
		machines, err := j.machines(ctx, client.MatchingFields{metav1.ObjectNameField: machine})
		if err != nil {
			return decision{}, err
		}
		if len(machines) == 0 {
			return denyLater("Machine %q does not exist", machine), nil
		}
		node = machines[0].Labels[machineNodeLabel]
	}
	switch {
	case strings.HasPrefix(user, bootstrapUserPrefix):
		return j.bootstrap(ctx, machine, node)
	case strings.HasPrefix(user, nodeAgentPrefix):
		if user != commonName {
			return deny("username %q is not the common name %q", untrusted.Name(user), untrusted.Name(commonName)), nil
		}
		return approve, nil
	case user == migrationUser && j.MigrationUser:
		if node == "" {
			return denyLater("Machine %q has no label %q", machine, machineNodeLabel), nil
		}
		return approve, nil
	}
	return deny("username %q may not ask for this certificate", untrusted.Name(user)), nil
}

// bootstrap judges the first request of a node agent, by a bootstrap token. That is of no use to machines that have
// joined the cluster.
func (j *judge) bootstrap(ctx context.Context, machine, name string) (decision, error) {
	if !isName(name) { // no Node has it
		return approve, nil
	}
	node, err := j.node(ctx, name)
	if err != nil {
		return decision{}, err
	}
	if node != nil {
		return denyNow("Machine %q has joined the cluster already, as Node %q", machine, name), nil
	}
	return approve, nil
}

// gardenadm judges a request for the client certificate of gardenadm.
func (j *judge) gardenadm() decision {
	switch user := j.spec.Username; {
	case !strings.HasPrefix(user, bootstrapUserPrefix):
		return deny("username %q does not begin with %q", untrusted.Name(user), bootstrapUserPrefix)
	case !slices.Equal(j.request.Subject.Organization, []string{shootsGroup}):
		return deny("the organization is not %q and nothing else", shootsGroup)
	}
	return approve
}

// node reads a Node of the target; nil if it does not exist.
func (j *judge) node(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := j.target.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if absent(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return node, nil
}

// machines returns up to two Machines of the home namespace. They are always listed: that the kind does not exist is an
// error then, while the answer to a GET could be taken for one about the Machine.
func (j *judge) machines(
	ctx context.Context, selector client.ListOption,
) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(machineList)
	if err := j.source.List(ctx, list, client.InNamespace(j.home), selector, client.Limit(2)); err != nil {
		return nil, fmt.Errorf("listing Machines in namespace %s: %w", j.home, err)
	}
	return list.Items, nil
}

// absent reports whether an API server said that an object does not exist. A proxy that finds no API server says "not
// found", too.
func absent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
