package controlplane_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/webhooks/controlplane"
)

const named = `{apiVersion: %s, kind: %s, metadata: {name: %s}}`

// CPW-11, CPW-12, CPW-13
func TestCPW_EachObjectHasItsHook(t *testing.T) {
	const apps, druid, vpa = "apps/v1", "druid.gardener.cloud/v1alpha1", "autoscaling.k8s.io/v1"
	tests := []struct{ version, kind, name, hook string }{
		{"v1", "Service", "kube-apiserver", "Service"},
		{"v1", "Service", "other", ""},
		{apps, "Deployment", "kube-apiserver", "KubeAPIServer"},
		{apps, "Deployment", "virtual-garden-kube-apiserver", "KubeAPIServer"},
		{apps, "Deployment", "kube-controller-manager", "KubeControllerManager"},
		{apps, "Deployment", "virtual-garden-kube-controller-manager", "KubeControllerManager"},
		{apps, "Deployment", "kube-scheduler", "KubeScheduler"},
		{apps, "Deployment", "virtual-garden-kube-scheduler", ""},
		{apps, "Deployment", "cluster-autoscaler", "ClusterAutoscaler"},
		{apps, "Deployment", "machine-controller-manager", "MachineControllerManager"},
		{apps, "Deployment", "gardener-resource-manager", "GardenerResourceManager"},
		{apps, "Deployment", "virtual-garden-gardener-resource-manager", "GardenerResourceManager"},
		{apps, "Deployment", "vpn-seed-server", "VPNSeedServer"},
		{apps, "Deployment", "other", ""},
		{apps, "StatefulSet", "vpn-seed-server", "VPNSeedServerStatefulSet"},
		{apps, "StatefulSet", "other", ""},
		{vpa, "VerticalPodAutoscaler", "machine-controller-manager-vpa", "VPA"},
		{"autoscaling.k8s.io/v1beta2", "VerticalPodAutoscaler", "machine-controller-manager-vpa", "VPA"},
		{vpa, "VerticalPodAutoscaler", "other", ""},
		{druid, "Etcd", "etcd-main", "ETCD"},
		{druid, "Etcd", "etcd-events", "ETCD"},
		{druid, "Etcd", "virtual-garden-etcd-main", "ETCD"},
		{druid, "Etcd", "other", ""},
	}
	for _, test := range tests {
		t.Run(test.kind+" "+test.name, func(t *testing.T) {
			g := NewWithT(t)
			document := object(t, fmt.Sprintf(named, test.version, test.kind, test.name))
			r := &recorder{}
			w := define(t, r, nil)
			created, _ := handle(t, w, request(t, document, nil))
			updated, _ := handle(t, w, request(t, document, document))
			g.Expect(created.Denied).To(BeNil())
			g.Expect(updated.Denied).To(BeNil())
			if test.hook == "" {
				g.Expect(r.calls).To(BeEmpty())
				return
			}
			g.Expect(r.calls).To(Equal([]string{
				fmt.Sprintf("%s(%s, none)", test.hook, test.name), fmt.Sprintf("%s(%s, %s)", test.hook, test.name,
					test.name),
			}))

			deleting := object(t, fmt.Sprintf(
				`{apiVersion: %s, kind: %s, metadata: {name: %s, deletionTimestamp: "2026-01-01T00:00:00Z"}}`,
				test.version, test.kind, test.name))
			r = &recorder{}
			answer, _ := handle(t, define(t, r, nil), request(t, deleting, deleting))
			g.Expect(answer).To(BeZero())
			g.Expect(r.calls).To(BeEmpty())
		})
	}
}

// The base changes nothing, for all that is deployed.
func TestNoopEnsurer(t *testing.T) {
	for _, text := range []string{
		fmt.Sprintf(named, "apps/v1", "Deployment", "kube-apiserver"),
		fmt.Sprintf(named, "apps/v1", "Deployment", "vpn-seed-server"),
		fmt.Sprintf(named, "v1", "Service", "kube-apiserver"),
		configuration("reconcile", "new"), configuration("provision", "new"),
	} {
		document := object(t, text)
		answer, _ := handle(t, define(t, controlplane.NoopEnsurer{}, reader(cluster())), request(t, document, document))
		NewWithT(t).Expect(answer).To(BeZero())
	}
}

// configuration is an OperatingSystemConfig. The types of this project do not have the fields "unknown".
func configuration(purpose, pool string) string {
	return fmt.Sprintf(`
apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: osc, labels: {worker.gardener.cloud/pool: %s}}
spec:
  type: example
  purpose: %s
  unknown: {stays: true}
  criConfig: {name: containerd, unknown: stays}
  units:
  - {name: other.service, content: "[Unit]\n"}
  - name: kubelet.service
    unknown: stays
    content: |
      [Unit]
      Description=kubelet daemon
      # why it is restarted
      [Service]
      ExecStart=/opt/bin/kubelet \
          --config=/var/lib/kubelet/config/kubelet
  files:
  - path: /var/lib/kubelet/config/kubelet
    unknown: stays
    content:
      inline:
        encoding: b64
        data: %s
  - path: /etc/sysctl.d/99-k8s-general.conf
    content: {inline: {encoding: "", data: "a=1\n"}}
`, pool, purpose, kubeletConfiguration)
}

// kubeletConfiguration is {apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, maxPods: 110}.
const kubeletConfiguration = "YXBpVmVyc2lvbjoga3ViZWxldC5jb25maWcuazhzLmlvL3YxYmV0YTEKa2luZDogS3ViZWxldENvbmZpZ3Vy" +
	"YXRpb24KbWF4UG9kczogMTEwCg=="

