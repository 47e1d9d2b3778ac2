// Package nodes watches the nodes of targets, and keeps a few words of each: whether something is wrong with it, and
// where it runs. A node has to be ready and under no pressure.
package nodes
