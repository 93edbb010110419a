package service

import (
	"context"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
)

// change is a write on its way: from is nil when a document is created, to is nil when it is deleted.
type change struct {
	from, to domain.Object
	// left is where it is said what stays in clusters of what is deleted; nil for a write that deletes nothing.
	left *[]string
	// abandon says that the cluster of what is deleted does not come back: what that may have of it is no refusal then.
	abandon bool
	// without is a noun whose documents go with what is deleted, nil for none.
	without *domain.Noun
}

// object is the one that is there: the new one, or the one that goes.
func (c change) object() domain.Object {
	if c.to != nil {
		return c.to
	}
	return c.from
}

// rule is what a noun has beyond the plain verbs; every member may be missing.
type rule struct {
	// fill completes a body before it is validated.
	fill func(o domain.Object)
	// check adds problems of the body that take more to find than the document itself has.
	check func(o domain.Object, p *fail.Problems)
	// shown completes a document that is given out with what is not stored of it.
	shown func(o domain.Object)
	// accept refuses a body that cannot be judged by itself, before it matters whether the document is there.
	accept func(s *Service, ctx context.Context, o domain.Object) error
	// before may refuse a write, or complete what is written.
	before func(s *Service, ctx context.Context, c change) error
	// after looks once more when the write is done; an error takes the write back.
	after func(s *Service, ctx context.Context, c change) error
	// dropped is told of a write that before has let through, when that was not done, or, as taken says, was done and taken back. It is not told
	// where nobody knows. An error is part of the answer.
	dropped func(s *Service, ctx context.Context, c change, taken bool) error
	// remains says whether a document that others have written since has still what a refused write has brought, and what was there before, nil for
	// nothing: then that is judged again, and taken back. nil where who writes on top of it looks at all of it.
	remains func(c change, now domain.Object) (before domain.Object, ours bool)
	// gone cleans up after a deletion that stands.
	gone func(s *Service, ctx context.Context, key domain.Key) error
	// remark says what the user should know of a document that is stored as it was sent.
	remark func(s *Service, ctx context.Context, o domain.Object) (warnings []string, err error)
	// operations are those of owners that are not of app contexts alone.
	operations func(s *Service) contextOperations
	// attach checks an uploaded file and keeps it with o; file reads it back.
	attach func(s *Service, ctx context.Context, o domain.Object, file []byte, keep storing) error
	file   func(s *Service, ctx context.Context, o domain.Object) ([]byte, error)
	// attachAll and files are the same for nouns with any number of files.
	attachAll func(s *Service, ctx context.Context, o domain.Object, files []domain.Upload, keep storing) error
	files     func(s *Service, ctx context.Context, o domain.Object) ([]domain.Upload, error)
	// orphan is the kind of the refusal to create something below a parent that is not there; EMCO has
	// both. Conflict when missing.
	orphan fail.Kind
	// ofGroup says that what is created in a deployment intent group that is not there is NotFound, whatever else is missing.
	ofGroup bool
	// listOrphan says that a list below a parent that is not there is NotFound rather than empty.
	listOrphan bool
}

