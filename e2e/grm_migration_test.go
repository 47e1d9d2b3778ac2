//go:build grm

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// shoot is what a shoot has: workloads, settings of them, and a custom resource with its definition.
var shoot = []string{"workload", "settings", "custom"}

// manageShoot creates the ManagedResources of a shoot, in the way producers do it.
func (s *space) manageShoot() {
	s.t.Helper()
	s.takeTheirDefinition()
	s.t.Cleanup(func() {
		for _, object := range []client.Object{
			&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets." + s.name + ".example.com"}},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.name}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.name}},
		} {
			s.Expect(client.IgnoreNotFound(west.Client.Delete(s.ctx, object))).To(Succeed())
		}
	})
	object := func(apiVersion, kind, name, rest string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"namespace":%q,"name":%q},%s}`, apiVersion, kind, s.name, name, rest)
	}
	pods := func(app string) string {
		return fmt.Sprintf(`"selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"serviceAccountName":"web",
			"containers":[{"name":"main","image":"example.com/web:1","ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"0.010","memory":"1024Ki"}}}]}}`, app)
	}
	workload := testbed.Content(s.name, "workload", "data.yaml.br")
	workload.Data["data.yaml.br"] = testbed.Brotli([]byte(strings.Join([]string{
		object("v1", "ServiceAccount", "web", `"automountServiceAccountToken":false`),
		object("apps/v1", "Deployment", "web", `"spec":{"replicas":2,`+pods("web")+`}`),
		object("apps/v1", "Deployment", "api", `"spec":{`+pods("api")+`}`),
		object("apps/v1", "StatefulSet", "store", `"spec":{"serviceName":"store",`+pods("store")+`}`),
		object("apps/v1", "DaemonSet", "agent", `"spec":{`+pods("agent")+`}`),
		object("batch/v1", "CronJob", "nightly", `"spec":{"schedule":"0 0 1 1 *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"example.com/job:1"}]}}}}}`),
		object("v1", "Service", "web", `"spec":{"selector":{"app":"web"},"ports":[{"port":80}]}`),
		object("v1", "Service", "store", `"spec":{"clusterIP":"None","selector":{"app":"store"},"ports":[{"port":80}]}`),
		object("v1", "Service", "outside", `"spec":{"type":"NodePort","selector":{"app":"api"},"ports":[{"port":80}]}`),
		object("policy/v1", "PodDisruptionBudget", "web", `"spec":{"maxUnavailable":1,"selector":{"matchLabels":{"app":"web"}}}`),
	}, "\n---\n")))
	mr := testbed.ManagedResource(s.name, "workload", "workload")
	mr.Spec.InjectLabels = map[string]string{"shoot.gardener.cloud/no-cleanup": "true"}
	s.manageWith(mr, workload)

	settings := []string{
		object("v1", "Secret", "password", `"stringData":{"password":"x"}`),
		object("v1", "Secret", "fixed", `"immutable":true,"data":{"key":"eA=="}`),
		object("rbac.authorization.k8s.io/v1", "Role", "web", `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`),
		object("rbac.authorization.k8s.io/v1", "RoleBinding", "web", `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"web"},"subjects":[{"kind":"ServiceAccount","name":"web"}]`),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", s.name, `"rules":[{"apiGroups":[""],"resources":["nodes"],"verbs":["get"]}]`),
		object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", s.name, fmt.Sprintf(`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%[1]q},"subjects":[{"kind":"ServiceAccount","name":"web","namespace":%[1]q}]`, s.name)),
		object("networking.k8s.io/v1", "NetworkPolicy", "deny", `"spec":{"podSelector":{},"policyTypes":["Ingress"]}`),
	}
	s.manage("settings", append(settings, s.settings("1")...)...)
	s.manage("custom", definition(s), instance(s), s.configMap("custom", "1"))
}

// settings are ConfigMaps.
func (s *space) settings(value string) (manifests []string) {
	for i := range 6 {
		manifests = append(manifests, s.configMap(fmt.Sprint("setting-", i), value))
	}
	return manifests
}

// identity is what stays of an object that is neither re-created nor changed.
type identity struct {
	uid        types.UID
	generation int64
}

// identities are those of everything in west that the ManagedResources list, and of the ReplicaSets behind the
// Deployments.
func (s *space) identities(names ...string) map[string]identity {
	s.t.Helper()
	found := map[string]identity{}
	for _, name := range names {
		for _, ref := range s.mr(name).Status.Resources {
			live := &unstructured.Unstructured{}
			live.SetAPIVersion(ref.APIVersion)
			live.SetKind(ref.Kind)
			s.Expect(west.Client.Get(s.ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, live)).To(Succeed())
			found[ref.Kind+" "+ref.Name] = identity{live.GetUID(), live.GetGeneration()}
		}
	}
	for _, kind := range []string{"ReplicaSet", "ControllerRevision"} {
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: kind + "List"}}
		s.Expect(west.Client.List(s.ctx, list, client.InNamespace(s.name))).To(Succeed())
		for i := range list.Items {
			found[kind+" "+list.Items[i].Name] = identity{uid: list.Items[i].UID}
		}
	}
	return found
}

