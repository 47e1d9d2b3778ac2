package settings

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

func TestOwnLimitsReplaceThoseOfTheConfiguration(t *testing.T) {
	configured := clustercache.Limits{QPS: 100, Burst: 200, MaxInFlight: 32, Timeout: time.Minute}
	for name, test := range map[string]struct {
		own  hubv1alpha1.ClientLimits
		want clustercache.Limits
	}{
		"none":    {hubv1alpha1.ClientLimits{}, configured},
		"a rate":  {hubv1alpha1.ClientLimits{QPS: 5}, clustercache.Limits{QPS: 5, Burst: 200, MaxInFlight: 32, Timeout: time.Minute}},
		"a burst": {hubv1alpha1.ClientLimits{Burst: 7}, clustercache.Limits{QPS: 100, Burst: 7, MaxInFlight: 32, Timeout: time.Minute}},
		"calls":   {hubv1alpha1.ClientLimits{MaxInFlight: 3}, clustercache.Limits{QPS: 100, Burst: 200, MaxInFlight: 3, Timeout: time.Minute}},
		"all":     {hubv1alpha1.ClientLimits{QPS: 5, Burst: 7, MaxInFlight: 3}, clustercache.Limits{QPS: 5, Burst: 7, MaxInFlight: 3, Timeout: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(withOwn(configured, test.own)).To(Equal(test.want))
		})
	}
}