// rules of the nouns; one that is missing has none.
var rules = map[*domain.Noun]rule{
	domain.ClustersNoun:       {before: (*Service).changeCluster, after: (*Service).changedCluster, gone: (*Service).forgetCluster, remark: (*Service).unreached, attach: (*Service).attachKubeconfig, file: (*Service).kubeconfig, listOrphan: true},
	domain.ClusterKVs:         {remark: (*Service).remarkPairs, listOrphan: true},
	domain.ClusterSyncObjects: {remark: (*Service).remarkPairs},
	domain.CLMControllers:     {remark: remarkAlways("nothing is done with it: no clm controller is called, and hpa intents need none")},
	domain.Networks:           {before: (*Service).mayChangeNetworks, after: (*Service).changedNetworks, orphan: fail.NotFound},
	domain.ProviderNetworks:   {before: (*Service).mayChangeNetworks, after: (*Service).changedNetworks, orphan: fail.NotFound},

	domain.LogicalClouds:     {operations: func(s *Service) contextOperations { return clouds{s} }, fill: fillCloud, before: (*Service).mayChangeCloud, after: (*Service).wroteCloud, remains: remainsOfCloud, gone: (*Service).forgetInstances, remark: (*Service).remarkCloud, orphan: fail.NotFound},
	domain.ClusterReferences: {before: (*Service).mayChangeMembers, after: (*Service).changedMembers, dropped: (*Service).droppedBelowCloud, remains: remainsOfReference, remark: (*Service).remarkReference, orphan: fail.NotFound, listOrphan: true},
	domain.UserPermissions:   {before: (*Service).changePermission, after: (*Service).changedPermission, dropped: (*Service).droppedBelowCloud, remains: remainsOfPermission, remark: (*Service).remarkPermission, orphan: fail.NotFound, listOrphan: true},
	domain.ClusterQuotas:     {before: (*Service).mayHaveQuotas, after: (*Service).changedCloud, dropped: (*Service).droppedBelowCloud, orphan: fail.NotFound, listOrphan: true},
	domain.LogicalCloudKVs:   {remark: remarkAlways("spec.kv: nothing is done with the key-value pairs of a logical cloud; patches find those of clusters and of cluster providers"), orphan: fail.NotFound, listOrphan: true},

	domain.CompositeApps:   {orphan: fail.NotFound, listOrphan: true},
	domain.Apps:            {attach: (*Service).attachChart, file: (*Service).chart},
	domain.AppDependencies: {before: (*Service).noCycle, after: (*Service).noCycle},
	domain.Profiles:        {before: (*Service).changeProfile, after: (*Service).oneProfilePerApp, remark: (*Service).remarkProfile, attach: (*Service).attachProfile, file: (*Service).profile, orphan: fail.NotFound},

	domain.DeploymentIntentGroups: {fill: fillGroup, before: (*Service).changeGroup, after: (*Service).changedGroup, gone: (*Service).forgetInstances},
	domain.DeploymentIntents:      {before: (*Service).unapprove, after: (*Service).unapproved, remark: (*Service).unenforced},
	domain.PlacementIntents:       {before: (*Service).unapprove, after: (*Service).unapproved},
	domain.AppIntents:             {before: (*Service).unapprove, after: (*Service).unapproved, remark: (*Service).unlabelled},

	domain.NetControllerIntents: {before: (*Service).unapprove, after: (*Service).unapproved},
	domain.WorkloadIntents:      {before: (*Service).unapprove, after: (*Service).unapproved, remark: (*Service).unknownApp},
	domain.InterfaceIntents:     {fill: fillInterface, before: (*Service).unapprove, after: (*Service).unapproved},

	domain.TrafficGroupIntents:         {before: (*Service).unapprove, after: (*Service).unapproved, ofGroup: true},
	domain.InboundServerIntents:        {before: (*Service).changeInbound, after: (*Service).unapproved, shown: showInbound, remark: (*Service).remarkInbound, ofGroup: true},
	domain.InboundClientsIntents:       {before: (*Service).unapprove, after: (*Service).unapproved, remark: (*Service).unknownApp, ofGroup: true},
	domain.InboundClientsAccessIntents: {before: (*Service).unapprove, after: (*Service).unapproved, ofGroup: true},
	domain.HPAIntents:                  {before: (*Service).unapprove, after: (*Service).unapproved, remark: (*Service).unknownApp},
	domain.HPAConsumers:                {before: both((*Service).keepsContainer, (*Service).unapprove), after: both((*Service).keepsContainer, (*Service).unapproved)},
	domain.HPAResources:                {before: both((*Service).hasContainer, (*Service).unapprove), after: both((*Service).hasContainer, (*Service).unapproved), remark: (*Service).remarkRequirement, orphan: fail.NotFound},
	domain.GenericK8sIntents:           {before: (*Service).unapprove, after: (*Service).unapproved},
	domain.GenericResources:            {before: (*Service).changeResource, after: (*Service).unapproved, remark: (*Service).remarkResource, attach: (*Service).attachTemplate, file: (*Service).template},
	domain.Customizations:              {before: (*Service).changeCustomization, after: (*Service).unapproved, remark: (*Service).remarkCustomization, attachAll: (*Service).attachFiles, files: (*Service).filesOf},

	domain.StatusCollectors:  {fill: fillCollector, check: checkCollector, shown: showCollector, before: (*Service).countSpecs},
	domain.ProjectCollectors: {fill: fillCollector, check: checkCollector, shown: showCollector, before: (*Service).countSpecs, orphan: fail.NotFound, listOrphan: true},
	domain.StatusIntents:     {remark: (*Service).unknownApps, listOrphan: true}, // nothing that is approved depends on them

	domain.ReadinessRules: {before: (*Service).acceptReadinessRule, after: (*Service).oneRulePerKind},

	domain.Tenants:              {fill: fillTenant, before: (*Service).changeTenant, after: (*Service).changedTenant, dropped: (*Service).droppedTenant, gone: (*Service).forgetTenant, remark: (*Service).outruled},
	domain.Hosts:                {before: (*Service).changeHost, after: (*Service).changedHost, dropped: (*Service).droppedHost, gone: (*Service).forgetHost, orphan: fail.NotFound, listOrphan: true},
	domain.WorkloadRules:        {accept: (*Service).acceptRule, before: (*Service).changeRule, after: (*Service).changedRule, dropped: (*Service).droppedRule, gone: (*Service).forgetRule, orphan: fail.NotFound, listOrphan: true},
	domain.TenantTokens:         {fill: fillToken, before: (*Service).issueToken, after: (*Service).issuedToken, shown: showToken, orphan: fail.NotFound, listOrphan: true},
	domain.ServiceAccountTokens: {fill: fillToken, before: (*Service).issueToken, after: (*Service).issuedToken, shown: showToken, orphan: fail.NotFound, listOrphan: true},
	domain.OperatorRules:        {accept: (*Service).acceptRule, before: (*Service).changeRule, after: (*Service).changedRule, dropped: (*Service).droppedRule, gone: (*Service).forgetRule},

	domain.ServiceAccounts:      {before: (*Service).changeAccount},
	domain.Roles:                {check: checkRole, before: (*Service).changeRole, remark: (*Service).remarkRole},
	domain.RoleBindings:         {before: (*Service).changeBinding, after: (*Service).changedBinding, remark: (*Service).remarkBinding},
	domain.ProjectRoleBindings:  {before: (*Service).changeBinding, after: (*Service).changedBinding, remark: (*Service).remarkBinding, orphan: fail.NotFound, listOrphan: true},
	domain.ProviderRoleBindings: {before: (*Service).changeBinding, after: (*Service).changedBinding, remark: (*Service).remarkBinding, orphan: fail.NotFound, listOrphan: true},
}

