package controlplane

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// Names of objects that Gardener deploys. Those of the control plane of a virtual garden have a prefix.
const (
	kubeAPIServer               = "kube-apiserver"
	kubeControllerManager       = "kube-controller-manager"
	kubeScheduler               = "kube-scheduler"
	clusterAutoscaler           = "cluster-autoscaler"
	machineControllerManager    = "machine-controller-manager"
	machineControllerManagerVPA = "machine-controller-manager-vpa"
	resourceManager             = "gardener-resource-manager"
	vpnSeedServer               = "vpn-seed-server"
	etcdMain                    = "etcd-main"
	etcdEvents                  = "etcd-events"
	virtualGarden               = "virtual-garden-"
)

// Resources that mutators of control planes are for.
var (
	services     = Resource{GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Service"), Plural: "services"}
	deployments  = Resource{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Plural: "deployments"}
	statefulSets = Resource{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Plural: "statefulsets"}
	autoscalers  = Resource{
		GroupVersionKind: schema.GroupVersionKind{
			Group: "autoscaling.k8s.io", Version: AnyVersion, Kind: "VerticalPodAutoscaler",
		},
		Plural: "verticalpodautoscalers",
	}
	etcds = Resource{
		GroupVersionKind: schema.GroupVersionKind{Group: "druid.gardener.cloud", Version: "v1alpha1", Kind: "Etcd"},
		Plural:           "etcds",
	}
	operatingSystemConfigs = Resource{
		GroupVersionKind: extensions.GroupVersion.WithKind("OperatingSystemConfig"), Plural: "operatingsystemconfigs",
	}
)

// Mutators returns those of an Ensurer, for all that Gardener deploys. A provider may register some of them only.
func Mutators(e Ensurer) []Mutator {
	return []Mutator{
		named(services, func(name string) ensure[corev1.Service] {
			if name == kubeAPIServer {
				return e.EnsureKubeAPIServerService
			}
			return nil
		}),
		named(deployments, func(name string) ensure[appsv1.Deployment] { return deploymentOf(e, name) }),
		named(statefulSets, func(name string) ensure[appsv1.StatefulSet] {
			if name == vpnSeedServer {
				return e.EnsureVPNSeedServerStatefulSet
			}
			return nil
		}),
		named(autoscalers, func(name string) ensure[unstructured.Unstructured] {
			if name == machineControllerManagerVPA {
				return e.EnsureMachineControllerManagerVPA
			}
			return nil
		}),
		named(etcds, func(name string) ensure[unstructured.Unstructured] {
			if name = strings.TrimPrefix(name, virtualGarden); name == etcdMain || name == etcdEvents {
				return e.EnsureETCD
			}
			return nil
		}),
		named(operatingSystemConfigs, func(string) ensure[extensions.OperatingSystemConfig] {
			return nodes{e}.mutate
		}),
	}
}

// MutatorsOf returns those of an Ensurer for some kinds, such as Service. A webhook that registers no others is called
// for no others.
func MutatorsOf(e Ensurer, kinds ...string) []Mutator {
	return slices.DeleteFunc(Mutators(e), func(m Mutator) bool { return !slices.Contains(kinds, m.resource.Kind) })
}

func deploymentOf(e Ensurer, name string) ensure[appsv1.Deployment] {
	switch name {
	case kubeAPIServer, virtualGarden + kubeAPIServer:
		return e.EnsureKubeAPIServerDeployment
	case kubeControllerManager, virtualGarden + kubeControllerManager:
		return e.EnsureKubeControllerManagerDeployment
	case kubeScheduler:
		return e.EnsureKubeSchedulerDeployment
	case clusterAutoscaler:
		return e.EnsureClusterAutoscalerDeployment
	case machineControllerManager:
		return e.EnsureMachineControllerManagerDeployment
	case resourceManager, virtualGarden + resourceManager:
		return e.EnsureGardenerResourceManagerDeployment
	case vpnSeedServer:
		return e.EnsureVPNSeedServerDeployment
	}
	return nil
}

// ensure is a method of an Ensurer for objects of a type.
type ensure[T any] func(ctx context.Context, c *Context, updated, old *T) error

// named returns a mutator that calls a method by the name of the object, if there is one for it, unless the object is
// being deleted.
func named[T any, O Object[T]](resource Resource, method func(name string) ensure[T]) Mutator {
	return For(resource, func(ctx context.Context, c *Context, object, old O) error {
		var meta metav1.Object = object
		if meta.GetDeletionTimestamp() != nil {
			return nil
		}
		call := method(meta.GetName())
		if call == nil {
			return nil
		}
		return call(ctx, c, object, old)
	})
}
