package health

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTrimKeepsWhatTheChecksRead(t *testing.T) {
	g := NewWithT(t)
	live := object(t, deployment+`
spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c}]}}, strategy: {type: Recreate}}
status:
  observedGeneration: 2
  replicas: 2
  conditions:
  - {type: Available, status: 'True', reason: R, message: M, lastUpdateTime: T}
  - {type: Other, status: 'True'}
`)
	Trim(live)
	g.Expect(live.Object).To(Equal(object(t, deployment+`
spec: {replicas: 2, selector: {matchLabels: {a: b}}}
status:
  observedGeneration: 2
  conditions:
  - {type: Available, status: 'True', reason: R, message: M}
`).Object))
}

func TestTrimLeavesNothingButMetadataOfOtherKinds(t *testing.T) {
	g := NewWithT(t)
	live := object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: Opaque\ndata: {password: c2VjcmV0}")
	Trim(live)
	g.Expect(live.Object).To(Equal(object(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}").Object))
}

func TestTrimBoundsMessages(t *testing.T) {
	g := NewWithT(t)
	for _, character := range []string{"x", "ä", "€", "😀"} {
		live := object(t, job+"status: {conditions: [{type: Failed, status: 'True', message: '"+strings.Repeat(character, 1000)+"'}]}")
		untrimmed := Check(live)
		Trim(live)
		g.Expect(Check(live)).To(Equal(untrimmed))
		g.Expect(len(untrimmed.Message)).To(BeNumerically("<", 600))
		g.Expect(strings.ToValidUTF8(untrimmed.Message, "?")).To(Equal(untrimmed.Message))
	}
}

func TestTrimTwiceIsTrimOnce(t *testing.T) {
	g := NewWithT(t)
	once := trimmed(object(t, typicalDeployment))
	g.Expect(trimmed(once)).To(Equal(once))
}

func TestNeedsFullObject(t *testing.T) {
	g := NewWithT(t)
	for _, gk := range []schema.GroupKind{
		{Group: "apps", Kind: "Deployment"}, {Group: "apps", Kind: "StatefulSet"}, {Group: "apps", Kind: "DaemonSet"},
		{Group: "apps", Kind: "ReplicaSet"}, {Kind: "ReplicationController"}, {Kind: "Pod"}, {Kind: "Service"},
		{Group: "batch", Kind: "Job"}, {Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	} {
		g.Expect(NeedsFullObject(gk)).To(BeTrue(), gk.String())
	}
	for _, gk := range []schema.GroupKind{{Kind: "ConfigMap"}, {Kind: "Deployment"}, {Group: "batch", Kind: "CronJob"}, {}} {
		g.Expect(NeedsFullObject(gk)).To(BeFalse(), gk.String())
	}
}
