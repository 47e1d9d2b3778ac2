package webhooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// marked is a target whose settings and state contain a mark wherever an answer could have it, and an address.
func marked(t *testing.T, mark, address string) reviews.Target {
	t.Helper()
	c := ofSamples(t)
	c.Key = clustercache.ClusterKey{Namespace: mark, Name: mark}
	settings := strings.NewReplacer(
		"api.example", "api."+mark, "schedulerName: packing", "schedulerName: packing-"+mark,
		"{a: b}", "{a: "+mark+"}", "key: t,", "key: "+mark+",",
	).Replace(settingsOfSamples)
	c.Settings = reviews.Webhooks(t, strings.TrimSuffix(settings, "}")+
		", crdDeletionProtection: {enabled: true}, extensionValidation: {enabled: true}}")
	c.State.ConfigMaps[0].Data = map[string]string{"hosts": mark + ".example", "istio-namespace": "istio-" + mark}
	c.State.Services[0].Namespace = "istio-" + mark
	c.State.Services[0].Spec.ClusterIPs = []string{address}
	c.State.Spaces[0].Annotations["high-availability-config.resources.gardener.cloud/zones"] = mark + "-a,x-" + mark
	c.State.NodeList[0].Spec.Taints = []corev1.Taint{{Key: "taint-" + mark, Effect: corev1.TaintEffectNoSchedule}}
	return c
}

// ofTarget lists an object that is named after the target.
type ofTarget struct{}

func (ofTarget) List(
	_ context.Context, target clustercache.ClusterKey, _ schema.GroupVersionKind, _ string, _ labels.Selector,
) ([]metav1.PartialObjectMetadata, error) {
	return []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "object-" + target.Name}}}, nil
}

// request is one to a webhook, about the same object from each target.
func request(t *testing.T, c reviews.Target, w admission.Webhook) *admission.Request {
	t.Helper()
	const group, version = "extensions.gardener.cloud", "v1alpha1"
	switch w.Name {
	case "crd-deletion-protection":
		return &admission.Request{
			Target: c.Key, Settings: c.Settings, State: c.State, AdmissionRequest: &admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, Namespace: c.Namespace,
				Kind:     metav1.GroupVersionKind{Group: group, Version: version, Kind: "Infrastructure"},
				Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: "infrastructures"},
				OldObject: runtime.RawExtension{
					Raw: []byte(`{"metadata":{"annotations":{"confirmation.gardener.cloud/deletion":"true"}}}`),
				},
			},
		}
	case "extension-validation":
		return c.Request(t, `{apiVersion: extensions.gardener.cloud/v1alpha1, kind: Infrastructure,
			metadata: {name: a, namespace: shoot--a}, spec: {type: a}}`)
	}
	return c.Request(t, sample(w, 2))
}

// Nothing of one target shows in an answer to another, in whatever order and however many at a time they ask.
func TestAnswersContainNothingOfOtherTargets(t *testing.T) {
	g := NewWithT(t)
	marks := []string{"alpha", "beta", "gamma"}
	var targets []reviews.Target
	for i, mark := range marks {
		targets = append(targets, marked(t, mark, fmt.Sprintf("10.77.%d.1", i)))
	}
	foreign := func(of int, text string) string {
		for i, mark := range marks {
			if i != of && (strings.Contains(text, mark) || strings.Contains(text, fmt.Sprintf("10.77.%d.", i))) {
				return mark
			}
		}
		return ""
	}
	all := webhooks.All(ofTarget{}) // they are shared by all targets, as in a hub
	combined, is := admission.CombinedAt("runtime.mount-projected-service-account-token.seccomp-profile."+
		"system-components-config.pod-topology-spread-constraints", all)
	g.Expect(is).To(BeTrue())
	all = append(all, combined)
	own := make([]map[string]bool, len(targets))
	faults := make([]string, len(targets))
	var work sync.WaitGroup
	for i, c := range targets {
		own[i] = map[string]bool{}
		random := rand.New(rand.NewPCG(34, uint64(i)))
		var requests []*admission.Request
		for _, w := range all {
			requests = append(requests, request(t, c, w))
		}
		work.Go(func() {
			for range 2000 {
				which := random.IntN(len(all))
				answer, err := all[which].Handler.Handle(context.Background(), requests[which])
				patch := string(answer.Patch)
				answer.Patch = nil
				rest, encoded := json.Marshal(answer)
				text := fmt.Sprint(patch, string(rest), err, encoded)
				if of := foreign(i, text); of != "" {
					faults[i] = fmt.Sprintf("%s of %s shows something of %s: %s", all[which].Name, marks[i], of, text)
					return
				}
				own[i][all[which].Name] = own[i][all[which].Name] || strings.Contains(text, marks[i])
			}
		})
	}
	work.Wait()
	for i := range targets {
		g.Expect(faults[i]).To(BeEmpty())
		for _, name := range []string{
			"high-availability-config", "pod-scheduler-name", "kubernetes-service-host",
			"pod-kube-apiserver-load-balancing", "system-components-config", "crd-deletion-protection",
			"combined-projected-token-mount",
		} {
			g.Expect(own[i]).To(HaveKeyWithValue(name, true), "or the test shows nothing")
		}
	}
}
