// Package registrations tests what becomes of targets: their credentials end and change, their Secrets are renamed, flap and
// come back, they turn out to be other clusters, sleep, die, and go, alone or with their whole namespace.
//
// The source is a real control plane with a real controller manager, which empties namespaces as it does, and with the
// admission policies of the chart. The targets are simulated, because they have to be broken and rotated.
package registrations
