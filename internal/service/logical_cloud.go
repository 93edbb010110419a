package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// The lifecycle of an admin logical cloud (level 0) is in its document alone: there is nothing to put
// into its clusters, so every operation is over when it is recorded, and the status of its context
// follows from its history. EMCO's rules and sentences are in the tables of this file.

func fillCloud(o domain.Object) { o.(*domain.LogicalCloud).Default() }

// contextOf is where the last context of a cloud stands. Stopping changes nothing: there is never
// anything going on.
func contextOf(h *domain.History) domain.ContextStatus {
	switch h.State() {
	case domain.Instantiated, domain.InstantiateStopped:
		return domain.ContextInstantiated
	case domain.Terminated, domain.TerminateStopped:
		return domain.ContextTerminated
	default:
		return domain.ContextNone
	}
}

// cloudRefusals are EMCO's sentences, by operation and status of the last context; what is not in it is
// allowed.
var cloudRefusals = map[domain.Operation]map[domain.ContextStatus]string{
	domain.OpInstantiate: {domain.ContextInstantiated: "The Logical Cloud is already instantiated"},
	domain.OpTerminate: {
		domain.ContextNone:       "The Logical Cloud is not instantiated",
		domain.ContextTerminated: "The Logical Cloud has already been terminated",
	},
	domain.OpDelete: {domain.ContextInstantiated: "The Logical Cloud is instantiated, please terminate first"},
}

func cloudMay(cloud *domain.LogicalCloud, op domain.Operation) error {
	// Groups go only into a cloud that is Instantiated, and one that groups name cannot be terminated:
	// without this way back, a stop would be for good.
	if op == domain.OpInstantiate && cloud.History.State() == domain.InstantiateStopped {
		return nil
	}
	if sentence, refused := cloudRefusals[op][contextOf(&cloud.History)]; refused {
		return fail.New(fail.Conflict, "%s: logical cloud %q is in state %s", sentence, cloud.Name, cloud.History.State())
	}
	return nil
}

// mayChangeCloud guards the document of a cloud and carries its history from write to write.
func (s *Service) mayChangeCloud(_ context.Context, c change) error {
	switch {
	case c.from == nil:
		c.to.(*domain.LogicalCloud).History = domain.NewHistory(s.now())
		return nil
	case c.to == nil:
		return cloudMay(c.from.(*domain.LogicalCloud), domain.OpDelete)
	}
	old, cloud := c.from.(*domain.LogicalCloud), c.to.(*domain.LogicalCloud)
	cloud.History = old.History
	if contextOf(&old.History) == domain.ContextInstantiated &&
		(old.Spec.Level != cloud.Spec.Level || old.Spec.Namespace != cloud.Spec.Namespace) {
		return fail.New(fail.Conflict, "logical cloud %q cannot change its level or namespace in state %s; terminate it first",
			old.Name, old.History.State())
	}
	return nil
}

// mayChangeMembers guards the cluster references of a cloud. EMCO lets them come and go with an
// instantiated cloud as without one, but not while it is stopped half-way.
func (s *Service) mayChangeMembers(ctx context.Context, c change) error {
	o, err := s.store.Get(ctx, domain.LogicalClouds, c.object().Base().Parent)
	if err != nil {
		return err
	}
	cloud := o.(*domain.LogicalCloud)
	switch state := cloud.History.State(); state {
	case domain.InstantiateStopped, domain.TerminateStopped:
		return fail.New(fail.Conflict, "Cluster References cannot be added/removed unless the Logical Cloud is fully Instantiated or Terminated: logical cloud %q is in state %s",
			cloud.Name, state)
	default:
		return nil
	}
}

// InstantiateCloud makes a cloud ready to take deployment intent groups. Errors: Conflict in a wrong
// state; Invalid when it has no clusters, or is not an admin cloud.
func (s *Service) InstantiateCloud(ctx context.Context, key domain.Key) error {
	return s.operateCloud(ctx, key, domain.OpInstantiate, func(cloud *domain.LogicalCloud) error {
		if cloud.Spec.Level != domain.LevelAdmin {
			return fail.New(fail.Invalid, "logical cloud %q is of level %s; only clouds of level 0 (admin) can be instantiated",
				cloud.Name, cloud.Spec.Level)
		}
		id, err := newContextID()
		if err != nil {
			return err
		}
		s.record(cloud, domain.Instantiated, id)
		return nil
	})
}

