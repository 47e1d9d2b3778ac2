// Package layers holds the test of the layers: which folders of the module may import which others. It reads what the
// go command says of every package, so that it needs no list of packages, only the order of the folders.
package layers