// changed compares what identities found.
func changed(before, after map[string]identity) (differences []string) {
	for key := range before {
		if before[key] != after[key] {
			differences = append(differences, fmt.Sprintf("%s: %+v -> %+v", key, before[key], after[key]))
		}
	}
	for key := range after {
		if _, known := before[key]; !known {
			differences = append(differences, fmt.Sprintf("%s: new", key))
		}
	}
	return differences
}

// ofDescription is what the resource manager reports until the new generation is observed.
const ofDescription = "ResourcesHealthy=False/DeploymentUnhealthy"

// onlyAnnotated reports whether a difference is what the other description in an annotation makes of a Deployment, of
// which the generation counts annotations, too.
func onlyAnnotated(difference string) bool {
	return strings.HasPrefix(difference, "Deployment ") && strings.Contains(difference, "generation:1}") && strings.Contains(difference, "generation:2}") &&
		strings.Count(difference, strings.Fields(difference)[2]) == 2 // the same UID
}

// inventories are what ManagedResources own, without UIDs, which resource managers do not note; and their finalizers.
func (s *space) inventories(names ...string) map[string]any {
	s.t.Helper()
	found := map[string]any{}
	for _, name := range names {
		mr := s.mr(name)
		for i := range mr.Status.Resources {
			mr.Status.Resources[i].UID = ""
		}
		found[name], found["finalizers of "+name] = mr.Status.Resources, mr.Finalizers
	}
	return found
}

// without UIDs, an inventory is one that a resource manager wrote.
func (s *space) inventoryHasUIDs(name string) bool {
	s.t.Helper()
	return slices.ContainsFunc(s.mr(name).Status.Resources, func(r resourcesv1alpha1.ObjectReference) bool { return r.UID != "" })
}

// results are the sides that changes of conditions lead to.
func results(changes []string) []string {
	out := make([]string, 0, len(changes))
	for _, c := range changes {
		_, after, _ := strings.Cut(c, " -> ")
		out = append(out, after)
	}
	return out
}

// stillGood matches what is said of a ManagedResource all the way from one manager to the other.
const stillGood = `^((ResourcesApplied=True/ApplySucceeded|ResourcesHealthy=True/ResourcesHealthy|ResourcesProgressing=False/ResourcesRolledOut|Ready=True/Ready)@\S+ )+$`

// changeContent replaces the content of settings by ConfigMaps that say "2", one of them gone, and expects it in the
// target.
func (s *space) changeContent() {
	s.t.Helper()
	content := testbed.Content(s.name, "settings", "objects.yaml", s.settings("2")[1:]...)
	s.Expect(source.Client.Update(s.ctx, content)).To(Succeed())
	s.Eventually(func() string { return s.value(west, "setting-1") }, 2*patience).Should(Equal("2"))
	s.Eventually(func() string { return s.value(west, "setting-0") }, 2*patience).Should(BeEmpty())
	s.Eventually(func() error {
		return west.Client.Get(s.ctx, s.key("password"), &corev1.Secret{})
	}, 2*patience).ShouldNot(Succeed())
	s.eventuallyGood("settings")
}

