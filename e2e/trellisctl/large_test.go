package trellisctl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellisctl/cli"
	"github.com/trellis-hub/trellis/cmd/trellisctl/pack"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The fleet of BenchmarkLargeFleet.
const (
	largeTargets = 1000
	perTarget    = 20
	perInventory = 15
	// rolledOut is the number of the ManagedResource of each target whose content is there, for rollout status.
	rolledOut = 3
)

// BenchmarkLargeFleet measures commands at 1,000 targets and 20,000 ManagedResources on a real API server, each in a
// process of its own: the time of a command, and the most memory that was resident. Filling the server takes minutes.
// Linux counts the memory of the process that starts another one as the other's, so the memory is an upper bound: this
// process has about 110 MiB itself.
//
//	go test -run '^$' -bench LargeFleet -benchtime 5x ./e2e/trellisctl
func BenchmarkLargeFleet(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("reads the memory of a process as Linux reports it")
	}
	g := NewWithT(b)
	plane := controlplane.StartForTest(b, controlplane.Options{Name: "large"})
	fill(b, plane)
	directory := b.TempDir()
	program, access := filepath.Join(directory, "trellisctl"), filepath.Join(directory, "kubeconfig")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", program,
		"github.com/trellis-hub/trellis/cmd/trellisctl")
	out, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(os.WriteFile(access, plane.Kubeconfig(), 0o600)).To(Succeed())
	for _, args := range []string{"problems -A", "status", "get mr -A --not-ready", "get cluster -A",
		"rollout status mr mr-3 -A"} {
		b.Run(strings.ReplaceAll(args, " ", "_"), func(b *testing.B) {
			most := int64(0)
			for b.Loop() {
				command := exec.CommandContext(b.Context(), program,
					append([]string{"--kubeconfig", access}, strings.Fields(args)...)...)
				out, _ := command.CombinedOutput() // it has found something, exit code 3
				if code := command.ProcessState.ExitCode(); code != cli.ExitFound && code != cli.ExitOK {
					b.Fatalf("%s: %s", args, out)
				}
				if usage, is := command.ProcessState.SysUsage().(*syscall.Rusage); is {
					most = max(most, usage.Maxrss)
				}
			}
			b.ReportMetric(float64(most)/1024, "MiB-resident")
		})
	}
}

