// Package listing lists the ManagedResources and TargetClusters of a fleet.
//
//	ManagedResources  pages of a Table, with metadata and printer columns --> Entry, worst first
//	                  pages of whole objects, if the columns are not there /
//	Clusters          pages of whole TargetClusters
//
// A ManagedResource has an inventory and managed fields of many KiB. A fleet has tens of thousands, of which a command
// needs the state. The API server makes tables of the printer columns of the CRD, which have all of that, and are a
// fraction of the size. Only an Entry of each ManagedResource is kept. A page is decoded while the API server makes the
// next one, so two pages are in memory at most.
//
// Trade-offs: where another product has installed the CRD of ManagedResources, such as in a Gardener seed, the columns
// are missing; then whole objects are read, a page at a time. All pages are of one resource version. If the API server
// forgets it, the list begins again.
package listing
