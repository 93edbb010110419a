package domain

import (
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/fail"
)

// Controller is the registration of one of EMCO's controllers. Nothing is called through it: a deployment intent may name
// it all the same, and where its intents do not hold, warnings say so.
type Controller struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ControllerSpec `json:"spec"`
}

// ControllerSpec says where EMCO would call the controller.
type ControllerSpec struct {
	Host     string `json:"host"`     // where EMCO would call it
	Port     int    `json:"port"`     // 0 to 50000
	Type     string `json:"type"`     // such as placement or action; at most 48 characters
	Priority int    `json:"priority"` // 0 to 100
}

// Controllers is the noun of the orchestrator's controllers. Intents may name one that is not registered yet.
var Controllers = &Noun{
	Kind: "controllers", Title: "controller", Collection: "controllers", Names: []string{"controller"},
	New: func() Object { return &Controller{} }, Late: true,
}

// Noun is Controllers.
func (*Controller) Noun() *Noun { return Controllers }

// Validate checks the body.
func (c *Controller) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	checkEndpoint(p, c.Spec.Host, c.Spec.Port, c.Spec.Priority, mostPort)
	CheckLength(p, "spec.type", c.Spec.Type, 48)
}

// mostPort is the largest port of EMCO's controllers, and mostPortOfDTC that of those of dtc.
const mostPort, mostPortOfDTC = 50000, 65535

func checkEndpoint(p *fail.Problems, host string, port, priority, most int) {
	CheckLength(p, "spec.host", host, 128)
	checkRange(p, "spec.port", port, most)
	checkRange(p, "spec.priority", priority, 100)
}

func checkRange(p *fail.Problems, path string, n, limit int) {
	switch {
	case n < 0:
		p.Add(path, "Must be greater than or equal to 0")
	case n > limit:
		p.Add(path, "Must be less than or equal to %d", limit)
	}
}

// ServiceController is a registration of a controller that clm calls.
type ServiceController struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ServiceControllerSpec `json:"spec"`
}

// ServiceControllerSpec says where EMCO would call the controller.
type ServiceControllerSpec struct {
	Host     string `json:"host"`                                 // where EMCO would call it
	Port     int    `json:"port"`                                 // 0 to 50000
	Type     string `json:"type,omitempty" bson:"type,omitempty"` // at most 48 characters
	Priority int    `json:"priority"`                             // 0 to 100
}

// CLMControllers is the noun.
var CLMControllers = &Noun{
	Kind: "clm-controllers", Title: "clm controller", Collection: "clm-controllers", Names: []string{"controller"},
	New: func() Object { return &ServiceController{} },
}

// Noun is CLMControllers.
func (*ServiceController) Noun() *Noun { return CLMControllers }

// Validate checks the body.
func (c *ServiceController) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	checkEndpoint(p, c.Spec.Host, c.Spec.Port, c.Spec.Priority, mostPort)
	CheckLength(p, "spec.type", c.Spec.Type, 48)
}

// DTCController is a registration of a controller that dtc calls.
type DTCController struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     DTCControllerSpec `json:"spec" api:"required"`
}

// DTCControllerSpec says where EMCO would call the controller. EMCO demands all of it; documents of before may lack some.
type DTCControllerSpec struct {
	Host     string `json:"host" api:"required"`                                             // where EMCO would call it
	Port     int    `json:"port" api:"required"`                                             // 1 to 65535
	Type     string `json:"type,omitempty" bson:"type,omitempty" api:"required,enum=action"` // action, or what contains it; at most 48 characters
	Priority int    `json:"priority" api:"required"`                                         // 1 to 100
}

// DTCControllers is the noun.
var DTCControllers = &Noun{
	Kind: "dtc-controllers", Title: "dtc controller", Collection: "dtc-controllers", Names: []string{"controller"},
	New: func() Object { return &DTCController{} },
}

// Noun is DTCControllers.
func (*DTCController) Noun() *Noun { return DTCControllers }

// dtcParts are the controllers of dtc whose work Drover does, with their ports in EMCO's installation: nps makes
// NetworkPolicies, and its makes what Istio needs.
var dtcParts = map[string][]int{"nps": {9038, 30438}, "its": {9040, 30440}}

// BuiltIn says whether Drover does what a controller of dtc does. It is known by its name, by the name of its service, or by
// its port.
func (c *DTCController) BuiltIn() bool {
	service, _, _ := strings.Cut(c.Spec.Host, ".")
	for name, ports := range dtcParts {
		if c.Name == name || service == name || slices.Contains(ports, c.Spec.Port) {
			return true
		}
	}
	return false
}

// Validate checks the body.
func (c *DTCController) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	checkEndpoint(p, c.Spec.Host, c.Spec.Port, c.Spec.Priority, mostPortOfDTC)
	CheckLength(p, "spec.type", c.Spec.Type, 48)
	if c.Spec.Host == "" {
		p.Add("spec.host", "is required")
	}
	if c.Spec.Port == 0 {
		p.Add("spec.port", "Must be greater than or equal to 1")
	}
	if !strings.Contains(c.Spec.Type, "action") {
		p.Add("spec.type", "must contain \"action\"")
	}
	if c.Spec.Priority == 0 {
		p.Add("spec.priority", "Must be greater than or equal to 1")
	}
}
