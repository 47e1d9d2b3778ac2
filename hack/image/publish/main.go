package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// timeout bounds everything: a registry may be slow, but not for ever.
const timeout = 15 * time.Minute

func main() {
	var o Options
	flag.StringVar(&o.Registry, "registry", "", "`name` of the registry and what comes before the repositories (required)")
	flag.StringVar(&o.Layout, "layout", "bin/image/oci", "`directory` with the image as an OCI layout")
	flag.StringVar(&o.Chart, "chart", "charts/trellis", "`directory` of the chart")
	flag.StringVar(&o.Version, "version", "", "`version` of the image (required)")
	flag.StringVar(&o.Key, "key", "", "`file` with a key for signatures; none without one")
	flag.Parse()
	o.Password = []byte(os.Getenv("COSIGN_PASSWORD"))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	published, err := Publish(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
	for _, p := range published {
		fmt.Println(p)
	}
}
