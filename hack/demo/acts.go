package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// byHand is the field manager of changes by hand.
const byHand = client.FieldOwner("somebody")

// outage is how long a target is left alone, with the others being watched.
const outage = 5 * time.Second

// quiet is how long nothing changes before an act counts as over.
const quiet = 500 * time.Millisecond

// show goes through the acts. Each fails if what it wants to show is not true, and all do if the hub ends.
func (w *world) show(ctx context.Context) error {
	w.act("The hub starts")
	if err := w.hubStarts(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-w.hub.Done():
			cancel(errors.New("the hub has ended"))
		case <-ctx.Done():
		}
	}()
	for _, act := range []struct {
		name string
		play func(context.Context) error
	}{
		{"Three targets are registered", w.targetsConnect},
		{"ManagedResources become ready", w.resourcesBecomeReady},
		{"Drift is corrected", w.driftIsCorrected},
		{"A roll-out gets stuck", w.rolloutGetsStuck},
		{"A target goes away and comes back", w.targetGoesAway},
		{"A token is rotated", w.tokenIsRotated},
		{"A component asks for a token", w.tokenIsRequested},
		{"A node joins a target", w.nodeJoins},
		{"Pods get what their target's settings say", w.podsAreChanged},
		{"A ManagedResource is removed", w.resourceIsRemoved},
	} {
		w.act(act.name)
		err := act.play(ctx)
		if err == nil {
			err = w.settle(ctx)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", act.name, err)
		}
	}
	return nil
}

func (w *world) hubStarts(ctx context.Context) error {
	began := time.Now()
	config, err := hubConfig()
	if err != nil {
		return err
	}
	if w.hub, err = testbed.StartProcess(ctx, w.binary, w.dir, w.source, config); err != nil {
		return err
	}
	w.measured(time.Since(began), "it is ready, as service account %s/%s of the source cluster", testbed.HubNamespace,
		chart.ServiceAccount)
	if err := w.watchHub(ctx); err != nil {
		return err
	}
	user := "system:serviceaccount:" + testbed.HubNamespace + ":" + chart.ServiceAccount
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "secrets", Namespace: namespace(w.alpha)},
		{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: namespace(w.alpha)},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
		if err := w.source.Client.Create(ctx, review); err != nil {
			return fmt.Errorf("asking for the hub's rights: %w", err)
		}
		if review.Status.Allowed {
			return fmt.Errorf("the hub itself may %s %s in the source cluster", attributes.Verb, attributes.Resource)
		}
	}
	w.printf("it may create no Secrets, workloads or rights there; for class seed it has a second one")
	return nil
}

// watchHub starts a Prometheus that looks at the hub, if one is wanted.
func (w *world) watchHub(ctx context.Context) error {
	if w.prometheus == "" {
		return nil
	}
	dir := filepath.Join(w.dir, "monitoring")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("making room for files: %w", err)
	}
	var err error
	if w.monitoring, err = testbed.StartMonitoring(ctx, testbed.MonitoringOptions{
		Binaries: w.prometheus, Dir: dir, Dashboards: filepath.Join(w.root, "charts", "trellis", "monitoring", "dashboards"),
	}); err != nil {
		return err
	}
	w.printf("Prometheus looks at it, with the rules of the chart: %s", w.monitoring.URL)
	return w.monitoring.Watch(w.hub)
}

func (w *world) targetsConnect(ctx context.Context) error {
	group := newChorus(w)
	for _, target := range w.targets() {
		kubeconfig, err := target.Access(ctx, "first", 2*time.Hour)
		if err != nil {
			return err
		}
		if err := w.source.Client.Create(ctx, testbed.Registration(namespace(target), target.Name, kubeconfig)); err != nil {
			return fmt.Errorf("registering %s: %w", target.Name, err)
		}
		ref := testbed.TargetClusterRef(namespace(target), target.Name)
		group.await(ctx, ref, ready, func(e testbed.Entry) string {
			version := ""
			if tc, ok := e.Object.(*hubv1alpha1.TargetCluster); ok {
				version = tc.Status.KubernetesVersion
			}
			return fmt.Sprintf("%s is connected and ready: Kubernetes %s", target.Name, version)
		})
	}
	return group.wait()
}

