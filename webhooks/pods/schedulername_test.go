package pods_test

import (
	"testing"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

func TestPSN_SchedulerName(t *testing.T) {
	c := reviews.Target{
		Settings:  reviews.Webhooks(t, "podSchedulerName: {enabled: true, schedulerName: bin-packing-scheduler}"),
		Namespace: "of-a-user",
	}
	packed := pod(``, `schedulerName: bin-packing-scheduler`)
	t.Run("PSN-1 another scheduler stays", func(t *testing.T) {
		unchanged(t, c, pods.SchedulerName(), pod(``, `schedulerName: mine`))
	})
	t.Run("PSN-2 none", func(t *testing.T) { changed(t, c, pods.SchedulerName(), pod(``, ``), packed) })
	t.Run("PSN-3 the default one", func(t *testing.T) {
		changed(t, c, pods.SchedulerName(), pod(``, `schedulerName: default-scheduler`), packed)
	})
	t.Run("PSN-5 a static pod", func(t *testing.T) {
		unchanged(t, c, pods.SchedulerName(), pod(`labels: {static-pod: "true"}`, ``))
	})
	t.Run("PSN-6 the default changes nothing", func(t *testing.T) {
		c := reviews.Target{Settings: reviews.Webhooks(t, "podSchedulerName: {enabled: true}")}
		unchanged(t, c, pods.SchedulerName(), pod(``, `schedulerName: default-scheduler`))
	})
}
