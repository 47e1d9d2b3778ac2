package isolation_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/apis/references"
	"github.com/trellis-hub/trellis/controllers/care"
	"github.com/trellis-hub/trellis/controllers/criticalcomponents"
	"github.com/trellis-hub/trellis/controllers/csrapprover"
	"github.com/trellis-hub/trellis/controllers/garbagecollector"
	"github.com/trellis-hub/trellis/controllers/istioclusterconfig"
	"github.com/trellis-hub/trellis/controllers/networkpolicy"
	"github.com/trellis-hub/trellis/controllers/nodeagentdelay"
	"github.com/trellis-hub/trellis/controllers/nodehighavailability"
	"github.com/trellis-hub/trellis/controllers/stalepods"
	"github.com/trellis-hub/trellis/controllers/tokeninvalidator"
	"github.com/trellis-hub/trellis/controllers/tokenrequestor"
)

// part is a controller: its name, how it is switched on for a class, and what programs do that it has to do with.
type part struct {
	name, settings string
	draw           func(*model, *rand.Rand) step
}

// parts are all controllers that work in targets. One more is one more line.
var parts = []part{
	{garbagecollector.Name, "garbageCollector: {enabled: true, syncPeriod: 15s}", garbage},
	{tokenrequestor.Name, `tokenRequestor: {enabled: true, class: ""}`, tokens},
	{csrapprover.Name, "csrApprover: {enabled: true}", certificates},
	{criticalcomponents.Name, "nodeCriticalComponents: {enabled: true, backoff: 1s}", critical},
	{nodeagentdelay.Name, "nodeAgentReconciliationDelay: {enabled: true, maxDelay: 5m}", nodes},
	{networkpolicy.Name, "networkPolicy: {enabled: true}", policies},
	{tokeninvalidator.Name, "tokenInvalidator: {enabled: true}", static},
	{nodehighavailability.Name, "nodeHighAvailability: {enabled: true}", unspread},
	{istioclusterconfig.Name, "istioClusterConfiguration: {enabled: true}", buffers},
	{stalepods.Name, "stalePods: {enabled: true, syncPeriod: 15s}", stale},
	{care.Name, "care: {enabled: true, syncPeriod: 15s, webhookRemediatorEnabled: true}", harmful},
}

// maxDelay is that of the settings above.
const maxDelay = 5 * time.Minute

// criticalLabel marks critical components.
const criticalLabel = "node.gardener.cloud/critical-component"

// step is one of a program.
type step struct {
	text string
	do   func(context.Context, *stage) error
	// done returns an error as long as the hub has not done what follows. Nil: nothing follows, or it is awaited at the
	// end.
	done func(context.Context, *stage) error
}

// model is what a target and its home namespace have while a program is drawn.
type model struct {
	number   int // makes names unique
	nodes    map[int]bool
	machines map[int]bool
	critical bool // there is a critical DaemonSet
	accesses []string
	services map[string]service
	rules    map[string]int // the ports of Services that gateways have a rule for
	peer     bool           // the other namespace is selected
	kept     []string       // ConfigMaps that something refers to
}

func newModel() *model {
	return &model{
		nodes: map[int]bool{}, machines: map[int]bool{}, services: map[string]service{}, rules: map[string]int{},
	}
}

type service struct {
	port     int
	selected bool // the other namespace may call it if it has the label
}

// numbers of Nodes. There are few, so that programs come back to them.
const mostNodes = 4

// program draws steps from a seed, and returns what is the case after the last one.
func program(seed uint64, length int) ([]step, func(context.Context, *stage) error) {
	random := rand.New(rand.NewPCG(seed, 0))
	m := newModel()
	var steps []step
	// Each controller has something to do, in a random order.
	turns := random.Perm(len(parts))
	for len(turns) < length {
		turns = append(turns, random.IntN(len(parts)))
	}
	for _, part := range turns {
		steps = append(steps, parts[part].draw(m, random))
	}
	return steps, m.rest()
}

func (m *model) next(what string) string {
	m.number++
	return fmt.Sprintf("%s-%d", what, m.number)
}

