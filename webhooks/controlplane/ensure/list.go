package ensure

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// named returns the list with the item in the place of the one that has its name, or at the end.
func named[T any](list []T, item T, name func(*T) string) []T {
	at := slices.IndexFunc(list, func(other T) bool { return name(&other) == name(&item) })
	if at >= 0 && reflect.DeepEqual(list[at], item) {
		return list
	}
	list = slices.Clone(list)
	if at < 0 {
		return append(list, item)
	}
	list[at] = item
	return list
}

// without returns the list without all items of a name.
func without[T any](list []T, unwanted string, name func(*T) string) []T {
	is := func(item T) bool { return name(&item) == unwanted }
	if !slices.ContainsFunc(list, is) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), is)
}

func nameOfEnv(e *corev1.EnvVar) string                  { return e.Name }
func nameOfMount(m *corev1.VolumeMount) string           { return m.Name }
func nameOfVolume(v *corev1.Volume) string               { return v.Name }
func nameOfContainer(c *corev1.Container) string         { return c.Name }
func nameOfClaim(c *corev1.PersistentVolumeClaim) string { return c.Name }
func nameOfUnit(u *extensions.Unit) string               { return u.Name }
func pathOfFile(f *extensions.File) string               { return f.Path }

// Env returns the environment with a variable.
func Env(env []corev1.EnvVar, variable corev1.EnvVar) []corev1.EnvVar {
	return named(env, variable, nameOfEnv)
}

// NoEnv returns the environment without a variable.
func NoEnv(env []corev1.EnvVar, name string) []corev1.EnvVar { return without(env, name, nameOfEnv) }

// VolumeMount returns the mounts with one of a volume. Other mounts of the same volume are not looked at: it is found
// by the name of the volume, so this is for volumes that a container mounts once.
func VolumeMount(mounts []corev1.VolumeMount, mount corev1.VolumeMount) []corev1.VolumeMount {
	return named(mounts, mount, nameOfMount)
}

// NoVolumeMount returns the mounts without those of a volume.
func NoVolumeMount(mounts []corev1.VolumeMount, volume string) []corev1.VolumeMount {
	return without(mounts, volume, nameOfMount)
}

// Volume returns the volumes with one.
func Volume(volumes []corev1.Volume, volume corev1.Volume) []corev1.Volume {
	return named(volumes, volume, nameOfVolume)
}

// NoVolume returns the volumes without one.
func NoVolume(volumes []corev1.Volume, name string) []corev1.Volume {
	return without(volumes, name, nameOfVolume)
}

// Container returns the containers with one.
func Container(containers []corev1.Container, container corev1.Container) []corev1.Container {
	return named(containers, container, nameOfContainer)
}

// NoContainer returns the containers without one.
func NoContainer(containers []corev1.Container, name string) []corev1.Container {
	return without(containers, name, nameOfContainer)
}

// ContainerNamed returns the container of a name, to be changed in place, or nil.
func ContainerNamed(containers []corev1.Container, name string) *corev1.Container {
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		return nil
	}
	return &containers[at]
}

// VolumeClaim returns the volume claims, such as templates of a StatefulSet, with one.
func VolumeClaim(
	claims []corev1.PersistentVolumeClaim, claim corev1.PersistentVolumeClaim,
) []corev1.PersistentVolumeClaim {
	return named(claims, claim, nameOfClaim)
}

// NoVolumeClaim returns the volume claims, such as templates of a StatefulSet, without one.
func NoVolumeClaim(claims []corev1.PersistentVolumeClaim, name string) []corev1.PersistentVolumeClaim {
	return without(claims, name, nameOfClaim)
}

// Unit returns the units with one.
func Unit(units []extensions.Unit, unit extensions.Unit) []extensions.Unit {
	return named(units, unit, nameOfUnit)
}

// NoUnit returns the units without one.
func NoUnit(units []extensions.Unit, name string) []extensions.Unit {
	return without(units, name, nameOfUnit)
}

// File returns the files with one. Files for single hosts count as others of the same path do.
func File(files []extensions.File, file extensions.File) []extensions.File {
	return named(files, file, pathOfFile)
}

// NoFile returns the files without those of a path.
func NoFile(files []extensions.File, path string) []extensions.File {
	return without(files, path, pathOfFile)
}

// Entry returns a map, such as labels or annotations, with an entry. The map itself is changed unless it is nil.
func Entry(entries map[string]string, key, value string) map[string]string {
	if entries == nil {
		entries = map[string]string{}
	}
	entries[key] = value
	return entries
}
