// Package workercomponent stands in for the package of this name: see the README three folders up.
package workercomponent

import "go.uber.org/fx"

// Module has no worker: without compute providers none has anything to do.
var Module = fx.Options()
