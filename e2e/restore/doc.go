// Package restore holds the end-to-end tests of backup and restore: the commands of the how-to page run with kubectl,
// jq and trellisctl against a real source, after its objects were lost, and the objects of a real target are compared
// with those of before. jq is gojq, which hack/tools/jq pins.
//
// It backs up single objects. A restored etcd has the same objects, with their UIDs, so what is tested here is the
// harder case: everything in the source has another UID and version afterwards.
package restore
