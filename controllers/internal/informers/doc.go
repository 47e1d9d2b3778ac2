// Package informers lets controllers follow the informers of the source for one term of leadership.
//
// Informers live as long as the process, and controllers do not. The sources of controller-runtime leave their handlers
// at an informer for ever; Follow takes them off when the term ends. It also says once and for all what a deletion
// looks like that a watch has missed.
package informers
