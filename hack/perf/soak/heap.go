package soak

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// The events client of client-go (tools/events: finishTime) looks every eventRound for events that are older than that, and lets them
// go. So it keeps each for one to two rounds, and a hub at rest has none after kept, which has a minute to spare. Nothing else is kept
// for longer; contents, for one, are for two minutes.
const (
	eventRound = 6 * time.Minute
	kept       = 2*eventRound + time.Minute
)

// enoughRounds is how many whole rounds of the events client it takes for the slope of the heap to mean something.
const enoughRounds = 4

// leftMost is how many bytes of heap each target that came and went may leave in a hub at rest, besides the fraction
// flat of all of it for maps and buffers that grew once and do not shrink. Tables that are bounded by a number fill up
// meanwhile, and look like a leak: a standing of fairqueue takes 180 bytes and a text of canon 100, and a visitor makes
// one of the former and some of the latter.
const leftMost = 1 << 10

// enoughVisits is how many targets must have come and gone for that to be judged. With fewer, one is allowed more than the objects that
// the hub has of a target.
const enoughVisits = 200

// looks is how often the heap is looked at while the hub is at rest. Medians count.
const looks = 7

// judgeSlope says whether the heap grows over a soak that began at a time, once events make it grow no more. In a run of cycles the
// tables that are bounded by a number fill up too quickly for that.
func judgeSlope(step *figures.Step, samples []rig.Resources, began time.Time) {
	means := ofRounds(counted(samples, began.Add(kept)), func(s rig.Resources) float64 { return mib(s.Heap) })
	if len(means) < enoughRounds {
		step.Note("the slope of the live heap has a goal with %d times %s after the first %s", enoughRounds, eventRound, kept)
		return
	}
	grown := figures.Slope(means)
	step.Add("live heap, slope after "+kept.String(), 100*grown, "%").Holds(fmt.Sprintf("<= %.0f", 100*flat), grown <= flat).Strictly()
}

// ofRounds are the means of values over whole rounds of the events client, the last of which ends with the samples. What the
// client has doubles over each round and is halved at its end, so that a line through single samples would show where in a round a
// run begins and ends.
func ofRounds(samples []rig.Resources, value func(rig.Resources) float64) (means []float64) {
	if len(samples) < 2 {
		return nil
	}
	first, end := samples[0].Time, samples[len(samples)-1].Time
	// Between two samples, so that each round has as many even if they are not quite as far apart.
	end = end.Add(end.Sub(first) / time.Duration(2*(len(samples)-1)))
	for n := int(end.Sub(first) / eventRound); n > 0; n-- {
		var of []float64
		for _, s := range samples {
			if age := end.Sub(s.Time); age >= time.Duration(n-1)*eventRound && age < time.Duration(n)*eventRound {
				of = append(of, value(s))
			}
		}
		if len(of) > 0 {
			means = append(means, mean(of))
		}
	}
	return means
}

// settled is what the hub had when nothing happened any longer.
type settled struct {
	samples []rig.Resources
	visits  int           // targets that had come and gone
	rested  time.Duration // since anything happened
}

// settle leaves the hub alone until it let go what it keeps for a time, and looks what it has then. Before that, each object that
// foreigners can edit is edited once: that one was corrected is remembered until another one of its ManagedResource is, so that the
// hub would else have the more to remember the longer the run was, up to all of them.
func (r *run) settle(ctx context.Context) (settled, error) {
	began := time.Now()
	for range r.victims {
		if err := r.foreigner.EditEach(ctx, r.residents); err != nil {
			return settled{}, err
		}
	}
	if err := r.AwaitCorrections(ctx, r.residents, began, r.options.Patience); err != nil {
		return settled{}, err
	}
	r.Say("the hub is left alone for %s", r.options.Rest)
	if err := rig.Pause(ctx, r.options.Rest); err != nil {
		return settled{}, err
	}
	s := settled{visits: r.visits, rested: r.options.Rest}
	if err := r.calm(ctx); err != nil {
		return s, err
	}
	for range looks {
		found, err := r.Resources(ctx)
		if err == nil {
			err = rig.Pause(ctx, r.options.Rest/100) // spread, since probes and watches come and go
		}
		if err != nil {
			return s, err
		}
		s.samples = append(s.samples, found)
	}
	return s, nil
}

// judgeRest says of how much heap each target leaves that came and went between two times at which the hub was at rest.
func judgeRest(step *figures.Step, before, after settled) {
	heap := func(s settled) (kib []float64) {
		for _, sample := range s.samples {
			kib = append(kib, float64(sample.Heap)/(1<<10))
		}
		return kib
	}
	first, last := heap(before), heap(after)
	step.Keep("live heap at rest before, KiB", first)
	step.Keep("live heap at rest after, KiB", last)
	had, has := figures.Median(first), figures.Median(last)
	step.Add("live heap at rest", has/(1<<10), "MiB").Beside(had / (1 << 10))
	visits := after.visits - before.visits
	allowed := float64(leftMost)/(1<<10) + flat*had/float64(visits)
	judged := visits >= enoughVisits && min(before.rested, after.rested) >= kept
	left := (has - had) / float64(visits)
	f := step.Add("live heap at rest, left by a target", left, "KiB")
	if judged {
		f.Holds(fmt.Sprintf("<= %.2f", allowed), left <= allowed).Strictly()
	}
	f = step.Add("live heap at rest, spread by a target", max(spreadOf(first), spreadOf(last))/float64(visits), "KiB")
	if judged {
		// With more than that, it is by chance that a leak is found. That is no fault of the hub.
		f.AtMost(allowed / 2)
	} else {
		step.Note("what a target leaves in the heap has a goal with %d targets or more, and rests of %s or more", enoughVisits, kept)
	}
}

// spreadOf is the distance from the least to the most.
func spreadOf(values []float64) float64 { return slices.Max(values) - slices.Min(values) }

func mean(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}
