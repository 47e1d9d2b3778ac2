// Package control operates a fleet of simulated API servers from another process: an HTTP API on 127.0.0.1 (Handler) and its
// client (Client), which the command hack/fleetsim/cmd and tests use.
//
//	client := control.Client{Address: "http://127.0.0.1:8710"}
//	targets, err := client.SetFault(ctx, control.SetFault{
//		Selection: fleetsim.Selection{Percent: 30},
//		Fault:     fault.Fault{Kind: fault.BlackHole},
//	})
//
// Each call is a POST of a JSON object to a path that bears its name, and is answered with a JSON object. What is wrong with a
// request is a 400 with an object that has an "error". Fields that are not known are wrong, so that no misspelt parameter
// passes for a default.
//
// A call for many targets works on each of them in turn. If one fails, the call says so and goes on with the others.
//
// There is no authentication: whoever may open a connection to 127.0.0.1 of this machine may do everything. What comes from a
// browser is refused, so that no web page can.
package control