func TestGRMIsTakenOver(t *testing.T) {
	for name, end := range map[string]func(s *space, m *grm){
		"after it was stopped": func(s *space, m *grm) { m.stop(s) },
		"after it was killed":  func(_ *space, m *grm) { m.kill() },
		"while it continues under another class": func(s *space, m *grm) {
			m.stop(s)
			s.startGRM("retired", grmOtherLease, west)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t, nil)
			s.manageShoot()
			m := s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west)
			s.eventuallyGood(shoot...)
			theirs := s.inventories(shoot...)
			before := s.identities(shoot...)
			s.Expect(len(before)).To(BeNumerically(">=", 25))

			// Both at the same time: the hub does nothing.
			askedSource, askedTarget := listen(s.WithT, source), listen(s.WithT, west)
			writes := func() []string {
				toTarget := without(askedTarget(), func(e request) bool { return !isWrite(e) })
				return texts(slices.Concat(s.writesToMRs(askedSource()), toTarget))
			}
			s.register("target", west)
			s.startHub()
			s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/ManagedElsewhere"))
			s.Expect(source.Client.Update(s.ctx, testbed.Content(
				s.name, "custom", "objects.yaml", definition(s), instance(s), s.configMap("custom", "2")))).To(Succeed())
			s.eventuallyValue(west, "custom", "2")
			s.eventuallyGood(shoot...)
			s.edit(west, "setting-0", "of another client")
			s.Consistently(writes, 4*time.Second, time.Second).Should(BeEmpty(), "beside the resource manager")
			s.Expect(s.value(west, "setting-0")).To(Equal("of another client"))
			s.edit(west, "setting-0", "1")
			s.Expect(s.inventories(shoot...)).To(Equal(theirs))

			changes := s.watchStatus()
			ended := time.Now()
			end(s, m)
			s.eventuallyReady(shoot...)
			for _, result := range results(changes()) {
				s.Expect(result).To(MatchRegexp(stillGood))
			}
			s.Expect(changed(before, s.identities(shoot...))).To(BeEmpty(), "nothing is re-created or rolled out")
			s.Expect(s.inventories(shoot...)).To(Equal(theirs))
			s.Eventually(func() string { return s.targetCondition("target") }).Should(HavePrefix("True/"))

			first := s.writesToMRs(askedSource())[0].Time
			toTarget := without(askedTarget(), func(e request) bool { return !isWrite(e) })
			t.Logf("first write to a ManagedResource %s after the end; writes to ManagedResources: %d, to the target: %d for %d objects",
				first.Sub(ended).Round(time.Millisecond), len(s.writesToMRs(askedSource())), len(toTarget), s.objects())
			s.Expect(len(toTarget)).To(BeNumerically("<=", 2*s.objects()), "%s", strings.Join(texts(toTarget), "\n"))

			s.changeContent()
			s.eventuallyReady(shoot...)
		})
	}
}

// objects counts what the shoot's ManagedResources own.
func (s *space) objects() (count int) {
	for _, name := range shoot {
		count += len(s.mr(name).Status.Resources)
	}
	return count
}

// An operator wants to know in advance what the hub would do, while the resource manager is running.
func TestGRMIsNotDisturbedByADryRun(t *testing.T) {
	s := newSpace(t, nil)
	s.manageShoot()
	s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west)
	s.eventuallyGood(shoot...)
	theirs := s.inventories(shoot...)
	s.edit(west, "setting-0", "of another client")
	s.edit(west, "custom", "of another client")
	s.register("target", west)
	askedSource, askedTarget := listen(s.WithT, source), listen(s.WithT, west)
	planned := func(e request) bool { return strings.Contains(e.RequestURI, "dryRun=All") }
	testbed.StartHubForTest(t, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		for i := range c.Classes {
			c.Classes[i].DryRun = true
		}
		c.Controllers.TargetCluster.SyncPeriod.Duration = time.Second
	}})
	plan := func() *hubv1alpha1.DryRunReport { return s.target("target").Status.DryRun }
	s.Eventually(func() int { return len(askedTarget()) - len(without(askedTarget(), planned)) }).Should(BeNumerically(">=", s.objects()))
	s.Eventually(plan).Should(Equal(&hubv1alpha1.DryRunReport{Updates: 2}), "that would be undone, and nothing else is to do")
	s.Expect(s.targetCondition("target")).To(Equal("False/ManagedElsewhere"))

	s.Expect(texts(s.writesToMRs(askedSource()))).To(BeEmpty())
	s.Expect(texts(without(askedTarget(), planned, func(e request) bool { return !isWrite(e) }))).To(BeEmpty())
	s.Expect(s.value(west, "setting-0")).To(Equal("of another client"))
	s.Expect(s.inventories(shoot...)).To(Equal(theirs))
}

