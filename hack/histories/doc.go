// Package histories looks for wrong deletes. It drives random histories against a whole hub on real API servers, with a
// crash of the hub possible at every single call, and judges everything the hub does by a model that knows nothing of
// the engine.
//
// # A world
//
// Two clusters: the west, which is the source as well, and the east. Three namespaces with four ManagedResources each,
// which refer to two Secrets each; 48 objects of five kinds that a Secret can hold; two registrations in each
// namespace, for the default class and class b, that lead to either cluster; and the class seed, which goes to the
// source itself. All of it is small, so that histories run into each other.
//
// Beside them is a hostile namespace. It writes what it likes on its own ManagedResources: that they are bound to a
// cluster of the others, or to what stands for their namespaces; that they list all objects of the others, with their
// UIDs; conditions, origins, labels, finalizers and classes. It registers an API server that claims to be one of the
// clusters, or the address of a cluster without an account there. It is never repaired: the others have to come to
// rest nevertheless.
//
// # A history
//
// A history is a list of steps, drawn from a seed: users change, move, copy, spoil, compress and delete content, create
// and delete ManagedResources, change their classes and targets; operators add, remove, pause and redirect
// registrations; foreigners edit, delete, re-create, adorn and strip objects in the targets; the infrastructure refuses
// calls, loses answers, answers 409, 429, 500 and 503, cuts and stalls watches, and kills the hub before a call is sent
// or after it was executed. Steps do not wait for the hub. From time to time the world comes to rest: everything is
// mended, and the hub has to bring all to where it belongs.
//
// A step is a line of text that needs no more chance, so a history can be run again, as a whole or in parts
// (Options.Replay). The hub works beside the steps with many goroutines, though, so a replay is an attempt and not a
// repetition: what failed once in a thousand steps may need several attempts.
//
// # The rules
//
// They are stated in the documentation of packages prune and sharing. The judge sees every request of the hub on the
// wire before it is sent, and every object and ManagedResource by watches of its own.
//
// An object that the hub deleted must, in the moment of its deletion, be one that
//
//   - is in the inventory of a ManagedResource that is bound to this very cluster, by UID,
//   - the hub wrote to, or which its inventory names by UID as one to be created and then ignored: an object that
//     another client created again under the name belongs to that client,
//   - bears no origin but that of such a ManagedResource,
//   - is not asked to be kept by its annotation keep-object,
//   - is not wanted: no ManagedResource that lists it for this cluster and has a say in it has it in its content, and
//     none is to keep its objects although it goes. Those of the namespace of the deleting ManagedResource have a say;
//     those of another honest namespace while that reaches the cluster by a registration the hub connected, or may
//     connect after a start, or by the class seed; the hostile ones never. Content is what could be read completely
//     last; a Secret that is missing or spoilt wants what it said before, together with what can still be read of it.
//     An object with mode=Ignore is left alone, too. A ManagedResource that is deleted, leaves its class or moves to
//     another cluster wants nothing where it was.
//
// Whatever else goes must have been deleted by a step of the history. Besides,
//
//   - nothing is written for a ManagedResource that is not in its inventory for this cluster already (write-ahead),
//   - nothing is written that no ManagedResource asks for,
//   - an inventory belongs to one cluster: a ManagedResource that is bound to another one begins with an empty one,
//   - an inventory does not lose what its ManagedResource wants,
//   - nothing that is said in an honest namespace names the hostile one, and the other way round,
//   - a target that is paused is not written to; one that leads to another cluster gets no call, and does not become that
//     cluster, without a confirmation,
//   - at rest, every ManagedResource is applied, its inventory is what it wants, its objects are there with their content,
//     and nothing is left behind but what the rules leave: kept, released or stolen objects, and those of a ManagedResource
//     that lost its target.
//
// The hub cannot know what changed a moment ago. A wish counts if it was there at the last rest, when the hub said that
// it had fulfilled it, or is older than this life of the hub, or than a few seconds. Everything that does not depend on
// knowing the newest wish is judged without such a grace.
package histories
