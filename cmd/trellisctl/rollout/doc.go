// Package rollout has the command rollout status: how far one change has come in all targets that are to have it.
//
// A change is new content of Secrets or a new spec of ManagedResources. It is in a target when the hub has applied it
// there and what it changed is rolled out:
//
//	spec     status.observedGeneration is metadata.generation
//	content  status.secretsDataChecksum is the checksum of what the Secrets hold now, by the code of the hub
//	applied  ResourcesApplied is True
//	done     ResourcesProgressing is not True, and ResourcesHealthy is True
//
// Trade-offs: the content of the Secrets is read for the checksum, a few at a time, which needs the right to read them.
// Without it, only the generation is compared, and the result reports for how many. It is only read where the result
// depends on it: not for what failed, is suspended, or has a new generation that is not applied yet.
//
// Whole ManagedResources are read, page by page, because the tables of package listing have neither the names of the
// Secrets nor generation, checksum, and the reasons of all conditions. With a name, the API server sends only the
// ManagedResources of that name.
package rollout