func (w *world) resourcesBecomeReady(ctx context.Context) error {
	plain := dashboards(20)
	compressed := testbed.Brotli([]byte(plain))
	type resource struct {
		target  *testbed.Cluster
		name    string
		class   string
		key     string
		content string
		about   string
	}
	resources := []resource{
		{w.alpha, "cluster-autoscaler", "seed", "objects.yaml", file("manifests/seed.yaml"), "class seed: a Deployment in the source"},
		{w.alpha, "dashboards", "", "data.yaml.br", string(compressed),
			fmt.Sprintf("21 objects, %d bytes in %d by Brotli", len(plain), len(compressed))},
		{w.beta, "backups", "", "objects.yaml", file("manifests/backups.yaml"), "a CRD and an object of its kind"},
	}
	for _, target := range w.targets() {
		resources = append(resources, resource{target, "web", "", "objects.yaml", file("manifests/web.yaml"), "a Deployment of 3 pods, and what it needs"})
	}
	group := newChorus(w)
	for _, r := range resources {
		mr := testbed.ManagedResource(namespace(r.target), r.name, r.name)
		if r.class != "" {
			mr.Spec.Class = &r.class
		}
		for _, object := range []client.Object{testbed.Content(mr.Namespace, r.name, r.key, r.content), mr} {
			if err := w.source.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %s: %w", client.ObjectKeyFromObject(object), err)
			}
		}
		group.await(ctx, testbed.ManagedResourceRef(mr.Namespace, mr.Name), ready, func(testbed.Entry) string {
			return fmt.Sprintf("%-24s  %s", r.target.Name+"/"+r.name, r.about)
		})
	}
	if err := group.wait(); err != nil {
		return err
	}
	return w.checkContents(ctx)
}

// checkContents looks at what the ManagedResources claim.
func (w *world) checkContents(ctx context.Context) error {
	for _, target := range w.targets() {
		web, err := live(ctx, target, deployment())
		if err != nil {
			return err
		}
		if web.Status.AvailableReplicas != 3 {
			return fmt.Errorf("the Deployment in %s has %d available pods", target.Name, web.Status.AvailableReplicas)
		}
	}
	w.printf("in each target, the 3 pods of the Deployment are really available")

	maps := &corev1.ConfigMapList{}
	if err := w.alpha.Client.List(ctx, maps, client.InNamespace("monitoring"), client.MatchingLabels{resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault}); err != nil {
		return fmt.Errorf("reading from alpha: %w", err)
	}
	if len(maps.Items) != 20 {
		return fmt.Errorf("alpha has %d dashboards", len(maps.Items))
	}
	backup := &unstructured.Unstructured{}
	backup.SetAPIVersion("demo.example.org/v1")
	backup.SetKind("Backup")
	backup.SetNamespace("default")
	backup.SetName("nightly")
	if _, err := live(ctx, w.beta, backup); err != nil {
		return err
	}
	_, err := live(ctx, w.source, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(w.alpha), Name: "cluster-autoscaler"}})
	return err
}

func (w *world) driftIsCorrected(ctx context.Context) error {
	if err := w.editSettings(ctx, w.alpha, "a ConfigMap in alpha was edited, and is back"); err != nil {
		return err
	}
	if err := w.printEvent(ctx, w.alpha, "settings"); err != nil {
		return err
	}
	scaled := client.RawPatch(client.Merge.Type(), []byte(`{"spec":{"replicas":0}}`))
	took, err := restored(ctx, w.beta, deployment(), func() error {
		return w.beta.Client.Patch(ctx, deployment(), scaled, byHand)
	}, func(u *unstructured.Unstructured) bool {
		replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		return replicas == 3
	})
	if err != nil {
		return err
	}
	w.measured(took, "a Deployment in beta was scaled to nothing, and is back at 3")
	return w.deleteDeployment(ctx)
}