// garbage adds a ConfigMap that may be collected, or removes what refers to one.
func garbage(m *model, random *rand.Rand) step {
	if len(m.kept) > 0 && random.IntN(3) == 0 {
		name := m.kept[0]
		m.kept = m.kept[1:]
		return step{text: "nothing refers to " + name, do: func(ctx context.Context, s *stage) error {
			return s.Client.Delete(ctx, referrer(s, name))
		}}
	}
	name := m.next("collectable")
	referred := random.IntN(2) == 0
	if referred {
		m.kept = append(m.kept, name)
	}
	return step{text: fmt.Sprintf("%s, referred to: %t", name, referred), do: func(ctx context.Context, s *stage) error {
		if referred {
			if err := s.Client.Create(ctx, referrer(s, name)); err != nil {
				return err
			}
		}
		return s.Client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.space, Name: name, Labels: map[string]string{references.Label: references.LabelValue},
		}})
	}}
}

func referrer(s *stage, name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: name, Annotations: map[string]string{
			references.AnnotationKey(references.KindConfigMap, name): name,
		}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec},
		},
	}
}

var podSpec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}

// collected returns an error as long as there is garbage. Passes are a quarter of a minute apart, so only the end of a
// program waits for them.
func collected(kept []string) func(context.Context, *stage) error {
	return func(ctx context.Context, s *stage) error {
		list := &corev1.ConfigMapList{}
		err := s.Client.List(ctx, list, client.InNamespace(s.space), client.HasLabels{references.Label})
		if err != nil {
			return err
		}
		var names []string
		for _, configMap := range list.Items {
			names = append(names, configMap.Name)
		}
		return same("collectable ConfigMaps", names, kept)
	}
}

// same returns an error if two sets are not the same.
func same(what string, found, want []string) error {
	found, want = slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(want))
	if !slices.Equal(found, want) {
		return fmt.Errorf("%s: there are %v, not %v", what, found, want)
	}
	return nil
}

// tokens adds or removes an access Secret.
func tokens(m *model, random *rand.Rand) step {
	if len(m.accesses) > 0 && random.IntN(3) == 0 {
		name := m.accesses[0]
		m.accesses = m.accesses[1:]
		return step{text: name + " goes", do: func(ctx context.Context, s *stage) error {
			return source.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: name}})
		}}
	}
	name := m.next("access")
	m.accesses = append(m.accesses, name)
	elsewhere := random.IntN(2) == 0
	return step{
		text: fmt.Sprintf("%s comes, for a Secret of the target: %t", name, elsewhere),
		do: func(ctx context.Context, s *stage) error {
			annotations := map[string]string{
				tokenrequestor.ServiceAccountNameAnnotation: name, tokenrequestor.ServiceAccountNamespaceAnnotation: s.space,
				tokenrequestor.ServiceAccountLabelsAnnotation: fmt.Sprintf(`{"place":"%d"}`, s.number),
			}
			if elsewhere {
				annotations[tokenrequestor.TargetSecretNameAnnotation] = name
				annotations[tokenrequestor.TargetSecretNamespaceAnnotation] = s.space
			}
			return source.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: s.home, Name: name, Annotations: annotations,
				Labels: map[string]string{tokenrequestor.PurposeLabel: tokenrequestor.Purpose},
			}})
		},
		done: func(ctx context.Context, s *stage) error {
			secret := &corev1.Secret{}
			reader, from := source.Client, types.NamespacedName{Namespace: s.home, Name: name}
			if elsewhere {
				reader, from.Namespace = s.Client, s.space
			}
			if err := reader.Get(ctx, from, secret); err != nil {
				return err
			}
			account := &corev1.ServiceAccount{}
			if err := s.Client.Get(ctx, types.NamespacedName{Namespace: s.space, Name: name}, account); err != nil {
				return err
			}
			if uid := accountOf(string(secret.Data[tokenrequestor.KeyToken])); uid != account.UID {
				return fmt.Errorf("the token of %s is that of ServiceAccount %q, not of %s", name, uid, account.UID)
			}
			return nil
		},
	}
}

// accountOf is the UID of the ServiceAccount of a token: which account of which target it is.
func accountOf(token string) types.UID {
	claims := struct {
		Kubernetes struct {
			ServiceAccount struct {
				UID types.UID `json:"uid"`
			} `json:"serviceaccount"`
		} `json:"kubernetes.io"`
	}{}
	if fields := strings.Split(token, "."); len(fields) == 3 {
		payload, err := base64.RawURLEncoding.DecodeString(fields[1])
		if err == nil {
			_ = json.Unmarshal(payload, &claims) // then it is that of none
		}
	}
	return claims.Kubernetes.ServiceAccount.UID
}

