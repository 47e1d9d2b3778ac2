package health

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestH23_VerticalPodAutoscalerHealth(t *testing.T) {
	testCheck(t, map[string]checkCase{
		"without status":     {autoscaler, ""},
		"without conditions": {autoscaler + "status: {recommendation: {}}", ""},
		"other conditions":   {autoscaler + "status: {conditions: [{type: RecommendationProvided, status: 'False'}, {type: Ready, status: 'False'}]}", ""},
		"supported":          {autoscaler + "status: {conditions: [{type: ConfigUnsupported, status: 'False'}]}", ""},
		"not supported": {
			autoscaler + "status: {conditions: [{type: ConfigUnsupported, status: 'True', message: no targetRef}]}",
			"condition ConfigUnsupported is True: no targetRef",
		},
		// The recommender may itself have to be scaled before it can look at the new generation.
		"the generation does not matter": {autoscaler + "status: {observedGeneration: 1, conditions: [{type: ConfigUnsupported, status: 'False', observedGeneration: 1}]}", ""},
	})
}

func TestPrometheusAndAlertmanagerHealth(t *testing.T) {
	for _, head := range []string{prometheus, alertmanager} {
		available := func(condition, rest string) string {
			return head + "spec: {replicas: 2}\nstatus: {" + rest + "conditions: [{type: Available, " + condition + "}]}"
		}
		testCheck(t, map[string]checkCase{
			"available":            {available("status: 'True', observedGeneration: 2", "availableReplicas: 2, "), ""},
			"a later generation":   {available("status: 'True', observedGeneration: 3", "availableReplicas: 2, "), ""},
			"without a condition":  {head + "spec: {replicas: 0}", "condition Available is missing"},
			"outdated":             {available("status: 'True', observedGeneration: 1", "availableReplicas: 2, "), "condition Available is about generation 1, not about 2"},
			"without a generation": {available("status: 'True'", "availableReplicas: 2, observedGeneration: 2, "), "condition Available is about generation 0, not about 2"},
			"not available":        {available("status: 'False', observedGeneration: 2, reason: NoPodReady, message: none", "availableReplicas: 2, "), "condition Available is False (NoPodReady): none"},
			"degraded":             {available("status: Degraded, observedGeneration: 2, reason: SomePodsNotReady", "availableReplicas: 2, "), "condition Available is Degraded (SomePodsNotReady)"},
			"one short":            {available("status: 'True', observedGeneration: 2", "availableReplicas: 1, "), "1 of 2 available replicas"},
			"default is one":       {head + "status: {conditions: [{type: Available, status: 'True', observedGeneration: 2}]}", "0 of 1 available replicas"},
			"scaled to zero":       {head + "spec: {replicas: 0}\nstatus: {conditions: [{type: Available, status: 'True', observedGeneration: 2}]}", ""},
			"roll-outs are another matter": {
				head + "status: {availableReplicas: 1, conditions: [{type: Available, status: 'True', observedGeneration: 2}, {type: Reconciled, status: 'False', observedGeneration: 1}]}", "",
			},
		})
	}
}

func TestH12_PrometheusAndAlertmanagerProgress(t *testing.T) {
	for _, head := range []string{prometheus, alertmanager} {
		reconciled := func(condition, rest string) string {
			return head + "spec: {replicas: 2}\nstatus: {" + rest + "conditions: [{type: Reconciled, " + condition + "}]}"
		}
		testProgress(t, map[string]checkCase{
			"H-9, rolled out":     {reconciled("status: 'True', observedGeneration: 2", "updatedReplicas: 2, "), ""},
			"without a condition": {head, "condition Reconciled is missing"},
			"outdated":            {reconciled("status: 'True', observedGeneration: 1", "updatedReplicas: 2, "), "condition Reconciled is about generation 1, not about 2"},
			"not reconciled":      {reconciled("status: 'False', observedGeneration: 2, reason: ReconciliationFailed, message: m", "updatedReplicas: 2, "), "condition Reconciled is False (ReconciliationFailed): m"},
			"one short":           {reconciled("status: 'True', observedGeneration: 2", "updatedReplicas: 1, "), "1 of 2 updated replicas"},
			"default is one":      {head + "status: {conditions: [{type: Reconciled, status: 'True', observedGeneration: 2}]}", "0 of 1 updated replicas"},
		})
	}
}

func TestCertificateAndIssuerHealth(t *testing.T) {
	for _, head := range []string{certificate, issuer} {
		testCheck(t, map[string]checkCase{
			"ready":          {head + "status: {state: Ready}", ""},
			"pending":        {head + "status: {state: Pending, message: waiting for DNS}", "the state is Pending: waiting for DNS"},
			"failed":         {head + "status: {state: Error, message: rate limit}", "the state is Error: rate limit"},
			"without status": {head, "there is no state yet"},
			// Whether the generation was observed is a question of progress.
			"an old generation": {head + "status: {state: Ready, observedGeneration: 1}", ""},
		})
	}
	testCheck(t, map[string]checkCase{
		"condition True":                {certificate + "status: {state: Ready, conditions: [{type: Ready, status: 'True'}]}", ""},
		"condition False":               {certificate + "status: {state: Ready, conditions: [{type: Ready, status: 'False', reason: R}]}", "condition Ready is False (R)"},
		"condition True, state not":     {certificate + "status: {state: Pending, conditions: [{type: Ready, status: 'True'}]}", "the state is Pending"},
		"an error is worse than a wait": {certificate + "status: {state: Error, conditions: [{type: Ready, status: 'False', reason: R}]}", "the state is Error"},
	})
	testCheck(t, map[string]checkCase{
		"the condition of an Issuer does not count": {issuer + "status: {state: Ready, conditions: [{type: Ready, status: 'False'}]}", ""},
	})
}

