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

// ServiceController is a registration of a controller that clm or dtc calls.
type ServiceController struct {
	Identity `bson:",inline"`
	Metadata `json:"metadata" api:"required"`
	Spec     ServiceControllerSpec `json:"spec"`
	noun     *Noun
}

// ServiceControllerSpec says where EMCO would call the controller.
type ServiceControllerSpec struct {
	Host     string `json:"host"`                                 // where EMCO would call it
	Port     int    `json:"port"`                                 // 0 to 50000, of dtc's to 65535
	Type     string `json:"type,omitempty" bson:"type,omitempty"` // action, of dtc's; at most 48 characters
	Priority int    `json:"priority"`                             // 0 to 100
}

// dtcParts are the controllers of dtc whose work Drover does, with their ports in EMCO's installation: nps makes
// NetworkPolicies, and its makes what Istio needs.
var dtcParts = map[string][]int{"nps": {9038, 30438}, "its": {9040, 30440}}

// BuiltIn says whether Drover does what a controller of dtc does. It is known by its name, by the name of its service, or by
// its port.
func (c *ServiceController) BuiltIn() bool {
	service, _, _ := strings.Cut(c.Spec.Host, ".")
	for name, ports := range dtcParts {
		if c.Name == name || service == name || slices.Contains(ports, c.Spec.Port) {
			return true
		}
	}
	return false
}

// CLMControllers and DTCControllers are the nouns of the other two groups of controllers.
var (
	CLMControllers = serviceControllers("clm-controllers", "clm controller")
	DTCControllers = serviceControllers("dtc-controllers", "dtc controller")
)

func serviceControllers(kind, title string) *Noun {
	n := &Noun{Kind: kind, Title: title, Collection: kind, Names: []string{"controller"}}
	n.New = func() Object { return &ServiceController{noun: n} }
	return n
}

// Noun is the group's.
func (c *ServiceController) Noun() *Noun { return c.noun }

// Validate checks the body.
func (c *ServiceController) Validate(p *fail.Problems) {
	c.Metadata.Validate(p)
	most := mostPort
	if c.noun == DTCControllers {
		most = mostPortOfDTC
	}
	checkEndpoint(p, c.Spec.Host, c.Spec.Port, c.Spec.Priority, most)
	CheckLength(p, "spec.type", c.Spec.Type, 48)
}
