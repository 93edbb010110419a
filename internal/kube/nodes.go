package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/quantity"
)

// Node is a node, and what is left on it.
type Node struct {
	Name   string
	Labels map[string]string
	Free   map[string]*big.Rat // by resource
	Closed string              // why it takes no pods: Cordoned or NotReady; "" when it does
	Taints []domain.Taint      // that keep pods away which do not tolerate them
}

// Why a node takes no pods.
const (
	Cordoned = "cordoned"
	NotReady = "not ready"
)

const (
	pageOfNodes = 500
	pageOfPods  = 1000
)

// node is what is read of a node, and pod of a pod.
type node struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool           `json:"unschedulable"`
		Taints        []domain.Taint `json:"taints"`
	} `json:"spec"`
	Status struct {
		Allocatable map[string]string `json:"allocatable"`
		Conditions  []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// closed says why a node takes no pods. That it is not ready Kubernetes says by a taint as well, some time after the condition, and
// of a node that has no condition yet at once.
func (n *node) closed() string {
	if n.Spec.Unschedulable {
		return Cordoned
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return NotReady
		}
	}
	return ""
}

type pod struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string            `json:"nodeName"`
		Containers     []podContainer    `json:"containers"`
		InitContainers []podContainer    `json:"initContainers"`
		Overhead       map[string]string `json:"overhead"`
	} `json:"spec"`
}

type podContainer struct {
	RestartPolicy string `json:"restartPolicy"`
	Resources     struct {
		Requests map[string]string `json:"requests"`
	} `json:"resources"`
}

// LeftOut says of which pods what they request counts as if it were free. The zero value leaves out none.
type LeftOut struct {
	Of   func(labels map[string]string) string // whose a pod is, "" for one that counts
	Most map[string]map[string]*big.Rat        // how much of all pods of somebody, by resource; of who is not here everything
}

// Nodes lists the nodes, with what is left on them: what is allocatable less what is requested by the pods that have not ended.
// Where not all of somebody's pods are left out, it is the largest that are. Errors are as Apply's Outcome.Retry has them.
func (c *Cluster) Nodes(ctx context.Context, amounts bool, left LeftOut) ([]Node, error) {
	var nodes []Node
	at := map[string]int{}
	_, err := c.List(ctx, Collection{Path: "/api/v1/nodes", Page: pageOfNodes}, func(object json.RawMessage) error {
		var n node
		if err := json.Unmarshal(object, &n); err != nil {
			return fmt.Errorf("read node: %w", err)
		}
		at[n.Metadata.Name] = len(nodes)
		nodes = append(nodes, Node{
			Name: n.Metadata.Name, Labels: n.Metadata.Labels, Free: worth(n.Status.Allocatable), Closed: n.closed(),
			Taints: slices.DeleteFunc(n.Spec.Taints, func(t domain.Taint) bool { return !t.Bars() }),
		})
		return nil
	})
	if err != nil || !amounts || len(nodes) == 0 {
		return nodes, kindOf(err)
	}
	own := map[string][]asking{}
	_, err = c.List(ctx, Collection{
		Path: "/api/v1/pods", Fields: "status.phase!=Succeeded,status.phase!=Failed", Page: pageOfPods,
	}, func(object json.RawMessage) error {
		var p pod
		if err := json.Unmarshal(object, &p); err != nil {
			return fmt.Errorf("read pod: %w", err)
		}
		i, found := at[p.Spec.NodeName]
		if !found {
			return nil
		}
		if left.Of != nil {
			if of := left.Of(p.Metadata.Labels); of != "" {
				if left.Most[of] != nil {
					own[of] = append(own[of], asking{&nodes[i], p.requests()})
				}
				return nil
			}
		}
		nodes[i].take(p.requests())
		return nil
	})
	for of, pods := range own {
		leaveOut(pods, left.Most[of])
	}
	return nodes, kindOf(err)
}

// asking is a pod on a node.
type asking struct {
	node     *Node
	requests map[string]*big.Rat
}

// leaveOut takes what pods request from their nodes, but for so much of each resource.
func leaveOut(pods []asking, most map[string]*big.Rat) {
	for resource, room := range most {
		amount := func(p asking) *big.Rat {
			if r := p.requests[resource]; r != nil {
				return r
			}
			return new(big.Rat)
		}
		slices.SortStableFunc(pods, func(a, b asking) int { return amount(b).Cmp(amount(a)) })
		room := new(big.Rat).Set(room)
		for _, p := range pods {
			part := amount(p)
			if part.Cmp(room) > 0 {
				part = room
			}
			if part.Sign() > 0 {
				p.requests[resource] = new(big.Rat).Sub(amount(p), part)
				room = new(big.Rat).Sub(room, part)
			}
		}
	}
	for _, p := range pods {
		p.node.take(p.requests)
	}
}

// take says that less is left.
func (n *Node) take(requests map[string]*big.Rat) {
	for resource, requested := range requests {
		if free := n.Free[resource]; free != nil {
			free.Sub(free, requested)
		}
	}
}

// worth reads quantities; what is none, or is out of bounds, is left out.
func worth(of map[string]string) map[string]*big.Rat {
	all := make(map[string]*big.Rat, len(of))
	for name, text := range of {
		if r, err := quantity.Parse(text); err == nil {
			all[name] = r
		}
	}
	return all
}

// requests are what a pod requests, as the scheduler counts it: all containers with the init containers that go on, or one of the
// init containers before them, whichever is more.
func (p *pod) requests() map[string]*big.Rat {
	sum, most := map[string]*big.Rat{}, map[string]*big.Rat{}
	add := func(to map[string]*big.Rat, of map[string]*big.Rat) {
		for name, r := range of {
			if to[name] == nil {
				to[name] = new(big.Rat)
			}
			to[name].Add(to[name], r)
		}
	}
	for _, i := range p.Spec.InitContainers {
		requests := worth(i.Resources.Requests)
		if i.RestartPolicy == "Always" {
			add(sum, requests)
			continue
		}
		for name, r := range requests {
			with := new(big.Rat).Set(r)
			if sum[name] != nil {
				with.Add(with, sum[name])
			}
			if most[name] == nil || most[name].Cmp(with) < 0 {
				most[name] = with
			}
		}
	}
	for _, k := range p.Spec.Containers {
		add(sum, worth(k.Resources.Requests))
	}
	for name, r := range most {
		if sum[name] == nil || sum[name].Cmp(r) < 0 {
			sum[name] = r
		}
	}
	add(sum, worth(p.Spec.Overhead))
	return sum
}
