// Package registrations tests the life cycle of targets: credentials expire and change, Secrets are renamed, deleted
// and created again, targets turn out to be other clusters, hibernate, fail, and are removed, alone or with their
// namespace.
//
// The source is a real control plane with a real controller manager, which empties namespaces as it does, and with the
// admission policies of the chart. The targets are simulated, because they have to be broken and rotated.
package registrations
