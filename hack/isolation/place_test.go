package isolation_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/istioclusterconfig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// place is a target for all runs. What is in it differs from what has the same name in the other one by its number.
type place struct {
	*testbed.Cluster
	number int
	host   string
	// requests are the certificate signing requests of Nodes, by their numbers. Keys are made once, so that requests of
	// all runs are the same.
	requests map[int][]byte
}

func newPlace(cluster *testbed.Cluster, number int) (*place, error) {
	address, err := url.Parse(cluster.RESTConfig().Host)
	if err != nil {
		return nil, fmt.Errorf("address of %s: %w", cluster.Name, err)
	}
	return &place{Cluster: cluster, number: number, host: address.Host, requests: map[int][]byte{}}, nil
}

// addressOf is that of a Node, another one in each place.
func (p *place) addressOf(node int) string { return fmt.Sprintf("10.0.%d.%d", p.number, node) }

// request is a kubelet's for the certificate of its Node.
func (p *place) request(node int) ([]byte, error) {
	if made, is := p.requests[node]; is {
		return made, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: userOf(node), Organization: []string{"system:nodes"}},
		IPAddresses: []net.IP{net.ParseIP(p.addressOf(node))},
	}, key)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	p.requests[node] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return p.requests[node], nil
}

// as is a client that acts for a user.
func (p *place) as(user string) (client.Client, error) {
	config := rest.CopyConfig(p.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:nodes", "system:masters"}}
	c, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", user, err)
	}
	return c, nil
}

// stage is a place in one run: its namespaces, which are new.
type stage struct {
	*place
	// space is the namespace in the target, and peer another one there. They have the same names in both targets.
	space, peer string
	// home is the namespace in the source.
	home string
}

func (p *place) stage(run int) *stage {
	space := fmt.Sprintf("space-%03d", run)
	return &stage{place: p, space: space, peer: space + "-peer", home: fmt.Sprintf("home-%03d-%s", run, p.Name)}
}

// plain replaces what is different in each run.
func (s *stage) plain(text string) string {
	return strings.NewReplacer(s.home, "HOME", s.space, "SPACE").Replace(text)
}

// open creates the namespaces and registers the target.
func (s *stage) open(ctx context.Context) error {
	peer := namespace(s.peer)
	peer.Labels = map[string]string{istioclusterconfig.LabelRole: istioclusterconfig.RoleIngress}
	for _, space := range []*corev1.Namespace{namespace(s.space), peer} {
		if err := s.Client.Create(ctx, space); err != nil {
			return fmt.Errorf("creating namespace %s in %s: %w", space.Name, s.Name, err)
		}
	}
	if err := source.Client.Create(ctx, namespace(s.home)); err != nil {
		return fmt.Errorf("creating namespace %s: %w", s.home, err)
	}
	registration := testbed.Registration(s.home, s.Name, s.Kubeconfig())
	if err := source.Client.Create(ctx, registration); err != nil {
		return fmt.Errorf("registering %s: %w", s.Name, err)
	}
	return nil
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// leave removes the registration.
func (s *stage) leave(ctx context.Context) error {
	err := source.Client.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(s.home))
	if err != nil {
		return fmt.Errorf("removing the registration of %s: %w", s.Name, err)
	}
	return nil
}

// clear deletes what a run left in the target, and its Machines, which later runs would meet.
func (s *stage) clear(ctx context.Context) error {
	if err := source.Client.DeleteAllOf(ctx, s.machine(0), client.InNamespace(s.home)); err != nil {
		return fmt.Errorf("deleting the Machines of %s: %w", s.Name, err)
	}
	critical := client.MatchingLabels{criticalLabel: "true"}
	system := client.InNamespace(metav1.NamespaceSystem)
	for _, all := range []struct {
		obj     client.Object
		options []client.DeleteAllOfOption
	}{
		{&corev1.Node{}, nil},
		{&certificatesv1.CertificateSigningRequest{}, nil},
		{&corev1.Pod{}, []client.DeleteAllOfOption{system, client.GracePeriodSeconds(0)}},
		{&admissionregistrationv1.ValidatingWebhookConfiguration{}, []client.DeleteAllOfOption{
			client.HasLabels{transient},
		}},
		{istioObject("DestinationRule", "", ""), []client.DeleteAllOfOption{client.InNamespace(s.space)}},
		{istioObject("EnvoyFilter", "", ""), []client.DeleteAllOfOption{client.InNamespace(s.peer)}},
		{&corev1.Secret{}, []client.DeleteAllOfOption{client.InNamespace(s.space)}},
		{&appsv1.DaemonSet{}, []client.DeleteAllOfOption{system, critical}},
		{&corev1.Service{}, []client.DeleteAllOfOption{client.InNamespace(s.space)}},
		{&corev1.ConfigMap{}, []client.DeleteAllOfOption{client.InNamespace(s.space)}},
		{&appsv1.Deployment{}, []client.DeleteAllOfOption{client.InNamespace(s.space)}},
		{&networkingv1.NetworkPolicy{}, []client.DeleteAllOfOption{client.InNamespace(s.space)}},
		{&networkingv1.NetworkPolicy{}, []client.DeleteAllOfOption{client.InNamespace(s.peer)}},
	} {
		if err := s.Client.DeleteAllOf(ctx, all.obj, all.options...); err != nil {
			return fmt.Errorf("deleting each %T in %s: %w", all.obj, s.Name, err)
		}
	}
	// EnvoyFilters of later runs would be written there, too.
	plain := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"gardener.cloud/role":null}}}`))
	if err := s.Client.Patch(ctx, namespace(s.peer), plain); err != nil {
		return fmt.Errorf("taking the ingress gateways from namespace %s in %s: %w", s.peer, s.Name, err)
	}
	return nil
}

// machine is the Machine of a Node.
func (s *stage) machine(node int) *unstructured.Unstructured {
	machine := &unstructured.Unstructured{}
	machine.SetAPIVersion("machine.sapcloud.io/v1alpha1")
	machine.SetKind("Machine")
	machine.SetNamespace(s.home)
	machine.SetName(nodeName(node))
	machine.SetLabels(map[string]string{"node": nodeName(node)})
	return machine
}

func nodeName(node int) string { return fmt.Sprintf("node-%d", node) }

func userOf(node int) string { return "system:node:" + nodeName(node) }
