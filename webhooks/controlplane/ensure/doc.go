// Package ensure has what mutators of control planes are made of: functions that see to one thing in an object. Flags
// of a command, environment variables, volumes and mounts, containers, annotations, units and files of nodes, the
// command line and the configuration of the kubelet, and the checksums that restart pods.
//
//	c.Command = ensure.Flag(c.Command, "--cloud-provider=", "external")
//	c.VolumeMounts = ensure.VolumeMount(c.VolumeMounts, corev1.VolumeMount{Name: "cloud", MountPath: "/etc/cloud"})
//
// # How it works
//
// Each function returns what it was given with one thing as it should be. If that is so already, it returns its
// argument unchanged; otherwise a copy, so that an object that is shared with it stays as it is. Applied twice, each is
// the same as applied once: an API server may call a webhook again for what it has returned. What is not named is left
// alone, and keeps its order; what is new comes last.
//
// Names are what identifies things in lists, paths in lists of files, and mount paths are not looked at. If several
// things have one name, which no API server accepts, the first one counts.
//
// # Trade-offs
//
// Command lines of units are split at blanks and backslashes, as Gardener writes them. Quotes and the escapes of
// systemd are not interpreted; what they enclose keeps its characters but for blanks in a row and line ends.
package ensure
