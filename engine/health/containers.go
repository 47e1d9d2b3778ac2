package health

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/untrusted"
)

// maxPodMessage bounds what is kept of a pod's own messages. There are many pods.
const maxPodMessage = 256

// notReady is all that can be said of a pod about which nothing is known.
const notReady = "it is not ready"

// podProblem returns why a pod is not ready, or nothing if it is, or has ended well.
//
// The texts are those of states that last. What the kubelet goes back and forth between on the same grounds, an image
// that it tries to pull and one that it waits to try again, a container that fails and one that runs until it fails
// again, has one text, so that a pod that stays broken is no news every few minutes. Nothing that a container or a hook
// wrote itself gets in here, such as its termination message, for that may be anything.
func (c content) podProblem() Problem {
	status, _ := c.field("status").(map[string]any)
	pod := content(status)
	if c.isTerminating() {
		return waiting(beingDeleted)
	}
	switch phase := corev1.PodPhase(pod.text("phase")); phase {
	case corev1.PodSucceeded:
		return Problem{}
	case corev1.PodFailed:
		if detail := explanation(content{"reason": pod["reason"], "message": pod["message"]}); detail != "" {
			return unavailable(shorten("it failed" + detail))
		}
	}
	ready := c.condition(string(corev1.PodReady))
	if ready["status"] == statusTrue {
		return Problem{}
	}
	if scheduled := c.condition(string(corev1.PodScheduled)); scheduled["status"] == statusFalse {
		return unavailable(shorten(withoutPreemption("it is not scheduled" + explanation(scheduled))))
	}
	problem := worst(
		worstContainer(pod, "initContainerStatuses", "init container"),
		worstContainer(pod, "containerStatuses", "container"),
	)
	if problem == (Problem{}) {
		return waiting(shorten(notReady + explanation(ready)))
	}
	return problem
}

func worstContainer(pod content, field, what string) (problem Problem) {
	statuses, _ := pod.field(field).([]any)
	for _, element := range statuses {
		if status, isMap := element.(map[string]any); isMap {
			problem = worst(problem, content(status).containerProblem(what))
		}
	}
	return problem
}

// Reasons of containers that wait for what comes by itself, and for what does not.
const (
	reasonCrashLoop     = "CrashLoopBackOff"
	reasonPullBackOff   = "ImagePullBackOff"
	reasonPull          = "ErrImagePull"
	reasonCreating      = "ContainerCreating"
	reasonInitializing  = "PodInitializing"
	reasonRunError      = "RunContainerError"
	reasonStartError    = "StartError"
	reasonCannotRun     = "ContainerCannotRun"
	restartsOfCrashLoop = 2 // the first restart comes at once, only then the kubelet waits
)

// toldReasons are those of containers that wait whose message is the kubelet's own, or the runtime's, about something
// that did not run. Others may hold what a command wrote: that of a hook that failed comes with its output, secrets and
// all.
var toldReasons = []string{
	reasonPullBackOff, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
	"CreateContainerConfigError", "CreateContainerError", reasonRunError, reasonStartError,
}

// containerProblem returns why a container is not ready, from its status.
func (c content) containerProblem(what string) Problem {
	name := what + " " + c.text("name")
	ended := c.ended()
	switch {
	case c["ready"] == true:
		return Problem{}
	case c.field("state", "waiting") != nil:
		reason, message := c.text("state", "waiting", "reason"), c.text("state", "waiting", "message")
		switch reason {
		case reasonCrashLoop:
			return failed(shorten(crashLoop(name, ended)))
		case reasonRunError:
			if ended != nil {
				return failed(shorten(crashLoop(name, ended)))
			}
		case reasonPull, reasonPullBackOff:
			reason, message = reasonPullBackOff, pullError(message)
		case reasonCreating, reasonInitializing, "":
			return waiting(strings.TrimSpace(name + " waits " + reason))
		}
		if !slices.Contains(toldReasons, reason) {
			message = ""
		}
		return failed(shorten(name + " waits" + explanation(content{"reason": reason, "message": withoutIDs(message)})))
	case c.field("state", "terminated") != nil:
		switch {
		case c.number(0, "restartCount") >= restartsOfCrashLoop-1:
			return failed(shorten(crashLoop(name, ended)))
		case c.number(0, "state", "terminated", "exitCode") != 0:
			return unavailable(shorten(name + " has failed" + exit(ended)))
		case what == "container":
			return waiting(name + " has ended")
		default:
			return Problem{} // an init container that is done
		}
	case ended != nil && c.number(0, "restartCount") >= restartsOfCrashLoop:
		return failed(shorten(crashLoop(name, ended)))
	default:
		return waiting(name + " is not ready")
	}
}

// ended returns how a container ended last.
func (c content) ended() content {
	for _, state := range []string{"state", "lastState"} {
		if terminated, isMap := c.field(state, "terminated").(map[string]any); isMap {
			return terminated
		}
	}
	return nil
}

func crashLoop(name string, ended content) string {
	return fmt.Sprintf("%s fails again and again (%s)%s", name, reasonCrashLoop, exit(ended))
}

// exit says how a container ended. The message counts only if it is the runtime's, about a container that never ran.
func exit(ended content) string {
	if ended == nil {
		return ""
	}
	text := fmt.Sprintf(", last exit code %d", ended.number(0, "exitCode"))
	reason := ended.text("reason")
	if reason != "" {
		text += " (" + reason + ")"
	}
	if message := ended.text("message"); message != "" && (reason == reasonStartError || reason == reasonCannotRun) {
		text += ": " + withoutIDs(message)
	}
	return text
}

// pullError takes from the message about an image that is not there what is the same in every attempt, and while
// waiting for the next one.
func pullError(message string) string {
	if strings.HasPrefix(message, "Back-off pulling image") {
		if _, cause, found := strings.Cut(message, ": "+reasonPull+": "); found {
			return cause
		}
	}
	return message
}

// withoutPreemption leaves out what the scheduler says about making room, which is long and follows from the rest.
func withoutPreemption(message string) string {
	before, _, _ := strings.Cut(message, " preemption: ")
	return strings.TrimRight(before, " ,")
}

// identifier is one that container runtimes make up anew for every attempt.
var identifier = regexp.MustCompile(`[0-9a-f]{32,}`)

func withoutIDs(message string) string { return identifier.ReplaceAllString(message, "...") }

// shorten bounds a text about a pod, and detaches it from the message that it may be a part of.
func shorten(text string) string { return strings.Clone(untrusted.Text(text, maxPodMessage)) }
