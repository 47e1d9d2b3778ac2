// Package storage holds the objects of a simulated API server. See Store for reading and writing, Object for why a thousand
// servers with the same content fit into one process.
package storage
