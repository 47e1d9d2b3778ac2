package histories

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Step is one thing that users, foreigners or the infrastructure do. It is complete: doing it needs no more chance.
type Step struct {
	Op      string
	A, B, C int
	// Pause is what follows.
	Pause time.Duration
}

// String renders the step so that ParseStep understands it.
func (s Step) String() string {
	return fmt.Sprintf("%s %d %d %d %s", s.Op, s.A, s.B, s.C, s.Pause)
}

// ParseStep reads what String renders.
func ParseStep(text string) (s Step, err error) {
	var pause string
	if _, err = fmt.Sscan(text, &s.Op, &s.A, &s.B, &s.C, &pause); err != nil {
		return s, fmt.Errorf("step %q: %w", text, err)
	}
	if s.Pause, err = time.ParseDuration(pause); err != nil {
		return s, fmt.Errorf("step %q: %w", text, err)
	}
	if _, ok := ops[s.Op]; !ok && s.Op != restOp {
		return s, fmt.Errorf("step %q: unknown operation", text)
	}
	return s, nil
}

// ParseSteps reads one step a line. Empty lines and what follows a # do not count.
func ParseSteps(text string) ([]Step, error) {
	var out []Step
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		s, err := ParseStep(line)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// restOp is the step that mends everything and waits until all is as it should be.
const restOp = "rest"

const (
	allResources     = spaces * resourcesEach
	allSecrets       = allResources * secretsEach
	allRegistrations = spaces * registrations
)

// op is a kind of step: how often it comes, and what it is about.
type op struct {
	weight int
	choose func(r *rand.Rand) (a, b, c int)
	do     func(w *world, s Step) error
}

func pick(limits ...int) func(*rand.Rand) (int, int, int) {
	return func(r *rand.Rand) (int, int, int) {
		var out [3]int
		for i, l := range limits {
			out[i] = r.IntN(l)
		}
		return out[0], out[1], out[2]
	}
}

// homeOrAny chooses a Secret and mostly one of the objects that are at home there, so that ManagedResources do not all
// list all objects.
func homeOrAny(r *rand.Rand) (int, int, int) {
	s := r.IntN(allSecrets)
	if r.IntN(8) == 0 {
		return s, r.IntN(objects), 0
	}
	return s, s*objects/allSecrets + r.IntN(objects/allSecrets), 0
}

func sameSpaceSecret(r *rand.Rand) (int, int, int) {
	m := r.IntN(allResources)
	return m, spaceOfResource(m)*resourcesEach*secretsEach + r.IntN(resourcesEach*secretsEach), 0
}

var ops map[string]op

func init() {
	ops = map[string]op{
		// What users do to content.
		"toggle":   {16, homeOrAny, (*world).toggle},
		"value":    {10, pick(allSecrets), (*world).value},
		"move":     {6, pick(allSecrets, allSecrets, 64), (*world).move},
		"copy":     {1, pick(allSecrets, allSecrets, 64), (*world).copy},
		"spoil":    {5, func(r *rand.Rand) (int, int, int) { return r.IntN(allSecrets), 1 + r.IntN(int(faults)-1), 0 }, (*world).spoil},
		"mend":     {6, pick(allSecrets), (*world).mendSecret},
		"brotli":   {1, pick(allSecrets), (*world).brotli},
		"secret":   {5, pick(allSecrets), (*world).toggleSecret},
		"resecret": {2, pick(allSecrets), (*world).recreateSecret},
		"mode":     {2, pick(allSecrets, 64), (*world).mode},
		"oignore":  {1, pick(allSecrets, 64), (*world).objectIgnore},

		// What users do to ManagedResources.
		"mr":        {6, pick(allResources, 3), (*world).toggleResource},
		"remr":      {2, pick(allResources), (*world).recreateResource},
		"refs":      {2, sameSpaceSecret, (*world).refs},
		"keep":      {1, pick(allResources), (*world).keep},
		"ignore":    {1, pick(allResources), (*world).ignore},
		"class":     {3, pick(allResources, 8), (*world).class},
		"pick":      {1, pick(allResources, registrations+1), (*world).pick},
		"force":     {1, pick(allResources), (*world).force},
		"reconcile": {1, pick(allResources), (*world).reconcile},

		// What operators do to targets.
		"reg":     {1, pick(allRegistrations), (*world).toggleRegistration},
		"point":   {1, pick(allRegistrations, clusters, 2), (*world).point},
		"confirm": {1, pick(allRegistrations), (*world).confirm},
		"regb":    {1, pick(allRegistrations), (*world).registrationClass},
		"pause":   {1, pick(allRegistrations), (*world).pause},

		// What foreigners do in targets.
		"edit":     {5, pick(clusters, objects, 3), (*world).edit},
		"del":      {4, pick(clusters, objects), (*world).del},
		"recreate": {3, pick(clusters, objects), (*world).recreate},
		"make":     {2, pick(clusters, objects), (*world).make},
		"strip":    {3, pick(clusters, objects, 3), (*world).strip},
		"steal":    {1, pick(clusters, objects), (*world).steal},
		"block":    {2, pick(clusters, objects), (*world).block},
		"keepobj":  {2, pick(clusters, objects), (*world).keepObject},

		// What the hostile namespace does.
		"forge":   {6, pick(hostileResources, allResources, 5), (*world).forge},
		"pretend": {4, pick(hostileResources, 7, 8), (*world).pretend},
		"claim":   {2, pick(5, 5, 5), (*world).claim},

		// What the infrastructure does.
		"call":     {18, func(r *rand.Rand) (int, int, int) { return 1 + r.IntN(int(crashBefore)-1), r.IntN(30), r.IntN(2) }, (*world).call},
		"crash":    {1, func(r *rand.Rand) (int, int, int) { return int(crashBefore) + r.IntN(2), r.IntN(40), r.IntN(2) }, (*world).call},
		"handover": {1, pick(3), (*world).handover},
		"stall":    {2, pick(clusters, 900), (*world).stall},
		"cut":      {2, pick(clusters), (*world).cut},
	}
}

// generator draws steps.
type generator struct {
	random *rand.Rand
	names  []string // each as often as its weight says
}

func newGenerator(seed uint64) *generator {
	g := &generator{random: rand.New(rand.NewPCG(seed, 0))}
	for _, name := range sortedOps() {
		for range ops[name].weight {
			g.names = append(g.names, name)
		}
	}
	return g
}

func (g *generator) next() Step {
	name := g.names[g.random.IntN(len(g.names))]
	s := Step{Op: name}
	s.A, s.B, s.C = ops[name].choose(g.random)
	// Mostly the hub gets some time, sometimes none and sometimes a lot.
	switch g.random.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
	case 8:
		s.Pause = time.Duration(20+g.random.IntN(40)) * time.Millisecond
	default:
		s.Pause = time.Duration(g.random.IntN(6)) * time.Millisecond
	}
	return s
}
