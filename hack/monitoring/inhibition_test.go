package monitoring_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
)

// Alertmanager insists on a receiver; the chart's file leaves it to the operator.
const receiver = "route: {receiver: none}\nreceivers: [{name: none}]\n"

func TestOneAlertMutesAnother(t *testing.T) {
	alert := func(name string, labels ...string) model.LabelSet {
		set := model.LabelSet{"alertname": model.LabelValue(name), "service": "trellis"}
		for i := 0; i < len(labels); i += 2 {
			set[model.LabelName(labels[i])] = model.LabelValue(labels[i+1])
		}
		return set
	}
	for _, test := range []struct {
		name   string
		firing model.LabelSet
		asked  model.LabelSet
		muted  bool
	}{
		{"many down mute each down", alert("TrellisManyTargetsDown"), alert("TrellisTargetDown", "target", "a"), true},
		{"many down mute each that flaps", alert("TrellisManyTargetsDown"), alert("TrellisTargetFlapping", "target", "a"), true},
		{"many down do not mute what has other causes", alert("TrellisManyTargetsDown"), alert("TrellisContested", "class", "a"), false},
		{"many down do not mute themselves", alert("TrellisManyTargetsDown"), alert("TrellisManyTargetsDown"), false},
		{"each down does not mute many down", alert("TrellisTargetDown", "target", "a"), alert("TrellisManyTargetsDown"), false},
		{"many down at one hub mute none of another", alert("TrellisManyTargetsDown", "cluster", "a", "job", "trellis"),
			alert("TrellisTargetDown", "cluster", "b", "job", "trellis", "target", "a"), false},
		{"many down at one hub mute its own", alert("TrellisManyTargetsDown", "cluster", "a", "job", "trellis"),
			alert("TrellisTargetDown", "cluster", "a", "job", "trellis", "target", "a"), true},
		{"a certificate of webhooks that ends now does not end soon", alert("TrellisWebhookCertificateExpiresNow"),
			alert("TrellisWebhookCertificateExpiring"), true},
		{"a registration that cannot be used connects to nothing", alert("TrellisRegistrationRefused", "target", "a"),
			alert("TrellisTargetNeverConnected", "target", "a"), true},
		{"a registration whose former credential still works is not refused",
			alert("TrellisRotationFailing", "target", "a"), alert("TrellisRegistrationRefused", "target", "a"), true},
		{"a target that is down does not flap", alert("TrellisTargetDown", "target", "a"), alert("TrellisTargetFlapping", "target", "a"), true},
		{"another target may", alert("TrellisTargetDown", "target", "a"), alert("TrellisTargetFlapping", "target", "b"), false},
		{"a target that is down renews no tokens", alert("TrellisTargetDown", "target", "a"),
			alert("TrellisTokensOverdue", "target", "a"), true},
		{"tokens of a target that is down are not used", alert("TrellisTargetDown", "target", "a"),
			alert("TrellisTokenExpiresNow", "target", "a"), true},
		{"those of another target are used", alert("TrellisTargetDown", "target", "a"),
			alert("TrellisTokenExpiresNow", "target", "b"), false},
		{"many down do not mute tokens of a target that is up", alert("TrellisManyTargetsDown"),
			alert("TrellisTokenExpiresNow", "target", "a"), false},
		{"a token that ends now is overdue, too", alert("TrellisTokenExpiresNow", "target", "a"),
			alert("TrellisTokensOverdue", "target", "a"), true},
		{"tokens of another target may be overdue", alert("TrellisTokenExpiresNow", "target", "a"),
			alert("TrellisTokensOverdue", "target", "b"), false},
		{"a credential that ends now does not end soon", alert("TrellisCredentialExpiresNow", "target", "a"), alert("TrellisCredentialExpiring", "target", "a"), true},
		{"another one may", alert("TrellisCredentialExpiresNow", "target", "a"), alert("TrellisCredentialExpiring", "target", "b"), false},
		{"short workers of a class do not mute a target that may be of another", alert("TrellisQueueWait", "class", "a"), alert("TrellisTargetBacklog", "target", "a"), false},
		{"a target whose work piles up does not mute short workers", alert("TrellisTargetBacklog", "target", "a"), alert("TrellisQueueWait", "class", "a"), false},
		{"a dead hub mutes its replicas", alert("TrellisHubDown"), alert("TrellisReplicaDown", "instance", "a"), true},
		{"a dead replica does not mute the hub", alert("TrellisReplicaDown", "instance", "a"), alert("TrellisHubDown"), false},
		{"a stuck loop explains a stale heartbeat", alert("TrellisLoopStuck", "instance", "a"), alert("TrellisHeartbeatStale"), true},
		{"a stuck loop explains a stuck worker", alert("TrellisLoopStuck", "instance", "a"),
			alert("TrellisReconcileStuck", "target", "a"), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			NewWithT(t).Expect(mutes(t, test.firing, test.asked, time.Hour)).To(Equal(test.muted))
			g.Expect(mutes(t, test.firing, test.asked, -time.Minute)).To(BeFalse(), "once the first one is over")
		})
	}
}

func TestInhibitionNamesAlertsThatExist(t *testing.T) {
	g := NewWithT(t)
	known := map[string]bool{}
	for _, alert := range alerts(t) {
		known[alert.Alert] = true
	}
	for _, rule := range inhibitRules(g) {
		for _, matcher := range append(rule.SourceMatchers, rule.TargetMatchers...) {
			matches := 0
			for name := range known {
				if matcher.Matches(name) {
					matches++
				}
			}
			g.Expect(matches).To(BeNumerically(">=", 1), matcher.String())
		}
	}
}

// mutes asks Alertmanager whether an alert is muted by another one that ends after some time.
func mutes(t *testing.T, firing, asked model.LabelSet, ends time.Duration) bool {
	t.Helper()
	g := NewWithT(t)
	marker := types.NewMarker(prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	logger := slog.New(slog.DiscardHandler)
	source, err := mem.NewAlerts(ctx, marker, time.Hour, nil, logger, prometheus.NewRegistry())
	g.Expect(err).NotTo(HaveOccurred())
	defer source.Close()
	now := time.Now()
	g.Expect(source.Put(ctx, &types.Alert{Alert: model.Alert{Labels: firing, StartsAt: now.Add(-time.Hour), EndsAt: now.Add(ends)}})).To(Succeed())
	inhibitor := inhibit.NewInhibitor(source, inhibitRules(g), marker, logger)
	go inhibitor.Run()
	defer inhibitor.Stop()
	inhibitor.WaitForLoading()
	return inhibitor.Mutes(ctx, asked)
}

func inhibitRules(g Gomega) []config.InhibitRule {
	loaded, err := config.Load(receiver + read(g, root+"/charts/trellis/monitoring/alertmanager.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(loaded.InhibitRules).NotTo(BeEmpty())
	return loaded.InhibitRules
}
