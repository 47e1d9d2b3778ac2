// Package tokeninvalidator has the webhook token-invalidator, one half of what makes static tokens of ServiceAccounts
// useless: it replaces the token of a Secret that is marked, whenever the Secret is written, and removes what it has
// put there once the mark is gone. The controller of the same name (controllers/tokeninvalidator) sets the mark.
//
// # How it works
//
// The API server sends Secrets with the label of the purpose only. Nothing but the Secret is looked at, so it is the
// same for all targets, and done twice it is the same as once.
//
// # Trust
//
// What is sent has a token in it. It is decoded, and nothing of it is kept, logged or part of a message. The patch has
// the invalid token only.
//
// # Rights
//
// None.
package tokeninvalidator