func TestH13_CertificateAndIssuerProgress(t *testing.T) {
	for _, head := range []string{certificate, issuer} {
		testProgress(t, map[string]checkCase{
			"H-9, observed":  {head + "status: {observedGeneration: 2}", ""},
			"one behind":     {head + "status: {observedGeneration: 1, state: Ready}", "generation 2 has not been observed yet, only 1"},
			"without status": {head, "generation 2 has not been observed yet, only 0"},
			"not ready":      {head + "status: {observedGeneration: 2, state: Error}", ""},
		})
	}
}

// H-14: what would be a roll-out is none with the annotation, and neither is it with a value that is almost true.
func TestH14_SkipAnnotationTurnsProgressOff(t *testing.T) {
	for _, text := range []string{deployment, statefulSet, daemonSet, prometheus, alertmanager, certificate, issuer, custom + "status: {observedGeneration: 1}"} {
		live := object(t, text)
		t.Run(live.GetKind(), func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Progress(live).Progressing).To(BeTrue())
			live.SetAnnotations(map[string]string{"resources.gardener.cloud/skip-health-check": "1"})
			g.Expect(Progress(live).Progressing).To(BeTrue())
			live.SetAnnotations(map[string]string{"resources.gardener.cloud/skip-health-check": "true"})
			g.Expect(Progress(live)).To(Equal(ProgressResult{}))
		})
	}
}

// The worst comes first where not all can be listed, and of an object the worst is listed.
func TestSeverities(t *testing.T) {
	for name, test := range map[string]struct {
		object   string
		severity Severity
		message  string
	}{
		"outdated":            {deployment + "status: {observedGeneration: 1}", Waiting, "generation 2"},
		"unavailable":         {deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'False'}]}", Unavailable, "Available"},
		"paused":              {deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'True'}, {type: Progressing, status: Unknown}]}", Unavailable, "Progressing"},
		"deadline exceeded":   {deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'False'}, {type: Progressing, status: 'False'}]}", Failed, "Progressing"},
		"quota exceeded":      {deployment + "status: {observedGeneration: 2, conditions: [{type: Available, status: 'False'}, {type: ReplicaFailure, status: 'True', message: quota}]}", Failed, "quota"},
		"failed Job":          {job + "status: {conditions: [{type: Failed, status: 'True'}]}", Failed, "Failed"},
		"Pod without a phase": {pod, Waiting, "no phase"},
		"Pod that cannot start": {
			pod + "status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: InvalidImageName}}}]}", Failed,
			"the pod is in phase Pending: container c waits (InvalidImageName)",
		},
		"Service":             {service + "spec: {type: LoadBalancer}", Unavailable, "ingress"},
		"names refused":       {crd + "status: {conditions: [{type: NamesAccepted, status: 'False'}]}", Failed, "NamesAccepted"},
		"names not looked at": {crd, Unavailable, "NamesAccepted"},
		"Stalled":             {custom + "status: {conditions: [{type: Ready, status: 'False'}, {type: Stalled, status: 'True'}]}", Failed, "Stalled"},
		"certificate":         {certificate + "status: {state: Pending}", Unavailable, "Pending"},
		"certificate, failed": {certificate + "status: {state: Error}", Failed, "Error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			result := Check(object(t, test.object))
			g.Expect(result.Severity).To(Equal(test.severity))
			g.Expect(result.Message).To(ContainSubstring(test.message))
		})
	}
	NewWithT(t).Expect([]Severity{Fine, Waiting, Unavailable, Failed, Missing}).To(Equal([]Severity{0, 1, 2, 3, 4}), "greater is worse")
}

func TestMessagesOfOthersAreBounded(t *testing.T) {
	for _, character := range []string{"x", "ä", "€", "😀"} {
		long := strings.Repeat(character, 1000)
		for _, text := range []string{
			job + "status: {conditions: [{type: Failed, status: 'True', message: '" + long + "'}]}",
			custom + "status: {conditions: [{type: Ready, status: 'False', reason: '" + long + "', message: '" + long + "'}]}",
			issuer + "status: {state: '" + long + "', message: '" + long + "'}",
			pod + "status: {phase: '" + long + "'}",
			deployment + "status: {observedGeneration: 2, conditions: [{type: Progressing, status: 'False', message: '" + long + "'}]}",
		} {
			live := object(t, text)
			t.Run(live.GetKind()+" "+character, func(t *testing.T) {
				g := NewWithT(t)
				for _, message := range []string{Check(live).Message, Progress(live).Message} {
					g.Expect(len(message)).To(BeNumerically("<=", maxMessage))
					g.Expect(strings.ToValidUTF8(message, "?")).To(Equal(message), "no character is cut in two")
				}
			})
		}
	}
}
