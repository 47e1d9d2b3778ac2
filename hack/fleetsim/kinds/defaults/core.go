package defaults

import (
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// unset sets a field that is empty.
func unset[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// missing sets a pointer that is nil.
func missing[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

var _ = []struct{}{
	on(func(l *corev1.ResourceList) {
		for name, quantity := range *l {
			quantity.RoundUp(-3)
			(*l)[name] = quantity
		}
	}),
	on(func(s *corev1.Secret) {
		unset(&s.Type, corev1.SecretTypeOpaque)
		for key, value := range s.StringData {
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			s.Data[key] = []byte(value)
		}
		s.StringData = nil
	}),
	on(func(n *corev1.Namespace) {
		if n.Name != "" {
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			n.Labels[corev1.LabelMetadataName] = n.Name
		}
		unset(&n.Status.Phase, corev1.NamespaceActive)
	}),
	on(func(s *corev1.Service) {
		service(&s.Spec)
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			for i := range s.Status.LoadBalancer.Ingress {
				if ingress := &s.Status.LoadBalancer.Ingress[i]; ingress.IP != "" {
					missing(&ingress.IPMode, corev1.LoadBalancerIPModeVIP)
				}
			}
		}
	}),
	on(func(s *corev1.NodeStatus) {
		if s.Allocatable == nil {
			s.Allocatable = s.Capacity.DeepCopy()
		}
	}),
	on(func(e *corev1.EndpointPort) { unset(&e.Protocol, corev1.ProtocolTCP) }),
	on(func(c *corev1.ReplicationController) {
		missing(&c.Spec.Replicas, 1)
		if c.Spec.Template != nil && c.Spec.Template.Labels != nil {
			if len(c.Spec.Selector) == 0 {
				c.Spec.Selector = maps.Clone(c.Spec.Template.Labels)
			}
			if len(c.Labels) == 0 {
				c.Labels = maps.Clone(c.Spec.Template.Labels)
			}
		}
	}),
	on(func(v *corev1.PersistentVolume) {
		unset(&v.Status.Phase, corev1.VolumePending)
		unset(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
		missing(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}),
	on(func(c *corev1.PersistentVolumeClaim) { unset(&c.Status.Phase, corev1.ClaimPending) }),
	on(func(c *corev1.PersistentVolumeClaimSpec) { missing(&c.VolumeMode, corev1.PersistentVolumeFilesystem) }),
	on(limitRange),

	on(pod),
	on(func(s *corev1.PodSpec) {
		unset(&s.DNSPolicy, corev1.DNSClusterFirst)
		unset(&s.RestartPolicy, corev1.RestartPolicyAlways)
		missing(&s.SecurityContext, corev1.PodSecurityContext{})
		missing(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		unset(&s.SchedulerName, corev1.DefaultSchedulerName)
		unset(&s.ServiceAccountName, s.DeprecatedServiceAccount)
		s.DeprecatedServiceAccount = s.ServiceAccountName
	}),
	on(func(c *corev1.Container) {
		unset(&c.ImagePullPolicy, pullPolicy(c.Image))
		unset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		unset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	}),
	on(func(c *corev1.EphemeralContainerCommon) {
		unset(&c.ImagePullPolicy, pullPolicy(c.Image))
		unset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
		unset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	}),
	on(func(p *corev1.ContainerPort) { unset(&p.Protocol, corev1.ProtocolTCP) }),
	on(func(p *corev1.Probe) {
		unset(&p.TimeoutSeconds, 1)
		unset(&p.PeriodSeconds, 10)
		unset(&p.SuccessThreshold, 1)
		unset(&p.FailureThreshold, 3)
	}),
	on(func(a *corev1.HTTPGetAction) {
		unset(&a.Path, "/")
		unset(&a.Scheme, corev1.URISchemeHTTP)
	}),
	on(func(a *corev1.GRPCAction) { missing(&a.Service, "") }),
	on(func(s *corev1.ObjectFieldSelector) { unset(&s.APIVersion, "v1") }),
	on(func(v *corev1.Volume) {
		if v.VolumeSource == (corev1.VolumeSource{}) {
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		if v.Image != nil {
			unset(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
		}
	}),
	on(func(s *corev1.SecretVolumeSource) { missing(&s.DefaultMode, corev1.SecretVolumeSourceDefaultMode) }),
	on(func(s *corev1.ConfigMapVolumeSource) {
		missing(&s.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}),
	on(func(s *corev1.DownwardAPIVolumeSource) {
		missing(&s.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
	}),
	on(func(s *corev1.ProjectedVolumeSource) {
		missing(&s.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	}),
	on(func(s *corev1.ServiceAccountTokenProjection) {
		missing(&s.ExpirationSeconds, int64(time.Hour/time.Second))
	}),
	on(func(s *corev1.HostPathVolumeSource) { missing(&s.Type, corev1.HostPathUnset) }),
}

// pullPolicy of an image: one that can change under its name is pulled always.
func pullPolicy(image string) corev1.PullPolicy {
	if _, _, byDigest := strings.Cut(image, "@"); byDigest {
		return corev1.PullIfNotPresent
	}
	last := image[strings.LastIndex(image, "/")+1:]
	if _, tag, tagged := strings.Cut(last, ":"); tagged && tag != "latest" || image == "" {
		return corev1.PullIfNotPresent
	}
	return corev1.PullAlways
}

// pod has the defaults that only a Pod has, no template of one.
func pod(p *corev1.Pod) {
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			for name, limit := range resources.Limits {
				if _, ok := resources.Requests[name]; !ok {
					if resources.Requests == nil {
						resources.Requests = corev1.ResourceList{}
					}
					resources.Requests[name] = limit.DeepCopy()
				}
			}
			if p.Spec.HostNetwork {
				for j := range containers[i].Ports {
					unset(&containers[i].Ports[j].HostPort, containers[i].Ports[j].ContainerPort)
				}
			}
		}
	}
	missing(&p.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	unset(&p.Status.Phase, corev1.PodPending)
	unset(&p.Status.QOSClass, corev1.PodQOSBestEffort)
}

func service(s *corev1.ServiceSpec) {
	unset(&s.SessionAffinity, corev1.ServiceAffinityNone)
	switch s.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		missing(&s.SessionAffinityConfig, corev1.SessionAffinityConfig{})
		missing(&s.SessionAffinityConfig.ClientIP, corev1.ClientIPConfig{})
		missing(&s.SessionAffinityConfig.ClientIP.TimeoutSeconds, corev1.DefaultClientIPServiceAffinitySeconds)
	}
	unset(&s.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Ports {
		unset(&s.Ports[i].Protocol, corev1.ProtocolTCP)
		if s.Ports[i].TargetPort == (intstr.IntOrString{}) || s.Ports[i].TargetPort == intstr.FromString("") {
			s.Ports[i].TargetPort = intstr.FromInt32(s.Ports[i].Port)
		}
	}
	external := s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
	if external || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0 {
		unset(&s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if s.Type != corev1.ServiceTypeExternalName {
		missing(&s.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Type == corev1.ServiceTypeLoadBalancer {
		missing(&s.AllocateLoadBalancerNodePorts, true)
	}
}

func limitRange(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	inherit := func(to *corev1.ResourceList, from corev1.ResourceList) {
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		for name, quantity := range from {
			if _, ok := (*to)[name]; !ok {
				(*to)[name] = quantity.DeepCopy()
			}
		}
	}
	inherit(&item.Default, item.Max)
	inherit(&item.DefaultRequest, item.Default)
	inherit(&item.DefaultRequest, item.Min)
}
