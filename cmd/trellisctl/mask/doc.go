// Package mask hides the values of Secrets in what is printed.
//
// Whatever may be a Secret is masked: also one whose kind or fields are misspelt, and what kubectl noted of it. Fields
// that Secrets do not have, and kinds that Kubernetes defines, are shown.
package mask