// certificates adds a request for the certificate of a kubelet, or adds or removes the Machine of a Node.
func certificates(m *model, random *rand.Rand) step {
	node, vouched := random.IntN(mostNodes), false
	if there := slices.Sorted(maps.Keys(m.nodes)); len(there) > 0 && random.IntN(4) > 0 {
		node = there[random.IntN(len(there))]
		vouched = m.machines[node]
	}
	if !vouched && random.IntN(2) == 0 || vouched && random.IntN(5) == 0 {
		if m.machines[node] {
			delete(m.machines, node)
			return step{text: fmt.Sprintf("Machine of %s goes", nodeName(node)), do: func(ctx context.Context, s *stage) error {
				return source.Client.Delete(ctx, s.machine(node))
			}}
		}
		m.machines[node] = true
		return step{text: fmt.Sprintf("Machine of %s comes", nodeName(node)), do: func(ctx context.Context, s *stage) error {
			return source.Client.Create(ctx, s.machine(node))
		}}
	}
	name := m.next("request")
	want := certificatesv1.CertificateDenied
	if m.nodes[node] && m.machines[node] {
		want = certificatesv1.CertificateApproved
	}
	return step{
		text: fmt.Sprintf("%s of %s, to be %s", name, nodeName(node), want),
		do: func(ctx context.Context, s *stage) error {
			request, err := s.request(node)
			if err != nil {
				return err
			}
			kubelet, err := s.as(userOf(node))
			if err != nil {
				return err
			}
			return kubelet.Create(ctx, &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					Request: request, SignerName: certificatesv1.KubeletServingSignerName,
					Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
				},
			})
		},
		done: func(ctx context.Context, s *stage) error {
			csr := &certificatesv1.CertificateSigningRequest{}
			if err := s.Client.Get(ctx, types.NamespacedName{Name: name}, csr); err != nil {
				return err
			}
			if len(csr.Status.Conditions) != 1 || csr.Status.Conditions[0].Type != want {
				return fmt.Errorf("%s is to be %s: %v", name, want, csr.Status.Conditions)
			}
			return nil
		},
	}
}

// critical adds the critical DaemonSet or removes it. Nodes that come wait for its pods.
func critical(m *model, _ *rand.Rand) step {
	m.critical = !m.critical
	if !m.critical {
		return step{text: "the critical DaemonSet goes", do: func(ctx context.Context, s *stage) error {
			return s.Client.Delete(ctx, daemonSet())
		}}
	}
	return step{text: "the critical DaemonSet comes", do: func(ctx context.Context, s *stage) error {
		return s.Client.Create(ctx, daemonSet())
	}}
}

func daemonSet() *appsv1.DaemonSet {
	labels := map[string]string{"app": "critical", criticalLabel: "true"}
	spec := *podSpec.DeepCopy()
	spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "critical", Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "critical"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

// nodes adds a Node that waits, or removes one.
func nodes(m *model, random *rand.Rand) step {
	number := random.IntN(mostNodes)
	name := nodeName(number)
	if m.nodes[number] {
		delete(m.nodes, number)
		return step{text: name + " goes", done: spread(m), do: func(ctx context.Context, s *stage) error {
			err := s.Client.Delete(ctx, criticalPod(name), client.GracePeriodSeconds(0))
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			return s.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}}
	}
	m.nodes[number] = true
	withPod := m.critical
	return step{
		text: fmt.Sprintf("%s comes, with a critical pod: %t", name, withPod), done: spread(m),
		do: func(ctx context.Context, s *stage) error { return join(ctx, s, number, withPod) },
	}
}

// join creates a Node as a kubelet does, and its critical pod.
func join(ctx context.Context, s *stage, number int, withPod bool) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(number), Labels: map[string]string{"place": s.Name}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "node.gardener.cloud/critical-components-not-ready", Effect: corev1.TaintEffectNoSchedule},
			{Key: "place", Value: s.Name, Effect: corev1.TaintEffectPreferNoSchedule},
		}},
	}
	if err := s.Client.Create(ctx, node); err != nil {
		return err
	}
	status := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, s.addressOf(number)))
	if err := s.Client.Status().Patch(ctx, node, status); err != nil {
		return err
	}
	if !withPod {
		return nil
	}
	owner := daemonSet()
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
		return err
	}
	pod := criticalPod(node.Name)
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "DaemonSet", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true),
	}}
	if err := s.Client.Create(ctx, pod); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return s.Client.Status().Update(ctx, pod)
}

