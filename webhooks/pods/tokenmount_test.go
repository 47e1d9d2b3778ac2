package pods_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

func account(namespace, name string, automount *bool) corev1.ServiceAccount {
	return corev1.ServiceAccount{
		ObjectMeta:                   metav1.ObjectMeta{Namespace: namespace, Name: name},
		AutomountServiceAccountToken: automount,
	}
}

// mounting is a target whose ServiceAccount "off" does not mount its token.
func mounting(t testing.TB, settings string) reviews.Target {
	t.Helper()
	return reviews.Target{
		Settings: reviews.Webhooks(t, "projectedTokenMount: {enabled: true"+settings+"}"),
		State: &reviews.State{Accounts: []corev1.ServiceAccount{
			account("kube-system", "off", ptr.To(false)), account("kube-system", "on", ptr.To(true)),
			account("kube-system", "unset", nil), account("kube-system", "default", ptr.To(false)),
			account("other", "elsewhere", ptr.To(false)),
		}},
	}
}

const (
	tokenVolume = `{name: kube-api-access-gardener, projected: {defaultMode: 420, sources: [
		{serviceAccountToken: {expirationSeconds: 43200, path: token}},
		{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}},
		{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}`
	tokenMount = `{name: kube-api-access-gardener, mountPath: /var/run/secrets/kubernetes.io/serviceaccount,
		readOnly: true}`
)

func TestPTM_PodsThatStayAsTheyAre(t *testing.T) {
	for name, object := range map[string]string{
		"PTM-1 no ServiceAccount":          pod(``, `containers: [{name: c}]`),
		"PTM-2 the default ServiceAccount": pod(``, `serviceAccountName: default, containers: [{name: c}]`),
		"PTM-4 one that does not say":      pod(``, `serviceAccountName: unset, containers: [{name: c}]`),
		"PTM-5 one that mounts its token":  pod(``, `serviceAccountName: "on", containers: [{name: c}]`),
		"PTM-6 the pod wants none": pod(``,
			`serviceAccountName: "off", automountServiceAccountToken: false, containers: [{name: c}]`),
		"PTM-7 it has one": pod(``,
			`serviceAccountName: "off", volumes: [{name: kube-api-access-2138h}]`),
		"PTM-7 it has one of its own": pod(``, `serviceAccountName: "off", volumes: [{name: kube-api-access-}]`),
		"CMN-14 a static pod":         pod(`labels: {static-pod: "true"}`, `serviceAccountName: "off"`),
		"CMN-15 skipped, whatever the value": pod(
			`labels: {projected-token-mount.resources.gardener.cloud/skip: "false"}`, `serviceAccountName: "off"`),
		"a resource manager's pod": pod(`labels: {app: gardener-resource-manager}`,
			`serviceAccountName: "off"`),
		"a pod of the hub": pod(`labels: {app.kubernetes.io/name: trellis}`,
			`serviceAccountName: "off"`),
		"PTM-12 the ServiceAccount of the target": pod(`namespace: other`, `serviceAccountName: unset`),
	} {
		t.Run(name, func(t *testing.T) {
			unchanged(t, mounting(t, ""), pods.TokenMount(), object)
		})
	}
}

// PTM-11 and PTM-13 are part of the first case: everything is sent twice.
func TestPTM_PodsThatGetAToken(t *testing.T) {
	t.Run("PTM-8 PTM-11 PTM-13 volume and mounts", func(t *testing.T) {
		changed(t, mounting(t, ""), pods.TokenMount(),
			pod(``, `serviceAccountName: "off", volumes: [{name: v}], initContainers: [{name: i}],
				containers: [{name: a}, {name: b, volumeMounts: [{name: v, mountPath: /v}]}]`),
			pod(``, `serviceAccountName: "off", volumes: [{name: v}, `+tokenVolume+`],
				initContainers: [{name: i, volumeMounts: [`+tokenMount+`]}], containers: [{name: a, volumeMounts: [`+tokenMount+`]},
				{name: b, volumeMounts: [{name: v, mountPath: /v}, `+tokenMount+`]}]`))
	})
	for name, test := range map[string]struct{ settings, annotations, want string }{
		"PTM-9 the pod says for how long": {"",
			`{projected-token-mount.resources.gardener.cloud/expiration-seconds: "8998"}`, "8998"},
		"PTM-11 the settings say for how long": {", expirationSeconds: 1337", `{}`, "1337"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := mounting(t, test.settings).Send(t, pods.TokenMount(),
				pod(`annotations: `+test.annotations, `serviceAccountName: "off"`))
			NewWithT(t).Expect(answer.Patch).To(ContainSubstring(`"expirationSeconds":` + test.want))
		})
	}
}

func TestPTM12_TheServiceAccountOfTheNamespaceOfTheRequest(t *testing.T) {
	answer := mounting(t, "").Send(t, pods.TokenMount(), pod(``, `serviceAccountName: elsewhere`))
	NewWithT(t).Expect(apierrors.IsNotFound(answer.Err)).To(BeTrue())
}

func TestPTM3_ServiceAccountThatIsMissing(t *testing.T) {
	g := NewWithT(t)
	answer := mounting(t, "").Send(t, pods.TokenMount(), pod(``, `serviceAccountName: missing`))
	g.Expect(answer.Err).To(MatchError(ContainSubstring(`serviceaccounts "missing" not found`)))
	g.Expect(apierrors.IsNotFound(answer.Err)).To(BeTrue())
}

func TestPTM10_AnExpirationThatIsNoNumber(t *testing.T) {
	answer := mounting(t, "").Send(t, pods.TokenMount(), pod(
		`annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: abc}`, `serviceAccountName: "off"`))
	refused(t, answer, 403, "expiration-seconds")
}

func TestPTM_StateThatIsUnknown(t *testing.T) {
	c := mounting(t, "")
	c.State.Err = admission.ErrUnknown
	answer := c.Send(t, pods.TokenMount(), pod(``, `serviceAccountName: "off"`))
	NewWithT(t).Expect(errors.Is(answer.Err, admission.ErrUnknown)).To(BeTrue())
}