// fill creates the fleet: every fiftieth target is down, and a ManagedResource in a hundred is not healthy.
func fill(b *testing.B, plane *controlplane.ControlPlane) {
	b.Helper()
	g := NewWithT(b)
	config := rest.CopyConfig(plane.RESTConfig())
	config.QPS, config.Burst = -1, 0
	c, err := client.New(config, client.Options{Scheme: cli.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	installer, err := client.New(config, client.Options{Scheme: testbed.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(testbed.InstallSource(b.Context(), installer)).To(Succeed())
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range largeTargets {
		group.Go(func() error { return fillTarget(ctx, c, i) })
	}
	g.Expect(group.Wait()).To(Succeed())
}

func fillTarget(ctx context.Context, c client.Client, i int) error {
	namespace := fmt.Sprintf("shoot--p--c%04d", i)
	uid := fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
	down := i%50 == 1
	if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shoot"}}
	if err := c.Create(ctx, tc); err != nil {
		return err
	}
	ready := metav1.Condition{Type: "Ready", Status: "True", Reason: "Ready",
		Message: "the hub does its work in the target", LastTransitionTime: metav1.Now()}
	if down {
		ready.Status, ready.Reason, ready.Message = "False", "Unreachable",
			fmt.Sprintf("dial tcp 10.0.%d.1:443: i/o timeout", i/50)
	}
	tc.Status.KubernetesVersion, tc.Status.Conditions = "v1.36.3", []metav1.Condition{ready}
	tc.Status.ClusterUID = types.UID(uid)
	if err := c.Status().Update(ctx, tc); err != nil {
		return err
	}
	for n := range perTarget {
		mr := largeManagedResource(namespace, uid, n)
		if n == rolledOut {
			content := largeSecret(namespace, n)
			mr.Status.SecretsDataChecksum = ptr.To(bundle.Decode(pack.Sources([]*corev1.Secret{content}),
				bundle.Limits{}).Checksum)
			if err := c.Create(ctx, content); err != nil {
				return err
			}
		}
		status := mr.Status
		if err := c.Create(ctx, mr); err != nil {
			return err
		}
		mr.Status = status
		mr.Status.ObservedGeneration = mr.Generation
		switch {
		case down:
			largeCondition(mr, "Ready", "Unknown", "TargetUnreachable", "the target does not answer")
		case (i*perTarget+n)%100 == 7:
			message := fmt.Sprintf("Deployment.apps shop/web is unhealthy: pod web-%x: "+
				"container web waits (ImagePullBackOff)", i)
			largeCondition(mr, "ResourcesHealthy", "False", "DeploymentUnhealthy", message)
			largeCondition(mr, "Ready", "False", "DeploymentUnhealthy", message)
		}
		if err := c.Status().Update(ctx, mr); err != nil {
			return err
		}
	}
	return nil
}

// largeSecret is the content of a ManagedResource, of some KiB.
func largeSecret(namespace string, n int) *corev1.Secret {
	manifest := testbed.ConfigMap("kube-system", "config-of-component", strings.Repeat("0123456789abcdef", 512))
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("managedresource-mr-%d", n)},
		Data:       map[string][]byte{"data.yaml": []byte(manifest)},
	}
}

// largeManagedResource is as those of an installation: an inventory, annotations of the hub, four conditions.
func largeManagedResource(namespace, uid string, n int) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name:   fmt.Sprintf("mr-%d", n),
		Labels: map[string]string{"origin": "gardener"},
		Annotations: map[string]string{hubv1alpha1.TargetUIDAnnotation: uid,
			hubv1alpha1.AppliedAnnotation: strings.Repeat("0123456789abcdef", 6)}}}
	mr.Spec.SecretRefs = []corev1.LocalObjectReference{{Name: fmt.Sprintf("managedresource-mr-%d", n)}}
	for i := range perInventory {
		ref := resourcesv1alpha1.ObjectReference{}
		ref.APIVersion, ref.Kind, ref.Namespace, ref.Name = "v1", "ConfigMap", "kube-system",
			fmt.Sprintf("config-of-component-%d-%d", n, i)
		ref.UID = types.UID(fmt.Sprintf("00000000-0000-0000-%04d-%012d", n, i))
		ref.Labels, ref.Annotations = map[string]string{"app": "component", "origin": "gardener"},
			map[string]string{"checksum/config": strings.Repeat("ab", 16)}
		mr.Status.Resources = append(mr.Status.Resources, ref)
	}
	largeCondition(mr, "ResourcesApplied", "True", "ApplySucceeded", "All resources are applied.")
	largeCondition(mr, "ResourcesHealthy", "True", "ResourcesHealthy", "All resources are healthy.")
	largeCondition(mr, "ResourcesProgressing", "False", "ResourcesRolledOut",
		"All resources have been fully rolled out.")
	largeCondition(mr, "Ready", "True", "Ready", "All resources are applied, healthy and rolled out.")
	return mr
}

func largeCondition(mr *resourcesv1alpha1.ManagedResource, conditionType, status, reason, message string) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	c := resourcesv1alpha1.Condition{Type: resourcesv1alpha1.ConditionType(conditionType),
		Status: resourcesv1alpha1.ConditionStatus(status),
		Reason: reason, Message: message, LastTransitionTime: now, LastUpdateTime: now}
	for i := range mr.Status.Conditions {
		if mr.Status.Conditions[i].Type == c.Type {
			mr.Status.Conditions[i] = c
			return
		}
	}
	mr.Status.Conditions = append(mr.Status.Conditions, c)
}
