package rpc

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/drover-io/drover/internal/notify"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/statusnotify"
	"github.com/drover-io/drover/internal/view"
)

// question is what a registration asks, by the query that has its filters.
type question struct{ status.Query }

// ID implements notify.Question: it is not that of the query's document.
func (q question) ID() string { return "notification of " + q.Query.ID() }

// Extent implements notify.Question.
func (q question) Extent() notify.Extent { return q.Query.Extent() }

// Answer implements notify.Question.
func (q question) Answer(_ context.Context, s notify.Snapshot, before notify.Answer) (notify.Answer, error) {
	n, err := q.notification(s.(notify.StatusSnapshot).Known())
	if err != nil || before != nil && proto.Equal(n, before.(*answer).StatusNotification) {
		return nil, err
	}
	return &answer{n}, nil
}

// answer is a notification, which nobody is told by events.
type answer struct {
	*statusnotify.StatusNotification
}

// Document implements notify.Answer.
func (*answer) Document() []byte { return nil }

// Size implements notify.Answer.
func (a *answer) Size() int64 {
	const inMemory = 4 // times what it has as a message
	return inMemory * int64(proto.Size(a.StatusNotification))
}

// Since implements notify.Answer: any other notification is a change.
func (*answer) Since(notify.Answer) ([]byte, error) { return []byte{}, nil }

// notification is what a registered client is told of a status. READY is a context that is instantiated, or
// updated, and ready; DEPLOYED one that is instantiated or updated. An app or a cluster is what all its resources are that
// count (view.Row.Readied, view.Row.Deployed); those that do not are left out.
func (q question) notification(s *status.Source) (*statusnotify.StatusNotification, error) {
	rows, err := q.Rows(s)
	if err != nil {
		return nil, err
	}
	d := details{ready: q.Type == status.TypeReady, byApp: s.Subject == status.SubjectGroup}
	d.judge = (*view.Row).Deployed
	if d.ready {
		d.judge = (*view.Row).Readied
	}
	var t view.Tally
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		t.Add(r)
		if q.Output == status.OutputAll {
			d.add(r)
		}
	}
	good := s.Stands() && (!d.ready || s.Ready(&t))
	return &statusnotify.StatusNotification{StatusValue: d.value(good), Details: d.list}, nil
}

// details are those of a notification.
type details struct {
	ready bool // it is about readiness
	byApp bool // clusters are told by app
	judge func(*view.Row) (counts, good bool)

	list    []*statusnotify.StatusDetail
	app     *statusnotify.AppStatus     // the one that is being told, where byApp
	cluster *statusnotify.ClusterStatus // the same
	place   *view.Place                 // of the cluster
}

// add tells of a row.
func (d *details) add(r *view.Row) {
	if r.Place != d.place {
		d.enter(r.Place)
	}
	counts, good := d.judge(r)
	if !counts {
		return
	}
	id := r.Resource
	d.cluster.Resources = append(d.cluster.Resources, &statusnotify.ResourceStatus{
		Name: id.Name, Gvk: &statusnotify.GVK{Group: id.Group, Version: id.Version, Kind: id.Kind}, StatusValue: d.value(good),
	})
	d.spoil(good)
}

// enter begins a cluster, and its app when that is another one. A cluster that nobody vouches for is not as it should be.
func (d *details) enter(p *view.Place) {
	if d.byApp && (d.place == nil || d.place.App != p.App) {
		d.app = &statusnotify.AppStatus{App: p.App.Name, StatusValue: d.value(true)}
		d.list = append(d.list, &statusnotify.StatusDetail{StatusDetail: &statusnotify.StatusDetail_App{App: d.app}})
	}
	c := p.Cluster
	d.place = p
	d.cluster = &statusnotify.ClusterStatus{ClusterProvider: c.Provider, Cluster: c.Name, StatusValue: d.value(true)}
	if d.byApp {
		d.app.Clusters = append(d.app.Clusters, d.cluster)
	} else {
		d.list = append(d.list, &statusnotify.StatusDetail{StatusDetail: &statusnotify.StatusDetail_Cluster{Cluster: d.cluster}})
	}
	d.spoil(p.Doubt == nil)
}

// spoil makes the cluster, and its app, what it is not when one of their parts is not.
func (d *details) spoil(ok bool) {
	if ok {
		return
	}
	d.cluster.StatusValue = d.value(false)
	if d.byApp {
		d.app.StatusValue = d.value(false)
	}
}

func (d *details) value(good bool) statusnotify.StatusValue {
	switch {
	case d.ready && good:
		return statusnotify.StatusValue_READY
	case d.ready:
		return statusnotify.StatusValue_NOT_READY
	case good:
		return statusnotify.StatusValue_DEPLOYED
	default:
		return statusnotify.StatusValue_NOT_DEPLOYED
	}
}
