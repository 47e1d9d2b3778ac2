// Package identity knows which cluster a target is: Guard sees to it that it stays the one that it was, Index which
// targets are the same one, Holders for which of these controllers work.
package identity
