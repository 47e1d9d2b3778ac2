// Package extensions has the objects of Gardener's API groups that webhooks decode: resources of
// extensions.gardener.cloud/v1alpha1, with the fields that are read or changed here.
//
// # How it works
//
// Decode reads an object from JSON within bounds, since it comes from any user who may create one: bytes, values and
// nesting are counted before anything is decoded. Fields that the types do not have are ignored. Code that writes an
// object back sends a patch of what it changed, so that such fields survive.
//
// # Trade-offs
//
// The types are written down here rather than taken from Gardener's module. That module requires some hundred
// others, and a version of each, of which the hub would need none. What is repeated here are names of JSON fields,
// which are a released API. The price is that a new field is unknown until a developer adds it, and that there are
// no defaults, lists and clients: nothing needs them here. Contents that are read only by providers (providerConfig,
// machine classes) are raw JSON.
package extensions
