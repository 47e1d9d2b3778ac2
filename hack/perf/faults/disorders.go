package faults

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// disorder is a fault of the simulator, or what else can happen to a target.
type disorder struct {
	name string
	set  func(context.Context, *fleetsim.Target) error
	// lift ends it. Nil: the faults of the target are cleared.
	lift func(context.Context, *rig.Rig, *fleetsim.Target) error
	// again is done every so often while it lasts. Nil: nothing.
	again func(*fleetsim.Target)
}

// faults sets faults of the simulator. What the trial itself asks for comes from inside, and is not struck.
func faults(faults ...fault.Fault) func(context.Context, *fleetsim.Target) error {
	return func(_ context.Context, target *fleetsim.Target) error {
		for _, f := range faults {
			if _, err := target.Faults().Set(f); err != nil {
				return err
			}
		}
		return nil
	}
}

// connecting sets faults of new connections, and resets the open ones so that there are some.
func connecting(f fault.Fault) func(context.Context, *fleetsim.Target) error {
	return func(ctx context.Context, target *fleetsim.Target) error {
		if err := faults(f)(ctx, target); err != nil {
			return err
		}
		target.ResetConnections()
		return nil
	}
}

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// register writes the registration of a target as it is now, if it is registered.
func register(ctx context.Context, r *rig.Rig, target *fleetsim.Target) error {
	return r.Writers.UpdateSecret(ctx, target.Registration(rig.Namespace(target)))
}

func nothing(context.Context, *rig.Rig, *fleetsim.Target) error { return nil }

// disorders are all rows of the matrix.
var disorders = []disorder{
	{name: "latency", set: faults(fault.Fault{Kind: fault.Latency, Delay: duration(300 * time.Millisecond)})},
	{name: "jitter", set: faults(fault.Fault{Kind: fault.Latency, Jitter: duration(time.Second)})},
	{name: "hang", set: faults(fault.Fault{Kind: fault.Hang, Share: 0.5})},
	{name: "401", set: faults(fault.Fault{Kind: fault.Status, Code: 401})},
	{name: "403", set: faults(fault.Fault{Kind: fault.Status, Code: 403})},
	{name: "429", set: faults(fault.Fault{Kind: fault.Status, Code: 429, RetryAfter: duration(time.Second)})},
	{name: "500", set: faults(fault.Fault{Kind: fault.Status, Code: 500})},
	{name: "503", set: faults(fault.Fault{Kind: fault.Status, Code: 503})},
	{name: "reset", set: faults(fault.Fault{Kind: fault.Reset})},
	{name: "reset-midway", set: faults(fault.Fault{Kind: fault.Reset, After: 200, Share: 0.5})},
	{name: "goaway", set: faults(fault.Fault{Kind: fault.GoAway})},
	{name: "blackhole", set: faults(fault.Fault{Kind: fault.BlackHole})},
	{name: "blackhole-existing", set: faults(fault.Fault{Kind: fault.BlackHole, Connections: fault.ExistingConnections})},
	{name: "silent", set: connecting(fault.Fault{Kind: fault.Silent})},
	{name: "silent-before-handshake", set: connecting(fault.Fault{Kind: fault.Silent, At: fault.BeforeHandshake})},
	{name: "refuse", set: connecting(fault.Fault{Kind: fault.Refuse})},
	{name: "drip", set: faults(fault.Fault{Kind: fault.Drip, Rate: 500})},
	{name: "silent-watch", set: faults(fault.Fault{Kind: fault.SilentWatch}), lift: func(_ context.Context, _ *rig.Rig, target *fleetsim.Target) error {
		_, err := target.Faults().Clear()
		// What vanished is lost for ever: a client can only find out from the next list, and a server ends watches now and then.
		target.Server().EndWatches()
		return err
	}},
	{name: "slow-watch", set: faults(fault.Fault{Kind: fault.SlowWatch, Delay: duration(3 * time.Second)})},
	{name: "410", set: func(_ context.Context, target *fleetsim.Target) error {
		target.Server().Compact()
		return nil
	}, again: func(target *fleetsim.Target) { target.Server().Compact() }, lift: nothing},
	{name: "token", set: func(_ context.Context, target *fleetsim.Target) error {
		return target.RotateToken(fleetsim.Rotation{Revoke: true})
	}, lift: register},
	{name: "ca", set: func(_ context.Context, target *fleetsim.Target) error {
		return target.RotateCA(fleetsim.Rotation{Revoke: true})
	}, lift: register},
	{name: "serving-certificate", set: func(_ context.Context, target *fleetsim.Target) error {
		// It expired an hour ago.
		if err := target.RotateServingCertificate(fleetsim.Rotation{Lifetime: -time.Hour}); err != nil {
			return err
		}
		target.ResetConnections()
		return nil
	}, lift: func(_ context.Context, _ *rig.Rig, target *fleetsim.Target) error {
		return target.RotateServingCertificate(fleetsim.Rotation{})
	}},
	{name: "skew", set: func(_ context.Context, target *fleetsim.Target) error {
		target.Skew(10 * time.Minute)
		return nil
	}, lift: func(_ context.Context, _ *rig.Rig, target *fleetsim.Target) error {
		target.Skew(0)
		return nil
	}},
	{name: "crd", set: func(ctx context.Context, target *fleetsim.Target) error {
		return target.RemoveCRD(ctx, rig.WidgetsName)
	}, lift: func(ctx context.Context, _ *rig.Rig, target *fleetsim.Target) error {
		return target.AddCRD(ctx, rig.Widgets())
	}},
	{name: "discovery", set: func(_ context.Context, target *fleetsim.Target) error {
		target.Server().FailDiscovery(schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Group: "trials.example.org", Version: "v1"})
		target.ResetConnections()
		return nil
	}, lift: func(_ context.Context, _ *rig.Rig, target *fleetsim.Target) error {
		target.Server().FailDiscovery()
		return nil
	}},
	{name: "stopped", set: func(_ context.Context, target *fleetsim.Target) error { return target.Stop() },
		lift: func(_ context.Context, _ *rig.Rig, target *fleetsim.Target) error { return target.Start() }},
}

// begin sets it in a target.
func (d disorder) begin(ctx context.Context, target *fleetsim.Target) error {
	if err := d.set(ctx, target); err != nil {
		return fmt.Errorf("setting %s in %s: %w", d.name, target.Name(), err)
	}
	return nil
}

// end lifts it. It may be lifted twice.
func (d disorder) end(ctx context.Context, r *rig.Rig, target *fleetsim.Target) error {
	var err error
	if d.lift != nil {
		err = d.lift(ctx, r, target)
	} else {
		_, err = target.Faults().Clear()
	}
	if err != nil {
		return fmt.Errorf("lifting %s in %s: %w", d.name, target.Name(), err)
	}
	return nil
}