// both does one thing of a change, and then another one.
func both(first, then func(*Service, context.Context, change) error) func(*Service, context.Context, change) error {
	return func(s *Service, ctx context.Context, c change) error {
		if err := first(s, ctx, c); err != nil {
			return err
		}
		return then(s, ctx, c)
	}
}

// remarkAlways says of all documents of a noun that they are kept, and that is all.
func remarkAlways(remark string) func(*Service, context.Context, domain.Object) ([]string, error) {
	return func(*Service, context.Context, domain.Object) ([]string, error) { return []string{remark}, nil }
}

func (r rule) runAccept(ctx context.Context, s *Service, o domain.Object) error {
	if r.accept == nil {
		return nil
	}
	return r.accept(s, ctx, o)
}

func (r rule) runBefore(ctx context.Context, s *Service, c change) error {
	if r.before == nil {
		return nil
	}
	return r.before(s, ctx, c)
}

func (r rule) runAfter(ctx context.Context, s *Service, c change) error {
	if r.after == nil {
		return nil
	}
	return r.after(s, ctx, c)
}

// runRefused tells the rule of a change that the store has refused with err, when that says that nothing was written.
func (r rule) runRefused(ctx context.Context, s *Service, c change, err error) {
	if r.dropped != nil && nothingWritten(err) {
		_ = r.dropped(s, ctx, c, false) // err is the answer
	}
}

// show completes what is given out.
func show(o domain.Object) {
	if shown := rules[o.Noun()].shown; shown != nil {
		shown(o)
	}
}
