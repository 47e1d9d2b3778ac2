//go:build long

package webhooks

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// HUB-20, HUB-22: nor is one refused if the webhooks, combined in one call, read the target, which a replica that has
// just started knows nothing of. They wait for a second for it, so the machine must not be busy with anything else.
func TestRollingRestartOfWebhooksThatReadTheTarget(t *testing.T) {
	l := newLoad(t)
	l.pod.ServiceAccountName = "load"
	for _, cluster := range targets {
		account := &corev1.ServiceAccount{
			ObjectMeta:                   metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "load"},
			AutomountServiceAccountToken: ptr.To(false),
		}
		l.Expect(cluster.Client.Create(l.ctx, account)).To(Succeed())
		t.Cleanup(func() { l.Expect(client.IgnoreNotFound(cluster.Client.Delete(l.ctx, account))).To(Succeed()) })
	}
	rollingRestart(l, `"projectedTokenMount":{"enabled":true}`)
}