func TestCPW15_ProvisionHooks(t *testing.T) {
	g := NewWithT(t)
	document := object(t, configuration("provision", "new"))
	r := &recorder{}
	w := define(t, r, nil)
	handle(t, w, request(t, document, nil))
	handle(t, w, request(t, document, document))
	g.Expect(r.calls).To(Equal([]string{
		"ProvisionFiles(2, none)", "ProvisionUnits(2, none)", "ProvisionFiles(2, 2)", "ProvisionUnits(2, 2)",
	}))
}

func TestCPW16_OrderAndArgumentsOfHooksOfNodes(t *testing.T) {
	g := NewWithT(t)
	document := object(t, configuration("reconcile", "new"))
	r := &recorder{}
	answer, changed := handle(t, define(t, r, reader(cluster())), request(t, document, document))
	g.Expect(answer.Denied).To(BeNil())
	g.Expect(r.calls).To(Equal([]string{
		"Unit 1.36.3(3, 3)", "Configuration 1.36.3(3, 3)", "Kernel(a=1\n, a=1\n)", "Should 1.36.3(, )", "Cloud(, )",
		"Files(3, 2)", "Units(2, 2)", "CRI(containerd, containerd)",
	}))
	g.Expect(changed).To(MatchYAML(fmt.Sprintf(`
apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: osc, labels: {worker.gardener.cloud/pool: new}}
spec:
  type: example
  purpose: reconcile
  unknown: {stays: true}
  criConfig: {name: containerd, unknown: stays}
  units:
  - {name: other.service, content: "[Unit]\n"}
  - name: kubelet.service
    unknown: stays
    content: |
      [Unit]
      Description=kubelet daemon
      # why it is restarted

      [Service]
      ExecStart=/opt/bin/kubelet \
          --config=/var/lib/kubelet/config/kubelet
      Nice=1
  - name: extra.service
  files:
  - path: /var/lib/kubelet/config/kubelet
    unknown: stays
    content:
      inline:
        encoding: b64
        data: %s
  - path: /etc/sysctl.d/99-k8s-general.conf
    content: {inline: {encoding: "", data: "a=1\nb=2"}}
  - path: /var/lib/kubelet/cloudprovider.conf
    permissions: 420
    content: {inline: {encoding: b64, data: Y2xvdWQ=}}
  - path: /extra
    content: {}
`, "YXBpVmVyc2lvbjoga3ViZWxldC5jb25maWcuazhzLmlvL3YxYmV0YTEKZW5hYmxlQ29udHJvbGxlckF0dGFjaERldGFjaDogdHJ1ZQpraW5k"+
		"OiBLdWJl"+
		"bGV0Q29uZmlndXJhdGlvbgptYXhQb2RzOiAxMTAK")))
}

func TestCPW17_HooksThatLeaveNothing(t *testing.T) {
	g := NewWithT(t)
	document := object(t, configuration("reconcile", "new"))
	_, changed := handle(t, define(t, &recorder{without: true}, reader(cluster())), request(t, document, nil))
	g.Expect(string(changed)).To(ContainSubstring(`"data":"a=1\n"`))
	g.Expect(string(changed)).NotTo(ContainSubstring("cloudprovider.conf"))
}

func TestCPW18_VersionOfThePool(t *testing.T) {
	for pool, version := range map[string]string{"old": "1.34.1", "new": "1.36.3", "gone": "1.36.3"} {
		r := &recorder{}
		handle(t, define(t, r, reader(cluster())), request(t, object(t, configuration("reconcile", pool)), nil))
		NewWithT(t).Expect(r.calls[0]).To(HavePrefix("Unit "+version+"("), pool)
	}
}

func TestCPW19_WithoutUnitAndFiles(t *testing.T) {
	g := NewWithT(t)
	document := object(t, `
apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: osc}
spec: {type: example, purpose: reconcile}
`)
	r := &recorder{}
	handle(t, define(t, r, reader(cluster())), request(t, document, nil))
	g.Expect(r.calls).To(Equal([]string{"Should 1.36.3(, )", "Cloud(, )", "Files(1, none)", "Units(0, none)"}))
}

func TestUnusablePartsOfNodesAreRefused(t *testing.T) {
	tests := map[string]struct{ part, message string }{
		"no unit": {`units: [{name: kubelet.service, content: "x"}]`, "line 1 is no option"},
		"no base64": {
			`files: [{path: /var/lib/kubelet/config/kubelet, content: {inline: {encoding: b64, data: "%"}}}]`,
			"illegal base64",
		},
		"another encoding": {
			`files: [{path: /var/lib/kubelet/config/kubelet, content: {inline: {encoding: gzip, data: x}}}]`,
			"encoding gzip",
		},
		"another kind": {
			`files: [{path: /var/lib/kubelet/config/kubelet, content: {inline: {encoding: "", data: "kind: Pod"}}}]`,
			"no KubeletConfiguration",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			document := object(t, `
apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
metadata: {name: osc}
spec: {type: example, purpose: reconcile, `+test.part+`}
`)
			answer, _ := handle(t, define(t, &recorder{}, reader(cluster())), request(t, document, nil))
			g.Expect(answer.Denied.Code).To(BeEquivalentTo(http.StatusForbidden))
			g.Expect(answer.Denied.Message).To(ContainSubstring(test.message))
		})
	}
}

func TestTheFirstErrorOfAHookEndsAll(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{err: errors.New("refused by the provider")}
	answer, _ := handle(t, define(t, r, reader(cluster())),
		request(t, object(t, configuration("reconcile", "new")), nil))
	g.Expect(answer.Denied.Message).To(Equal("unit kubelet.service: refused by the provider"))
	g.Expect(r.calls).To(HaveLen(1))
}
