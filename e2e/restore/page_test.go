package restore

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/hack/tools"
)

// howTo is the page whose commands are run.
const howTo = "../../docs/how-to/back-up-and-restore.md"

// section is a section of the page, and blocks are its commands.
var (
	section = regexp.MustCompile(`(?m)^## (.*)$`)
	blocks  = regexp.MustCompile("(?s)```shell\n(.*?)```")
	scale   = regexp.MustCompile(`scale deployment trellis --replicas=(\d)`)
)

// reader follows the page in a directory with the files that it names, and with kubectl, jq and trellisctl. The hub of
// the test stands for the pods of the Deployment: it runs while the Deployment has replicas.
type reader struct {
	*WithT
	t         *testing.T
	namespace string
	directory string
	commands  map[string][]string
	hub       *testbed.Hub
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{WithT: NewWithT(t), t: t, directory: t.TempDir(), commands: map[string][]string{}}
	r.namespace = testbed.Namespace(t, nil, source, target)
	page, err := os.ReadFile(howTo)
	r.Expect(err).NotTo(HaveOccurred())
	titles := section.FindAllSubmatchIndex(page, -1)
	for i, at := range titles {
		end := len(page)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		title := string(page[at[2]:at[3]])
		for _, block := range blocks.FindAllSubmatch(page[at[1]:end], -1) {
			r.commands[title] = append(r.commands[title], string(block[1]))
		}
	}
	kubectl, err := controlplane.Kubectl()
	r.Expect(err).NotTo(HaveOccurred())
	root, err := controlplane.Root()
	r.Expect(err).NotTo(HaveOccurred())
	jq, err := tools.Path(t.Context(), root, "jq", "gojq") // jq in Go, so that it need not be installed
	r.Expect(err).NotTo(HaveOccurred())
	for name, program := range map[string]string{"kubectl": kubectl, "jq": jq} {
		r.Expect(os.Symlink(program, filepath.Join(r.directory, name))).To(Succeed())
	}
	_, err = testbed.BuildCommand(t.Context(), root, "trellisctl", r.directory)
	r.Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string][]byte{"kubeconfig": source.Kubeconfig(), "target": target.Kubeconfig()} {
		r.Expect(os.WriteFile(filepath.Join(r.directory, name), content, 0o600)).To(Succeed())
	}
	labels := map[string]string{"app": "trellis"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testbed.HubNamespace, Name: "trellis"}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "trellis", Image: "trellis"}}
	r.Expect(source.Client.Create(t.Context(), deployment)).To(Succeed())
	t.Cleanup(func() {
		r.stop()
		_ = source.Client.Delete(context.Background(), deployment)
	})
	r.start()
	return r
}

func (r *reader) start() {
	r.t.Helper()
	hub, err := testbed.StartHub(r.t.Context(), source, testbed.HubOptions{})
	r.Expect(err).NotTo(HaveOccurred())
	r.hub = hub
}

func (r *reader) stop() {
	if r.hub != nil {
		r.hub.Stop()
		if r.t.Failed() {
			r.t.Logf("log of the hub:\n%s", r.hub.Log)
		}
	}
	r.hub = nil
}

// follow runs the commands of a section of the page.
func (r *reader) follow(title string) (printed string) {
	r.t.Helper()
	r.Expect(r.commands).To(HaveKey(title), "the page has no such section with commands")
	for _, block := range r.commands[title] {
		printed += r.shell(block)
		switch found := scale.FindStringSubmatch(block); {
		case found == nil:
		case found[1] == "0":
			r.stop()
		default:
			r.start()
		}
	}
	return printed
}

// shell runs a script as the reader would. A command of trellisctl may find something, which is exit code 3.
func (r *reader) shell(script string) string {
	r.t.Helper()
	script = strings.ReplaceAll(script, "shoot--foo--a", r.namespace)
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	command.Dir = r.directory
	command.Env = append(os.Environ(), "PATH="+r.directory+":"+os.Getenv("PATH"),
		"KUBECONFIG="+filepath.Join(r.directory, "kubeconfig"), "TRELLISCTL_ALLOW_NETWORK=127.0.0.0/8")
	out, err := command.CombinedOutput()
	r.t.Logf("$ %s\n%s", script, out)
	if strings.HasPrefix(script, "trellisctl ") && command.ProcessState.ExitCode() == 3 {
		err = nil
	}
	r.Expect(err).NotTo(HaveOccurred(), "%s\n%s", script, out)
	return string(out)
}

// lose deletes everything that the section on backups saves, without any effect on the target.
func (r *reader) lose() {
	r.t.Helper()
	r.Expect(r.hub).To(BeNil(), "a hub would prune what is in the target")
	r.shell(`kubectl -n shoot--foo--a get managedresources,targetclusters -o name |
  xargs kubectl -n shoot--foo--a patch --type merge -p '{"metadata":{"finalizers":null}}'
kubectl -n shoot--foo--a delete managedresources,targetclusters,secrets --all --wait
`)
	list := &corev1.SecretList{}
	r.Expect(source.Client.List(r.t.Context(), list, client.InNamespace(r.namespace))).To(Succeed())
	r.Expect(list.Items).To(BeEmpty())
}
