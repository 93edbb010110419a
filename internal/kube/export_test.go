package kube

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindOf is kindOf, for the table of its test.
var KindOf = kindOf

// BuiltInKinds lists the table of built-in kinds: resource, and whether it has a namespace.
func BuiltInKinds(each func(gk schema.GroupKind, resource string, namespaced bool)) {
	for gk, m := range builtInKinds {
		each(gk, m.resource, m.namespaced)
	}
}

// Update and DecodeObject are for the table of update's test.
var Update, DecodeObject = update, decodeObject

// Age has the credentials checked so long ago.
func (c *Cluster) Age(by time.Duration) { c.checked.Store(time.Now().Add(-by).UnixNano()) }

// Paced says whether a client waits between requests.
func (o *Owned) Paced() bool { return o.client.CoreV1().RESTClient().GetRateLimiter() != nil }
