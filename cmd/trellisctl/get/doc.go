// Package get has the commands get and wait, which work on objects as those of kubectl do.
//
//	get   tables of ManagedResources and clusters, the worst first; whole objects for the other formats of kubectl
//	wait  for a condition, or until objects are gone
//
// The printers for JSON, YAML, JSONPath, Go templates and custom columns, and the sorting by a field, are those of
// kubectl itself. Tables are made here, so that they have the reason, the worst comes first, and a list of a fleet is
// read as package listing says. Whole objects are only read for formats that need them.
//
// Trade-offs: a list is printed when all of it was read, because the worst comes first. --watch then reads whole
// objects as they change.
package get
