package extensionvalidation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

func backupBucket(b *extensions.BackupBucketSpec, _ string, path *field.Path) field.ErrorList {
	return append(required(path, [2]string{"type", b.Type}, [2]string{"region", b.Region}),
		secretRef(path, b.SecretRef)...)
}

func backupEntry(b *extensions.BackupEntrySpec, _ string, path *field.Path) field.ErrorList {
	return append(
		required(path, [2]string{"type", b.Type}, [2]string{"bucketName", b.BucketName}, [2]string{"region", b.Region}),
		secretRef(path, b.SecretRef)...)
}

func bastion(b *extensions.BastionSpec, _ string, path *field.Path) field.ErrorList {
	faults := required(path, [2]string{"type", b.Type}, [2]string{"userData", string(b.UserData)})
	if len(b.Ingress) == 0 {
		faults = append(faults, field.Required(path.Child("ingress"), "field is required"))
	}
	return faults
}

func containerRuntime(c *extensions.ContainerRuntimeSpec, _ string, path *field.Path) field.ErrorList {
	return append(required(path, [2]string{"type", c.Type}, [2]string{"binaryPath", c.BinaryPath}),
		required(path.Child("workerPool"), [2]string{"name", c.WorkerPool.Name})...)
}

func controlPlane(c *extensions.ControlPlaneSpec, _ string, path *field.Path) field.ErrorList {
	return append(required(path, [2]string{"type", c.Type}, [2]string{"region", c.Region}),
		secretRef(path, c.SecretRef)...)
}

func infrastructure(i *extensions.InfrastructureSpec, namespace string, path *field.Path) field.ErrorList {
	return controlPlane((*extensions.ControlPlaneSpec)(i), namespace, path)
}

func extension(e *extensions.ExtensionSpec, _ string, path *field.Path) field.ErrorList {
	return required(path, [2]string{"type", e.Type})
}

func worker(w *extensions.WorkerSpec, _ string, path *field.Path) field.ErrorList {
	faults := append(required(path, [2]string{"type", w.Type}, [2]string{"region", w.Region}),
		secretRef(path, w.SecretRef)...)
	for i := range w.Pools {
		pool, path := &w.Pools[i], path.Child("pools").Index(i)
		faults = append(faults,
			required(path, [2]string{"name", pool.Name}, [2]string{"machineType", pool.MachineType})...)
		faults = append(faults, required(path.Child("machineImage"),
			[2]string{"name", pool.MachineImage.Name}, [2]string{"version", pool.MachineImage.Version})...)
		if pool.Architecture != nil {
			faults = append(faults, oneOf(path.Child("architecture"), *pool.Architecture, "amd64", "arm64")...)
		}
		if pool.NodeTemplate == nil {
			continue
		}
		for name, quantity := range pool.NodeTemplate.Capacity {
			if quantity.Sign() < 0 {
				faults = append(faults,
					field.Invalid(path.Child("nodeTemplate", "capacity").Key(untrusted.Name(string(name))),
						quantity.String(), "must not be negative"))
			}
		}
	}
	return faults
}

func exposure(s *extensions.SelfHostedShootExposureSpec, namespace string, path *field.Path) field.ErrorList {
	faults := required(path, [2]string{"type", s.Type})
	for _, problem := range validation.IsValidPortNum(int(s.Port)) {
		faults = append(faults, field.Invalid(path.Child("port"), s.Port, problem))
	}
	if len(s.Endpoints) == 0 {
		faults = append(faults, field.Required(path.Child("endpoints"), "field is required"))
	}
	for i, endpoint := range s.Endpoints {
		path := path.Child("endpoints").Index(i)
		faults = append(faults, required(path, [2]string{"nodeName", endpoint.NodeName})...)
		for i, address := range endpoint.Addresses {
			faults = append(faults, nodeAddress(path.Child("addresses").Index(i), address)...)
		}
	}
	if ref := s.CredentialsRef; ref != nil {
		faults = append(faults, credentials(path.Child("credentialsRef"), ref, namespace)...)
	}
	return faults
}

func nodeAddress(path *field.Path, address corev1.NodeAddress) field.ErrorList {
	switch address.Type {
	case corev1.NodeInternalIP, corev1.NodeExternalIP:
		if netutils.ParseIPSloppy(address.Address) == nil {
			return field.ErrorList{field.Invalid(path.Child("address"), untrusted.Name(address.Address),
				"must be an IP address")}
		}
		return nil
	case corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeExternalDNS:
		return subdomain(path.Child("address"), address.Address)
	}
	return oneOf(path.Child("type"), string(address.Type), string(corev1.NodeHostName), string(corev1.NodeInternalIP),
		string(corev1.NodeExternalIP), string(corev1.NodeInternalDNS), string(corev1.NodeExternalDNS))
}

func credentials(path *field.Path, ref *corev1.ObjectReference, namespace string) field.ErrorList {
	faults := append(oneOf(path.Child("apiVersion"), ref.APIVersion, "v1"),
		oneOf(path.Child("kind"), ref.Kind, "Secret")...)
	if ref.Namespace != namespace {
		faults = append(faults, field.Invalid(path.Child("namespace"), untrusted.Name(ref.Namespace),
			"must be the namespace of the object"))
	}
	return append(faults, subdomain(path.Child("name"), ref.Name)...)
}

// subdomain has a fault if a text is none of RFC 1123.
func subdomain(path *field.Path, text string) (faults field.ErrorList) {
	for _, problem := range validation.IsDNS1123Subdomain(text) {
		faults = append(faults, field.Invalid(path, untrusted.Name(text), problem))
	}
	return faults
}
