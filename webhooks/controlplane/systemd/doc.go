// Package systemd reads and writes unit files of systemd as lists of options.
//
// # How it works
//
// Parse reads a unit file line by line, as systemd.syntax(7) says: sections in brackets, options as Name=Value,
// comments that begin with # or ;, and lines that a backslash continues. Format writes options the same way each time,
// an empty line between sections. What was formatted and is parsed again has the same options, so a unit that was
// changed once is the same when it is changed again.
//
// # Trade-offs
//
// Values keep their line breaks and are not interpreted in any way, so that what is not changed is written as it was
// read. Comments are options without a name, for the same reason. A comment between continued lines, which systemd
// would leave out, is an error.
//
// The module of CoreOS for this refuses lines of more than 2 KiB, which command lines of kubelets exceed, and loses
// comments.
package systemd
