package controllers

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestB1_QueuesAreStuckForNothingThatTheSourceDoes(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	old := now.Add(-time.Hour)
	never := time.Time{}
	tests := map[string]struct {
		began      time.Time
		missing    int
		idle, lost time.Time
		since      time.Time
	}{
		"the source has not been listed for an hour":   {never, 2, never, never, never},
		"one queue is missing though it has":           {old, 1, never, never, old.Add(beginning)},
		"the queues are just made":                     {now, 2, never, never, now.Add(beginning)},
		"no fault":                                     {old, 0, never, never, never},
		"nothing is handed out":                        {old, 0, old, never, old.Add(handOut)},
		"all workers hang":                             {old, 0, never, old, old},
		"nothing is handed out, and others hang since": {old, 0, old, now, old.Add(handOut)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(queuesStuckSince(test.began, test.missing, test.idle, test.lost)).To(Equal(test.since))
		})
	}
}
