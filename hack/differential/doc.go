// Package differential compares what the engine makes of an object with what an update makes of it.
//
// How it works: an object goes through a random chain of manifests on a real API server, twice: once the engine applies
// them (package apply), and once they are merged into the live object by the same rules and written with a PUT, as the
// Gardener resource manager does it. After each transition what the server stores is compared, but for what only the
// server sets. So a field that survives the manifest which led to it is found without a test case for this field.
//
// Manifests are drawn from data: kinds.yaml has a base for each built-in kind that the engine has rules for, or whose
// defaults depend on each other, and parts that a manifest has, has in another form, or lacks. custom.go makes
// definitions of custom resources with defaults, unions, nullable fields, lists with keys and maps that may be empty.
//
// What may differ is in wanted.yaml, with the reason. A manifest that both refuse changes nothing and is skipped, and
// so is one that only the update refuses: then both objects are made again.
//
// Trade-offs: both sides have the same merge rules (package merge), so a fault of these is not found here but by
// their own tests. Objects are never healthy, since no controller looks at them.
package differential
