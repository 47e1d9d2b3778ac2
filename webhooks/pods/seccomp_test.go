package pods_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

func TestSEC_SeccompProfile(t *testing.T) {
	c := reviews.Target{
		Settings:  reviews.Webhooks(t, "registration: {scope: Runtime}, seccompProfile: {enabled: true}"),
		Namespace: "shoot--a--b", Labels: map[string]string{"gardener.cloud/role": "shoot"},
	}
	const profile = `seccompProfile: {type: RuntimeDefault}`
	for name, spec := range map[string]string{
		"SEC-1 unconfined":      `securityContext: {seccompProfile: {type: Unconfined}}`,
		"SEC-6 one of the node": `securityContext: {seccompProfile: {type: Localhost, localhostProfile: a}}`,
	} {
		t.Run(name, func(t *testing.T) { unchanged(t, c, pods.SeccompProfile(), pod(``, spec)) })
	}
	for name, labels := range map[string]string{
		"SEC-5 skipped":                   `seccompprofile.resources.gardener.cloud/skip: "true"`,
		"SEC-7 a resource manager":        `app: gardener-resource-manager`,
		"SEC-7 that of a virtual garden":  `app: virtual-garden-gardener-resource-manager`,
		"SEC-7 a hub":                     `app.kubernetes.io/name: trellis`,
		"CMN-14 a static pod":             `static-pod: "true"`,
		"CMN-15 skipped, with any value ": `seccompprofile.resources.gardener.cloud/skip: "false"`,
	} {
		t.Run(name, func(t *testing.T) { unchanged(t, c, pods.SeccompProfile(), pod(`labels: {`+labels+`}`, ``)) })
	}
	for name, test := range map[string]struct{ before, after string }{
		"SEC-2 nothing":          {``, `securityContext: {` + profile + `}`},
		"SEC-3 an empty context": {`securityContext: {}`, `securityContext: {` + profile + `}`},
		"SEC-3 a profile of no type": {`securityContext: {seccompProfile: {type: ""}}`,
			`securityContext: {` + profile + `}`},
		"SEC-4 the rest stays": {`securityContext: {runAsNonRoot: true, runAsUser: 5, supplementalGroups: [1]}`,
			`securityContext: {runAsNonRoot: true, runAsUser: 5, supplementalGroups: [1], ` + profile + `}`},
		"containers have their own": {`containers: [{name: a, securityContext: {seccompProfile: {type: Unconfined}}}]`,
			`containers: [{name: a, securityContext: {seccompProfile: {type: Unconfined}}}],
				securityContext: {` + profile + `}`},
	} {
		t.Run(name, func(t *testing.T) { changed(t, c, pods.SeccompProfile(), pod(``, test.before), pod(``, test.after)) })
	}
	t.Run("namespaces without a role", func(t *testing.T) {
		c.Labels = nil
		NewWithT(t).Expect(c.Send(t, pods.SeccompProfile(), pod(``, ``)).Called).To(BeFalse())
	})
}