// TerminateCloud takes a cloud out of service. Errors: Conflict in a wrong state; Invalid, as in EMCO,
// when it has no clusters or a deployment intent group names it.
func (s *Service) TerminateCloud(ctx context.Context, key domain.Key) error {
	return s.operateCloud(ctx, key, domain.OpTerminate, func(cloud *domain.LogicalCloud) error {
		group, found, err := s.store.Referring(ctx, domain.DeploymentIntentGroups, key)
		if err != nil {
			return err
		}
		if found {
			return fail.New(fail.Invalid, "Found at least one DIG associated with Logical Cloud attempted to be terminated: %s (%s)",
				describe(domain.DeploymentIntentGroups, group), group)
		}
		id := cloud.History.ContextID()
		cloud.History.StatusContextID = id
		s.record(cloud, domain.Terminated, id)
		return nil
	})
}

// operateCloud checks that the cloud may, lets act record it, and writes; again when somebody else has
// written meanwhile.
func (s *Service) operateCloud(ctx context.Context, key domain.Key, op domain.Operation, act func(*domain.LogicalCloud) error) error {
	for {
		o, err := s.store.Get(ctx, domain.LogicalClouds, key)
		if err != nil {
			return err
		}
		cloud := o.(*domain.LogicalCloud)
		if err := cloudMay(cloud, op); err != nil {
			return err
		}
		_, found, err := s.store.FirstUnder(ctx, domain.ClusterReferences, key)
		if err != nil {
			return err
		}
		if !found {
			return fail.New(fail.Invalid, "No Cluster References associated: logical cloud %q has no clusters", cloud.Name)
		}
		if err := act(cloud); err != nil {
			return err
		}
		if err := s.store.Replace(ctx, cloud); !fail.Is(err, fail.Conflict) || ctx.Err() != nil {
			return err
		}
	}
}

// StopCloud records that the last operation is to be stopped; it is over already, as it always is.
// Conflict when there was none, or it is stopped already.
func (s *Service) StopCloud(ctx context.Context, key domain.Key) error {
	for {
		o, err := s.store.Get(ctx, domain.LogicalClouds, key)
		if err != nil {
			return err
		}
		cloud := o.(*domain.LogicalCloud)
		switch cloud.History.State() {
		case domain.Instantiated:
			s.record(cloud, domain.InstantiateStopped, cloud.History.ContextID())
		case domain.Terminated:
			s.record(cloud, domain.TerminateStopped, cloud.History.ContextID())
		case domain.InstantiateStopped:
			return fail.New(fail.Conflict, "LogicalCloud instantiation already stopped: %s", cloud.Name)
		case domain.TerminateStopped:
			return fail.New(fail.Conflict, "LogicalCloud termination already stopped: %s", cloud.Name)
		default:
			return fail.New(fail.Conflict, "LogicalCloud has not been asked to instantiate: %s", cloud.Name)
		}
		if err := s.store.Replace(ctx, cloud); !fail.Is(err, fail.Conflict) || ctx.Err() != nil {
			return err
		}
	}
}

// record appends to the history; every action of a cloud counts its revision up.
func (s *Service) record(cloud *domain.LogicalCloud, state domain.State, contextID string) {
	h := &cloud.History
	revision := 0
	if n := len(h.Actions); n > 0 {
		revision = h.Actions[n-1].Revision + 1
	}
	h.Append(state, contextID, revision, s.now())
}

// CloudStatus is the answer to a status query of an admin cloud (reference 4.7): no counts and no
// clusters.
type CloudStatus struct {
	Project        string               `json:"project"`
	Name           string               `json:"name"`
	States         domain.History       `json:"states"`
	DeployedStatus domain.ContextStatus `json:"deployedStatus,omitempty"`
	ReadyStatus    string               `json:"readyStatus,omitempty"`
}

// StatusOfCloud answers a status query; instance is the context asked for, "" for the last one. Errors:
// NotFound; Invalid for an instance that the cloud does not have.
func (s *Service) StatusOfCloud(ctx context.Context, key domain.Key, instance string) (*CloudStatus, error) {
	o, err := s.store.Get(ctx, domain.LogicalClouds, key)
	if err != nil {
		return nil, err
	}
	cloud := o.(*domain.LogicalCloud)
	h := cloud.History
	status := &CloudStatus{Project: key.Segments()[1], Name: cloud.Name, States: h, DeployedStatus: contextOf(&h)}
	if instance != "" && instance != h.ContextID() {
		if !h.Knows(instance) {
			return nil, fail.New(fail.Invalid, "No state information for %s", instance)
		}
		// A new context begins when the one before it is terminated.
		status.DeployedStatus = domain.ContextTerminated
	}
	if status.DeployedStatus == domain.ContextInstantiated {
		status.ReadyStatus = "Ready"
	}
	return status, nil
}
