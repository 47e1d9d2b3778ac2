// Package webhooks has mutating webhooks for tests of what follows when an API server calls one. They are served on
// loopback by the test itself.
package webhooks
