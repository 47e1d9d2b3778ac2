package fleet

import (
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/trellis-hub/trellis/apis/references"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim/apiserver"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// How many there are in each target for the controllers that work there, but for access Secrets, which are in the
// source.
const (
	populatedNodes    = 5
	waitingNodes      = 1 // of these, have the taint
	populatedRequests = 10
	populatedServices = 5
	populatedPods     = 20
	populatedAccesses = 5
	accessesElsewhere = 1 // of these, name a Secret of the target
)

// populatedNamespace is where they are in a target.
const populatedNamespace = "populated"

// populated is what each target holds: nodes, certificate signing requests that are decided, Services that have no
// policies yet, and ConfigMaps that pods refer to. All is a day old.
func populated() (*apiserver.Snapshot, error) {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: populatedNamespace}}}
	for i := range populatedNodes {
		objects = append(objects, populatedNode(i))
	}
	for i := range populatedRequests {
		objects = append(objects, populatedRequest(i))
	}
	for i := range populatedServices {
		objects = append(objects, populatedService(i))
	}
	for i := range populatedPods {
		objects = append(objects, populatedConfigMap(i), populatedPod(i))
	}
	scheme := testbed.Scheme()
	var all []*unstructured.Unstructured
	for _, object := range objects {
		kind, err := apiutil.GVKForObject(object, scheme)
		if err != nil {
			return nil, fmt.Errorf("populating targets: %w", err)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("populating targets with %T %s: %w", object, object.GetName(), err)
		}
		one := &unstructured.Unstructured{Object: content}
		one.SetGroupVersionKind(kind)
		all = append(all, one)
	}
	snapshot, err := apiserver.Prepare(all, "population", time.Now().Add(-24*time.Hour))
	if err != nil {
		return nil, fmt.Errorf("populating targets: %w", err)
	}
	return snapshot, nil
}

func populatedNodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func populatedNode(i int) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: populatedNodeName(i), Labels: map[string]string{
			"kubernetes.io/hostname": populatedNodeName(i), "worker.gardener.cloud/pool": "pool",
			"topology.kubernetes.io/zone": "a",
		}},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.0.%d", i)}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if i < waitingNodes {
		node.Spec.Taints = []corev1.Taint{{
			Key: "node.gardener.cloud/critical-components-not-ready", Effect: corev1.TaintEffectNoSchedule,
		}}
	}
	return node
}

func populatedRequest(i int) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csr-%d", i)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: make([]byte, 500), SignerName: certificatesv1.KubeletServingSignerName,
			Username: "system:node:" + populatedNodeName(i%populatedNodes),
			Usages:   []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
		Status: certificatesv1.CertificateSigningRequestStatus{
			Certificate: make([]byte, 1000),
			Conditions: []certificatesv1.CertificateSigningRequestCondition{{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "RequestApproved",
			}},
		},
	}
}

func populatedService(i int) *corev1.Service {
	name := fmt.Sprintf("service-%d", i)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: populatedNamespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: int32(8000 + i)}},
		},
	}
}

func populatedConfigMap(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: populatedNamespace, Name: fmt.Sprintf("config-%d", i),
			Labels: map[string]string{references.Label: references.LabelValue},
		},
		Data: map[string]string{"key": "value"},
	}
}

func populatedPod(i int) *corev1.Pod {
	used := populatedConfigMap(i).Name
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: populatedNamespace, Name: fmt.Sprintf("pod-%d", i), Labels: map[string]string{"app": "pod"},
			Annotations: map[string]string{references.AnnotationKey(references.KindConfigMap, used): used},
		},
		Spec: corev1.PodSpec{
			NodeName: populatedNodeName(i % populatedNodes), Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// accesses are the access Secrets of a target, in its home namespace.
func accesses(namespace string) (secrets []client.Object) {
	const serviceAccount, target = "serviceaccount.resources.gardener.cloud/", "token-requestor.resources.gardener.cloud/"
	for i := range populatedAccesses {
		name := fmt.Sprintf("shoot-access-%d", i)
		annotations := map[string]string{serviceAccount + "name": name, serviceAccount + "namespace": populatedNamespace}
		if i < accessesElsewhere {
			annotations[target+"target-secret-name"] = name
			annotations[target+"target-secret-namespace"] = populatedNamespace
		}
		secrets = append(secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: annotations,
			Labels: map[string]string{
				resourcesv1alpha1.PurposeLabel:     resourcesv1alpha1.PurposeTokenRequestor,
				resourcesv1alpha1.AccessClassLabel: "shoot",
			},
		}})
	}
	return secrets
}
