// Command perf measures a hub, as it ships and in a process of its own: what it costs, how quick it is, and what
// breaks it.
//
//	perf bench      on real control planes (package bench)
//	perf fleet      with a thousand simulated targets (package fleet), and "perf foreign" beside Secrets of others
//	perf failover   how soon a standby writes (package failover)
//	perf faults     each fault in each phase of the hub's work (package faults)
//	perf hostile    attacks of tenants and targets (package hostile)
//	perf soak       whether anything is left behind (package soak), and "perf cycles" as quickly as it goes
//
// The targets are either real control planes, which package testbed starts, or those of fleetsim, which package rig
// puts beside a real source. Real ones show what an operator would see; of simulated ones there can be a thousand,
// and they can be made to fail. "perf <subcommand> -h" lists the flags; the Makefile has a target for each
// subcommand, and docs/development/trials.md says how to read what they print. Each writes everything it measured to
// bin/trials (package figures), even if it fails.
package main