// The inventory of the resource manager is the base of the merge, and says what to delete: the content changes while
// neither manager runs.
func TestGRMIsTakenOverWithItsInventory(t *testing.T) {
	s := newSpace(t, nil)
	labelled := func(labels string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"labelled","labels":{%s},"annotations":{%s}},"data":{"key":"1"}}`, s.name, labels, labels)
	}
	s.manage("mr", labelled(`"kept":"1","dropped":"1","changed":"1"`), s.configMap("unwanted", "1"))
	m := s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west)
	s.eventuallyGood("mr")
	uid := s.uid(west, "labelled")
	s.register("target", west)
	s.startHub()
	s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/ManagedElsewhere"))

	m.kill()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "labelled"}}
	mine := `{"metadata":{"labels":{"changed":"2","mine":"1"},"annotations":{"changed":"2","mine":"1"}}}`
	s.Expect(west.Client.Patch(s.ctx, cm, client.RawPatch(types.MergePatchType, []byte(mine)),
		client.FieldOwner("another-client"))).To(Succeed())
	s.Expect(source.Client.Update(s.ctx, testbed.Content(
		s.name, "mr", "objects.yaml", labelled(`"kept":"1"`), s.configMap("wanted", "1")))).To(Succeed())
	s.Expect(s.holder(grmLease)).NotTo(BeEmpty(), "the Lease is still held, so no process acts in the namespace")

	s.eventuallyValue(west, "wanted", "1")
	s.eventuallyReady("mr")
	s.eventuallyValue(west, "unwanted", "")
	s.Expect(west.Client.Get(s.ctx, s.key("labelled"), cm)).To(Succeed())
	s.Expect(cm.UID).To(Equal(uid))
	s.Expect(cm.Labels).To(And(HaveKeyWithValue("kept", "1"), HaveKeyWithValue("changed", "2"), HaveKeyWithValue("mine", "1"), Not(HaveKey("dropped"))))
	s.Expect(cm.Annotations).To(And(HaveKeyWithValue("kept", "1"), HaveKeyWithValue("changed", "2"), HaveKeyWithValue("mine", "1"), Not(HaveKey("dropped"))))
}

func TestGRMGetsItBack(t *testing.T) {
	for name, test := range map[string]struct {
		// leave is what an operator does to the hub before and after the start of the resource manager.
		leave func(s *space, h *testbed.Hub)
		// after is what the operator does once the resource manager is running.
		after func(s *space, h *testbed.Hub, m *grm)
	}{
		"from a hub that was stopped, and loses it again": {
			leave: func(s *space, h *testbed.Hub) { s.stopHub(h) },
			after: func(s *space, _ *testbed.Hub, m *grm) {
				before := s.identities(shoot...)
				m.stop(s)
				s.startHub()
				s.Eventually(func() bool {
					return slices.ContainsFunc(shoot, func(name string) bool { return !s.inventoryHasUIDs(name) })
				}).Should(BeFalse())
				s.eventuallyReady(shoot...)
				s.Expect(changed(before, s.identities(shoot...))).To(BeEmpty())
			},
		},
		"from a hub that continues elsewhere": {
			leave: func(s *space, _ *testbed.Hub) {
				tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "target"}}
				s.Expect(source.Client.Patch(s.ctx, tc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`)))).To(Succeed())
				s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/Paused"))
			},
			after: func(s *space, _ *testbed.Hub, m *grm) {
				s.Expect(s.targetCondition("target")).To(Equal("False/ManagedElsewhere"))
				asked := listen(s.WithT, source)
				s.unregister("target")
				for _, name := range shoot {
					s.patchMR(name, `{"metadata":{"annotations":{"hub.gardener.cloud/target-uid":null,"hub.gardener.cloud/applied":null}}}`)
				}
				s.eventuallyTargetGone("target")
				before := s.inventories(shoot...)
				m.stop(s)
				s.Consistently(func() []string { return texts(s.writesToMRs(asked())) }, 4*time.Second, time.Second).Should(BeEmpty())
				s.Expect(s.inventories(shoot...)).To(Equal(before))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t, nil)
			s.register("target", west)
			h := s.startHub()
			s.manageShoot()
			s.eventuallyReady(shoot...)
			s.eventuallyGood(shoot...)
			before := s.identities(shoot...)
			ours := s.inventories(shoot...)
			changes := s.watchStatus()

			test.leave(s, h)
			m := s.startGRM(resourcesv1alpha1.DefaultClassName, grmLease, west)
			for _, name := range shoot {
				s.Eventually(func() bool { return s.inventoryHasUIDs(name) }, 2*patience).Should(BeFalse(), "the resource manager wrote its inventory")
			}
			s.eventuallyGood(shoot...)
			s.Expect(slices.DeleteFunc(changed(before, s.identities(shoot...)), onlyAnnotated)).To(BeEmpty(), "nothing is re-created or rolled out")
			s.Expect(s.inventories(shoot...)).To(Equal(ours))
			seen := changes()
			for _, result := range results(seen) {
				result = strings.ReplaceAll(result, ofDescription, "")
				s.Expect(result).NotTo(MatchRegexp(`Resources(Applied|Healthy)=False`))
			}
			pending := regexp.MustCompile(`ResourcesHealthy=True.* -> .*ResourcesHealthy=Unknown/ChecksPending`)
			for _, name := range shoot {
				once := slices.DeleteFunc(changesOf(slices.Clone(seen), name), func(c string) bool { return !pending.MatchString(c) })
				s.Expect(once).To(HaveLen(1), "%s: %s", name, strings.Join(seen, "\n"))
			}

			s.changeContent()
			test.after(s, h, m)
		})
	}
}