func criticalPod(node string) *corev1.Pod {
	spec := *podSpec.DeepCopy()
	spec.NodeName = node
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceSystem, Name: "critical-" + node, Labels: map[string]string{criticalLabel: "true"},
	}, Spec: spec}
}

// spread returns an error as long as a Node waits, or has another delay than it should have among those that there are.
func spread(m *model) func(context.Context, *stage) error {
	var want []string
	for _, number := range slices.Sorted(maps.Keys(m.nodes)) {
		want = append(want, nodeName(number))
	}
	return func(ctx context.Context, s *stage) error {
		list := &corev1.NodeList{}
		if err := s.Client.List(ctx, list); err != nil {
			return err
		}
		var names []string
		delays := map[string]string{}
		for _, node := range list.Items {
			names = append(names, node.Name)
			delays[node.Name] = node.Annotations["node-agent.gardener.cloud/reconciliation-delay"]
			if len(node.Spec.Taints) != 1 {
				return fmt.Errorf("%s has the taints %v", node.Name, node.Spec.Taints)
			}
		}
		for i, name := range want {
			delay := (maxDelay * time.Duration(i) / time.Duration(len(want))).String()
			if delays[name] != delay {
				return fmt.Errorf("%s has the delay %q, not %s", name, delays[name], delay)
			}
		}
		return same("Nodes", names, want)
	}
}

// policies adds or removes a Service, or the label of the other namespace.
func policies(m *model, random *rand.Rand) step {
	switch draw := random.IntN(4); {
	case draw == 0 && len(m.services) > 0:
		names := slices.Sorted(maps.Keys(m.services))
		name := names[random.IntN(len(names))]
		delete(m.services, name)
		return step{text: name + " goes", done: written(m), do: func(ctx context.Context, s *stage) error {
			return s.Client.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: name}})
		}}
	case draw == 1:
		m.peer = !m.peer
		labelled := m.peer
		return step{
			text: fmt.Sprintf("the other namespace may call: %t", m.peer), done: written(m),
			do: func(ctx context.Context, s *stage) error {
				label := "null"
				if labelled {
					label = fmt.Sprintf("%q", s.space)
				}
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"may-call":`+label+`}}}`))
				return s.Client.Patch(ctx, namespace(s.peer), patch)
			},
		}
	}
	name := m.next("service")
	svc := service{port: 1000 + 10*m.number, selected: random.IntN(2) == 0}
	m.services[name] = svc
	return step{
		text: fmt.Sprintf("%s comes, for the other namespace: %t", name, svc.selected), done: written(m),
		do: func(ctx context.Context, s *stage) error {
			obj := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: name},
				Spec: corev1.ServiceSpec{
					Selector: map[string]string{"app": name, "place": s.Name},
					Ports:    []corev1.ServicePort{{Port: int32(s.portOf(svc))}},
				},
			}
			if svc.selected {
				obj.Annotations = map[string]string{
					networkpolicy.AnnotationNamespaceSelectors: fmt.Sprintf(`[{"matchLabels":{"may-call":%q}}]`, s.space),
				}
			}
			return s.Client.Create(ctx, obj)
		},
	}
}

// portOf is that of a Service, another one in each place.
func (p *place) portOf(svc service) int { return svc.port + p.number }

// written returns an error as long as the policies are not those of the Services.
func written(m *model) func(context.Context, *stage) error {
	services, peer := maps.Clone(m.services), m.peer
	return func(ctx context.Context, s *stage) error {
		var want []string
		for name, svc := range services {
			id := fmt.Sprintf("%s-tcp-%d", name, s.portOf(svc))
			want = append(want, s.space+"/ingress-to-"+id, s.space+"/egress-to-"+id)
			if svc.selected && peer {
				want = append(want, s.space+"/ingress-to-"+id+"-from-"+s.peer, s.peer+"/egress-to-"+s.space+"-"+id)
			}
		}
		var found []string
		list := &networkingv1.NetworkPolicyList{}
		if err := s.Client.List(ctx, list); err != nil {
			return err
		}
		for _, policy := range list.Items {
			found = append(found, policy.Namespace+"/"+policy.Name)
		}
		return same("policies", found, want)
	}
}
