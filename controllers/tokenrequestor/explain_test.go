package tokenrequestor_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/tokenrequestor"
)

func TestExplainSaysWhatARunWouldDo(t *testing.T) {
	t.Parallel()
	h := newHome(t, inBeta)
	secret := h.secret("explained")
	h.create(secret)
	h.issued(secret)
	h.settled(secret)
	all := hub.clusters.List(h.name)
	h.Expect(all).To(HaveLen(1))
	question := func(change func(*Question)) *Answer {
		q := Question{
			Secret: h.get(secret), Target: all[0], All: all, Client: beta.Client, Now: hub.clock.Now(),
			Settings: byKey(hub.of),
		}
		if change != nil {
			change(&q)
		}
		answer, err := Explain(t.Context(), q)
		h.Expect(err).NotTo(HaveOccurred())
		return answer
	}
	answer := question(nil)
	h.Expect(answer.ServiceAccount).To(Equal(types.NamespacedName{Namespace: h.name, Name: "explained"}))
	h.Expect(answer.Lifetime).To(Equal(12 * time.Hour))
	h.Expect(answer.Renewal).To(BeEmpty())
	h.Expect(answer.Reason).To(BeEmpty())
	h.Expect(answer.Due).To(BeTemporally(">", hub.clock.Now()))
	h.Expect(answer.Expiry).To(BeTemporally(">", answer.Due))

	of := func(settings Settings) func(*Question) {
		return func(q *Question) {
			q.Settings = byKey(func(clustercache.ClusterKey) (Settings, bool) { return settings, true })
		}
	}
	other := "other"
	with := func(change func(*corev1.Secret)) func(*Question) {
		return func(q *Question) { change(q.Secret) }
	}
	reason := func(reason string) gomegatypes.GomegaMatcher { return HaveField("Reason", reason) }
	renewal := func(text string) gomegatypes.GomegaMatcher { return HaveField("Renewal", ContainSubstring(text)) }
	for name, test := range map[string]struct {
		change func(*Question)
		want   gomegatypes.GomegaMatcher
	}{
		"switched off": {func(q *Question) {
			q.Settings = byKey(func(clustercache.ClusterKey) (Settings, bool) { return Settings{}, false })
		}, HaveField("Off", true)},
		"another class":        {of(Settings{Class: &other}), HaveField("Irrelevant", true)},
		"denied by the policy": {of(Settings{Policy: Policy{Denied: []string{h.name}}}), reason("ServiceAccountDenied")},
		"the hub's own": {func(q *Question) {
			q.Target.ServiceAccount = types.NamespacedName{Namespace: h.name, Name: "explained"}
		}, reason("ServiceAccountDenied")},
		"an annotation that is none": {with(annotated(ExpirationAnnotation, "soon")), reason("InvalidAnnotation")},
		"a time that is none":        {with(annotated(RenewTimestampAnnotation, "soon")), reason("InvalidAnnotation")},
		"no such target": {
			with(func(s *corev1.Secret) { s.Labels["cluster.x-k8s.io/cluster-name"] = "gone" }), reason("TargetNotFound"),
		},
		"several targets": {func(q *Question) {
			second := q.Target
			second.Cluster.Name += "-2"
			q.All = append(q.All, second)
		}, reason("TargetAmbiguous")},
		"due":      {func(q *Question) { q.Now = q.Now.Add(11 * time.Hour) }, renewal("has come")},
		"no token": {with(func(s *corev1.Secret) { s.Data = nil }), renewal("no token")},
		"a token of another ServiceAccount": {
			with(annotated(ServiceAccountNameAnnotation, "another")), renewal("does not accept"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(question(test.change)).To(HaveValue(test.want))
		})
	}
}
