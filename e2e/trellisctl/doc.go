// Package trellisctl holds the end-to-end tests of the command trellisctl: whole command lines, run in this process, against a
// real hub on a real source API server and a real target.
package trellisctl
