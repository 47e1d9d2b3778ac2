package health

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/untrusted"
)

// maxPodMessage bounds the message of a pod. It is small, since there are many pods.
const maxPodMessage = 256

// notReady is the problem of a pod whose status has no cause.
const notReady = "it is not ready"

// podProblem returns why a pod is not ready. The zero Problem means that it is ready or has succeeded.
//
// States between which the kubelet alternates for one cause have one text: pulling an image and backing off, or a
// container that fails and one that runs until it fails again. So a pod that stays broken does not change its message
// every few minutes. Text that a container or a hook wrote itself, such as a termination message, is never included,
// since it may contain secrets.
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

// Reasons of waiting and terminated containers.
const (
	reasonCrashLoop     = "CrashLoopBackOff"
	reasonPullBackOff   = "ImagePullBackOff"
	reasonPull          = "ErrImagePull"
	reasonCreating      = "ContainerCreating"
	reasonInitializing  = "PodInitializing"
	reasonRunError      = "RunContainerError"
	reasonStartError    = "StartError"
	reasonCannotRun     = "ContainerCannotRun"
	restartsOfCrashLoop = 2 // the first restart is immediate, the kubelet backs off only after it
)

// runtimeReasons are the reasons of waiting containers whose message is from the kubelet or the runtime and about
// something that did not run. Other messages may contain the output of a command, such as that of a failed hook, which
// may contain secrets.
var runtimeReasons = []string{
	reasonPullBackOff, "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"SignatureValidationFailed",
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
		if !slices.Contains(runtimeReasons, reason) {
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
			return Problem{} // a completed init container
		}
	case ended != nil && c.number(0, "restartCount") >= restartsOfCrashLoop:
		return failed(shorten(crashLoop(name, ended)))
	default:
		return waiting(name + " is not ready")
	}
}

// ended returns the last termination of a container.
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

// exit says how a container ended. The message is included only if it is from the runtime, about a container that never
// ran.
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

// pullError returns the part of a message about an image pull that is the same during attempts and back-off.
func pullError(message string) string {
	if strings.HasPrefix(message, "Back-off pulling image") {
		if _, cause, found := strings.Cut(message, ": "+reasonPull+": "); found {
			return cause
		}
	}
	return message
}

// withoutPreemption removes the scheduler's text about preemption, which is long and follows from the rest.
func withoutPreemption(message string) string {
	before, _, _ := strings.Cut(message, " preemption: ")
	return strings.TrimRight(before, " ,")
}

// identifier matches IDs that container runtimes generate for every attempt.
var identifier = regexp.MustCompile(`[0-9a-f]{32,}`)

func withoutIDs(message string) string { return identifier.ReplaceAllString(message, "...") }

// shorten bounds a text about a pod. It copies the text, so that the whole message is not kept in memory.
func shorten(text string) string { return strings.Clone(untrusted.Text(text, maxPodMessage)) }
