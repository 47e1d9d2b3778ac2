// Package apiserver is one simulated Kubernetes API server as an http.Handler. See Server.
package apiserver