// deleteDeployment deletes a Deployment and sees it come back, first itself and then its pods.
func (w *world) deleteDeployment(ctx context.Context) error {
	web, err := live(ctx, w.gamma, deployment())
	if err != nil {
		return err
	}
	other := func(u *unstructured.Unstructured) bool { return u.GetUID() != web.UID }
	began := time.Now()
	took, err := restored(ctx, w.gamma, deployment(), func() error {
		return w.gamma.Client.Delete(ctx, web, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}, other)
	if err != nil {
		return err
	}
	w.measured(took, "a Deployment in gamma was deleted, and is there again")
	seen, err := available(ctx, w.gamma, other)
	if err != nil {
		return err
	}
	w.measured(seen.Sub(began), "its 3 pods are available again")
	_, err = w.observer.Await(ctx, testbed.ManagedResourceRef(namespace(w.gamma), "web"), ready)
	return err
}

// editSettings edits a ConfigMap by hand and sees it come back.
func (w *world) editSettings(ctx context.Context, target *testbed.Cluster, text string) error {
	edit := client.RawPatch(client.Merge.Type(), []byte(`{"data":{"colour":"red"}}`))
	took, err := restored(ctx, target, settings(), func() error {
		return target.Client.Patch(ctx, settings(), edit, byHand)
	}, func(u *unstructured.Unstructured) bool { return hasString(u, "green", "data", "colour") })
	if err != nil {
		return err
	}
	w.measured(took, "%s", text)
	return nil
}

// printEvent prints the event by which the hub says who changed an object.
func (w *world) printEvent(ctx context.Context, target *testbed.Cluster, object string) error {
	for range 100 {
		list := &eventsv1.EventList{}
		if err := w.source.Client.List(ctx, list, client.InNamespace(namespace(target))); err != nil {
			return fmt.Errorf("reading events: %w", err)
		}
		for _, event := range list.Items {
			if strings.Contains(event.Note, object) && strings.Contains(event.Note, string(byHand)) {
				w.printf("its event: %s", event.Note)
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("no event says that %s was changed by %s", object, byHand)
}

func (w *world) targetGoesAway(ctx context.Context) error {
	ref := testbed.ManagedResourceRef(namespace(w.gamma), "web")
	began := time.Now()
	w.gamma.KillAPIServer()
	w.printf("the API server of gamma was killed")
	entry, err := w.observer.Await(ctx, ref, func(e testbed.Entry) bool {
		_, reason, _ := e.Condition("Ready")
		return e.Is("Ready", "Unknown") && reason == resourcesv1alpha1.ReasonTargetUnreachable
	})
	if err != nil {
		return err
	}
	if !entry.Is("ResourcesApplied", "True") {
		return errors.New("gamma's ManagedResource no longer counts as applied")
	}
	w.measured(entry.Since.Sub(began), "ManagedResource web of gamma turned Unknown (TargetUnreachable)")
	if entry, err = w.observer.Await(ctx, testbed.TargetClusterRef(namespace(w.gamma), w.gamma.Name), func(
		e testbed.Entry) bool {
		return !ready(e)
	}); err != nil {
		return err
	}
	_, reason, _ := entry.Condition("Ready")
	w.measured(entry.Since.Sub(began), "TargetCluster gamma is not ready (%s)", reason)

	select {
	case <-time.After(outage):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := w.editSettings(ctx, w.alpha, "meanwhile in alpha: an edited ConfigMap is back"); err != nil {
		return err
	}
	blue := strings.Replace(file("manifests/web.yaml"), "colour: green", "colour: blue", 1)
	if err := w.source.Client.Update(ctx, testbed.Content(namespace(w.gamma), "web", "objects.yaml", blue)); err != nil {
		return fmt.Errorf("changing the content for gamma: %w", err)
	}
	w.printf("meanwhile in the source cluster: the content for gamma was changed")
	if err := w.onlyUnready(began, ref, testbed.TargetClusterRef(namespace(w.gamma), w.gamma.Name)); err != nil {
		return err
	}
	w.printf("all this time, nothing of alpha, beta or the source was anything but ready")

	return w.targetComesBack(ctx, ref)
}

func (w *world) targetComesBack(ctx context.Context, ref testbed.Ref) error {
	checksum := func(e testbed.Entry) string {
		if mr, ok := e.Object.(*resourcesv1alpha1.ManagedResource); ok && mr.Status.SecretsDataChecksum != nil {
			return *mr.Status.SecretsDataChecksum
		}
		return ""
	}
	old := checksum(w.observer.Entries()[ref])
	w.printf("the API server of gamma is started again")
	group := newChorus(w)
	group.add(func() (time.Time, string, error) {
		err := w.gamma.StartAPIServer(ctx)
		return time.Now(), "it says itself that it is ready", err
	})
	group.add(func() (time.Time, string, error) {
		follower, err := followSoon(ctx, w.gamma, settings())
		if err != nil {
			return time.Time{}, "", err
		}
		defer follower.Stop()
		seen, err := follower.Until(ctx, func(u *unstructured.Unstructured) bool { return u != nil && hasString(u, "blue", "data", "colour") })
		return seen, "what was changed meanwhile has arrived in gamma", err
	})
	changed := func(e testbed.Entry) bool { return ready(e) && checksum(e) != old }
	group.await(ctx, ref, changed, func(
		testbed.Entry) string {
		return "ManagedResource web of gamma is ready, with the change"
	})
	group.await(ctx, testbed.TargetClusterRef(namespace(w.gamma), w.gamma.Name), ready,
		func(testbed.Entry) string { return "TargetCluster gamma is ready" })
	return group.wait()
}

// onlyUnready fails if anything but the given entries was not ready at any time since a moment.
func (w *world) onlyUnready(since time.Time, except ...testbed.Ref) error {
	for _, e := range w.observer.History(since) {
		expected := false
		for _, ref := range except {
			expected = expected || e.Ref == ref
		}
		if !expected && !ready(e) {
			return fmt.Errorf("%s, which should not be concerned, %s", e.Ref, e.Describe())
		}
	}
	return nil
}

// settle waits until the Deployments are rolled out and everything that the observer sees is ready and stays so: what
// an act does may have consequences after its end, and they are not to be taken for those of the next one.
func (w *world) settle(ctx context.Context) error {
	for range 120 {
		done := true
		for _, target := range w.targets() {
			web, err := live(ctx, target, deployment())
			if client.IgnoreNotFound(err) != nil {
				return err
			}
			// Before the second act it does not exist.
			done = done && (err != nil || web.Status.ObservedGeneration == web.Generation && web.Status.AvailableReplicas == 3)
		}
		for _, e := range w.observer.Entries() {
			done = done && ready(e) && time.Since(e.Since) > quiet
		}
		if done {
			return nil
		}
		time.Sleep(quiet / 2)
	}
	for _, e := range w.observer.Entries() {
		if !ready(e) {
			return fmt.Errorf("%s does not become ready again: it %s", e.Ref, e.Describe())
		}
	}
	return errors.New("the Deployments do not become available, or conditions keep changing")
}

func (w *world) tokenIsRotated(ctx context.Context) error {
	before, err := w.watchesIn(w.beta)
	if err != nil {
		return err
	}
	old, err := live(ctx, w.source, testbed.Registration(namespace(w.beta), w.beta.Name, nil))
	if err != nil {
		return err
	}
	kubeconfig, err := w.beta.Access(ctx, "second", 3*time.Hour)
	if err != nil {
		return err
	}
	ref := testbed.TargetClusterRef(namespace(w.beta), w.beta.Name)
	expiry := func(e testbed.Entry) string {
		tc, ok := e.Object.(*hubv1alpha1.TargetCluster)
		if !ok || tc.Status.CredentialExpiry == nil {
			return ""
		}
		return tc.Status.CredentialExpiry.String()
	}
	first := expiry(w.observer.Entries()[ref])
	if err := w.source.Client.Update(ctx, testbed.Registration(namespace(w.beta), w.beta.Name, kubeconfig)); err != nil {
		return fmt.Errorf("changing the registration of beta: %w", err)
	}
	changed := time.Now()
	entry, err := w.observer.Await(ctx, ref, func(e testbed.Entry) bool { return e.Object != nil && expiry(e) != first })
	if err != nil {
		return err
	}
	w.measured(entry.Since.Sub(changed), "a new token in the Secret of beta is in use")
	if err := w.beta.Revoke(ctx, "first"); err != nil {
		return err
	}
	if err := refused(ctx, old.Data["value"]); err != nil {
		return err
	}
	w.printf("the old token is refused by beta now")
	if err := w.editSettings(ctx, w.beta, "an edited ConfigMap in beta is back"); err != nil {
		return err
	}
	if err := w.onlyUnready(changed); err != nil {
		return err
	}
	after, err := w.watchesIn(w.beta)
	if err != nil {
		return err
	}
	if after != before {
		return fmt.Errorf("the hub began %d watches in beta because of a token", after-before)
	}
	for mode, want := range map[string]float64{"token": 1, "generation": 0} {
		if got, err := w.hub.Sum(ctx, "trellis_clustercache_rotations_total", map[string]string{"mode": mode}); err != nil || got != want {
			return errors.Join(err, fmt.Errorf("the hub counts %g rotations of mode %s, not %g", got, mode, want))
		}
	}
	w.printf("beta's audit log: all %d watches of the hub continued, none began again", before)
	return nil
}

// watchesIn counts the watches that the hub has ever begun in a cluster.
func (w *world) watchesIn(cluster *testbed.Cluster) (n int, err error) {
	entries, err := cluster.AuditEntries()
	for _, e := range entries {
		if e.Verb == "watch" && e.UserAgent == "trellis" {
			n++
		}
	}
	return n, err
}

// refused waits until a kubeconfig is not accepted any longer.
func refused(ctx context.Context, kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("using the old token: %w", err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("using the old token: %w", err)
	}
	for range 200 {
		if err = c.List(ctx, &corev1.NamespaceList{}); apierrors.IsUnauthorized(err) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the old token is not refused, the last answer was: %w", err)
}

func (w *world) resourceIsRemoved(ctx context.Context) error {
	last, err := follow(ctx, w.alpha, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "dashboard-0"}})
	if err != nil {
		return err
	}
	defer last.Stop()
	ns, err := follow(ctx, w.alpha, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}})
	if err != nil {
		return err
	}
	defer ns.Stop()
	if err := w.source.Client.Delete(ctx, testbed.ManagedResource(namespace(w.alpha), "dashboards")); err != nil {
		return fmt.Errorf("deleting a ManagedResource: %w", err)
	}
	deleted := time.Now()
	gone := func(u *unstructured.Unstructured) bool { return u == nil }
	seen, err := last.Until(ctx, gone)
	if err != nil {
		return err
	}
	w.measured(seen.Sub(deleted), "alpha/dashboards is being removed: its first object is gone")
	if seen, err = ns.Until(ctx, gone); err != nil {
		return err
	}
	w.measured(seen.Sub(deleted), "so is its last, the namespace (Kubernetes takes 5 s to empty one)")
	entry, err := w.observer.Await(ctx, testbed.ManagedResourceRef(namespace(w.alpha), "dashboards"), func(
		e testbed.Entry) bool {
		return e.Object == nil
	})
	if err != nil {
		return err
	}
	w.measured(entry.Since.Sub(deleted), "and the ManagedResource itself")
	if _, err := live(ctx, w.alpha, settings()); err != nil {
		return err
	}
	if err := w.onlyUnready(deleted, entry.Ref); err != nil {
		return err
	}
	w.printf("everything else is there and ready as before")
	return nil
}

func ready(e testbed.Entry) bool { return e.Is("Ready", "True") }

func settings() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}
}

func deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
}
