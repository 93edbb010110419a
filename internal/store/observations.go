package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/plan"
	"github.com/drover-io/drover/internal/secret"
)

// Sizes of observations, in bytes, compressed.
const (
	// inlineSize is what stays in an observation's document, twice: what is larger goes into chunks, so that who reads
	// what thousands of clusters say of their resources has not in memory what these are.
	inlineSize = 8 << 10
	// frameSize is from what on, not compressed, what objects are continues in another frame.
	frameSize = 64 << 10
	// observedChunk is what one chunk holds.
	observedChunk = 4 << 20
)

// observation is the document of what a cluster says of an app.
type observation struct {
	ID     string         `bson:"_id"` // observationID
	Digest domain.Digest  `bson:"digest"`
	Said   []byte         `bson:"said"` // observedTexts in JSON, sealed
	Texts  observedTexts  `bson:"-"`
	broken error          // why Said cannot be opened
	Upload bson.ObjectID  `bson:"upload"` // of the chunks
	Names  packed         `bson:"names"`  // JSON list of observedName; the head of what is sealed lies in front of the data
	Bodies packed         `bson:"bodies"` // JSON list of the resources' JSON
	Gone   []goneResource `bson:"gone,omitempty"`
	Turn   domain.Turn    `bson:"turn"` // of who reported it last; an older build's has none, which is the earliest
}

// observedTexts is what an observation says beside resources: what clusters answered may quote what was sent.
type observedTexts struct {
	Kinds   []string             `json:"kinds"`
	Unheard []domain.UnheardKind `json:"unheard,omitempty"`
	Error   string               `json:"error,omitempty"`
	Since   int64                `json:"since,omitempty"` // when Error was stored first, in milliseconds
}

// goneResource is a domain.GoneResource, by short names.
type goneResource struct {
	Identity int64 `bson:"i"`
	Since    int64 `bson:"t"` // in milliseconds
}

// packed is a value, compressed and sealed: in place, or in chunks.
type packed struct {
	Data   []byte `bson:"data"`
	Chunks int    `bson:"chunks"`
	// Frames are the parts that it was compressed and sealed in, each by itself, so that one can be read without the others. One
	// after the other they are the whole. Names have none: they are one part.
	Frames []frame `bson:"frames,omitempty"`
}

// frame is the size of a part, as it is and as it is stored.
type frame struct {
	Raw    int `bson:"r"`
	Packed int `bson:"p"`
}

type observedChunkDoc struct {
	ID   string `bson:"_id"` // chunkOf
	Data []byte `bson:"data"`
}

// observedName is a resource without its JSON, by short names: there are many.
type observedName struct {
	Group     string `json:"g,omitempty"`
	Version   string `json:"v"`
	Kind      string `json:"k"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"n"`
	Status    string `json:"s,omitempty"`
	Message   string `json:"m,omitempty"`
	// Stored, in milliseconds, and Sum are of its JSON.
	Stored int64  `json:"t,omitempty"`
	Sum    uint64 `json:"x,omitempty"`
	// Size is that of its JSON as it is stored.
	Size int `json:"l,omitempty"`
}

// Observations are divided by deployment, so that a status reads one app's and few others'. The blank sorts before
// every character of a name: the order of _id is that of provider and name.
func observationID(o domain.ObservedApp) string {
	return plan.DeploymentID(o.ContextID, o.App) + "/" + o.Cluster.Provider + " " + o.Cluster.Name
}

func (s *Store) observations(deploymentID string) *mongo.Collection {
	return s.partition(observationsName, deploymentID)
}

func (s *Store) observedChunks(deploymentID string) *mongo.Collection {
	return s.partition(observedChunksName, deploymentID)
}

const (
	observationsName   = "observations"
	observedChunksName = "observation-chunks"
)

// The parts of an observation, of which names and bodies may be in chunks.
const (
	namesPart  = "names"
	bodiesPart = "bodies"
	saidPart   = "said"
)

// chunkOf is the _id of a chunk: all of an observation's are below its own.
func chunkOf(id string, upload bson.ObjectID, part string, i int) string {
	return fmt.Sprintf("%s/%s/%s/%06d", id, upload.Hex(), part, i)
}

// uploadOf is the upload of a chunk by its _id; zero for what is none.
func uploadOf(chunk string) (upload bson.ObjectID) {
	if parts := strings.Split(chunk, "/"); len(parts) > 2 {
		upload, _ = bson.ObjectIDFromHex(parts[len(parts)-3])
	}
	return upload
}

// ofUpload is what the _id of all chunks of its upload begin with, before a slash; "" for what is no chunk.
func ofUpload(chunk string) string {
	parts := strings.Split(chunk, "/")
	if len(parts) < 4 {
		return ""
	}
	return strings.Join(parts[:len(parts)-2], "/")
}

// PutObservation replaces what is known of an app in a cluster. What is there already is not written again, but that it is of the
// turn of who has reported it again: who had an earlier one may have a report still that is older. Aborted when there is one of a
// later turn.
func (s *Store) PutObservation(ctx context.Context, o *domain.Observation) error {
	changed, err := s.putObservation(ctx, o)
	return s.observed(ctx, o.ObservedApp, changed, err)
}

// observationTries is how often an observation is written that others change meanwhile: one that is sealed anew.
const observationTries = 30

// putObservation is PutObservation.
func (s *Store) putObservation(ctx context.Context, o *domain.Observation) (changed bool, err error) {
	r, err := s.rooted(ctx)
	if err != nil {
		return false, err
	}
	digest := domain.Digest(secret.Digest(r.observations, []byte(o.Digest())))
	for range observationTries {
		done, changed, err := s.tryObservation(ctx, o, digest)
		if done || err != nil {
			return changed, err
		}
	}
	return false, fail.New(fail.Unavailable, "observation %s is being changed by others; try again", observationID(o.ObservedApp))
}

// tryObservation replaces an observation, unless somebody else does it at the same time. The chunks come before the document that names
// them, and those that nothing names any more go after it.
func (s *Store) tryObservation(ctx context.Context, o *domain.Observation, digest domain.Digest) (done, changed bool, err error) {
	deployment := plan.DeploymentID(o.ContextID, o.App)
	now := observation{ID: observationID(o.ObservedApp), Digest: digest, Upload: bson.NewObjectIDFromTimestamp(s.now())}
	now.Texts, now.Turn = observedTexts{Kinds: o.Kinds, Unheard: o.Unheard, Error: o.Error}, o.Turn
	var before observation
	err = s.findOne(ctx, s.observations(deployment), now.ID, &before)
	missing := fail.Is(err, fail.NotFound)
	switch {
	case err != nil && !missing:
		return false, false, err
	case !missing && s.later(before.Turn, now.Turn):
		return false, false, errLaterReport(now.ID)
	case missing:
		if err := s.notOvertaken(ctx, o); err != nil {
			return false, false, err
		}
	case before.Digest == now.Digest && before.broken == nil:
		done, err := s.raiseTurn(ctx, deployment, &before, now.Turn)
		return done, done && s.chains.news(now.ID), err
	}
	if o.Error != "" {
		err = s.fallSilent(ctx, deployment, &before, &now, o)
	} else {
		err = s.packAfter(ctx, deployment, &before, &now, o)
	}
	if err != nil {
		return false, false, fmt.Errorf("store observation %s: %w", now.ID, err)
	}
	if missing {
		done, err = s.insertObservation(ctx, deployment, &now, o)
	} else {
		done, err = s.replaceObservation(ctx, deployment, &before, &now)
	}
	if err != nil {
		return false, false, err
	}
	gone := &before
	if !done {
		gone = &now
	}
	return done, done, s.deleteObservedChunks(ctx, deployment, gone)
}

// insertObservation stores the first observation of an app; false when somebody else has done so meanwhile. One that a later watch of the cluster has come
// before is taken back: that one may have found nothing there, and would not look again.
func (s *Store) insertObservation(ctx context.Context, deployment string, now *observation, o *domain.Observation) (bool, error) {
	inserted, err := s.insertOnce(ctx, s.observations(deployment), now)
	if err != nil || !inserted {
		return inserted, err
	}
	overtaken := s.notOvertaken(ctx, o)
	if fail.Is(overtaken, fail.Aborted) {
		_, err = s.takeObservation(ctx, deployment, now, o.Turn)
	}
	return true, errors.Join(overtaken, err)
}

// notOvertaken is Aborted when a watch of a later turn has said something of the cluster: where it has deleted an observation, no document tells of its turn.
func (s *Store) notOvertaken(ctx context.Context, o *domain.Observation) error {
	var said struct {
		Turn domain.Turn `bson:"turn"`
	}
	err := s.findOne(ctx, s.watches(), o.Cluster.Key(), &said)
	switch {
	case fail.Is(err, fail.NotFound):
		return nil
	case err != nil:
		return err
	case s.later(said.Turn, o.Turn):
		return errLaterReport(observationID(o.ObservedApp))
	}
	return nil
}

// packAfter is pack for what takes the place of an observation, which has no ID where there was none.
func (s *Store) packAfter(ctx context.Context, deployment string, before, now *observation, o *domain.Observation) error {
	if before.ID == "" {
		return s.pack(ctx, deployment, now, o, markedAfter(nil, o, s.now()))
	}
	marks, gone, err := s.marked(ctx, before, o)
	if err != nil {
		return err
	}
	now.Gone = gone
	return s.pack(ctx, deployment, now, o, marks)
}

// fallSilent packs what was reported before into an observation that says why nothing is reported any more: nobody knows whether it
// still is so, but it was.
func (s *Store) fallSilent(ctx context.Context, deployment string, before, now *observation, o *domain.Observation) error {
	now.Texts.Since = s.now().UnixMilli()
	if fail.IsUnanswered(before.broken) { // by a KMS: then nobody knows what was reported
		return before.broken
	}
	if before.ID == "" || before.broken != nil {
		return s.pack(ctx, deployment, now, o, markedAfter(nil, o, s.now()))
	}
	now.Texts.Kinds, now.Texts.Unheard, now.Gone = before.Texts.Kinds, before.Texts.Unheard, before.Gone
	if before.Texts.Error != "" && before.Texts.Since != 0 {
		now.Texts.Since = before.Texts.Since
	}
	names, bodies, err := s.packedParts(ctx, before)
	switch {
	case err == nil:
		raw := make([]int, len(bodies))
		for i := range raw {
			raw[i] = before.Bodies.Frames[i].Raw
		}
		return s.sealParts(ctx, deployment, now, names, bodies, raw)
	case errors.Is(err, domain.ErrUnreadable), fail.Is(err, fail.NotFound): // NotFound: another one has taken its place
		return s.pack(ctx, deployment, now, o, markedAfter(nil, o, s.now()))
	}
	return err
}

// errLaterReport says that there is a report that is not to be replaced.
func errLaterReport(id string) error {
	return fail.New(fail.Aborted, "a later watch than this one has reported observation %s", id)
}

// raiseTurn notes that an observation was reported in a turn, too; false when it is not there any more, or was reported in a later one.
func (s *Store) raiseTurn(ctx context.Context, deployment string, before *observation, turn domain.Turn) (bool, error) {
	if before.Turn == turn {
		return true, nil
	}
	as := append(byID(before.ID), bson.E{Key: "upload", Value: before.Upload}, s.notLater(turn))
	return s.setIf(ctx, s.observations(deployment), as, bson.D{{Key: "turn", Value: turn}})
}

// replaceObservation puts one in place of another one; false when that one is not there any more, or was reported in a later turn meanwhile.
func (s *Store) replaceObservation(ctx context.Context, deployment string, before, now *observation) (bool, error) {
	as := append(byID(now.ID), bson.E{Key: "upload", Value: before.Upload}, s.notLater(now.Turn))
	return s.replaceIf(ctx, s.observations(deployment), as, now)
}

// deleteObservedChunks removes the chunks of an observation that is not there any more, if it has any.
func (s *Store) deleteObservedChunks(ctx context.Context, deployment string, of *observation) error {
	if of.Names.Chunks+of.Bodies.Chunks == 0 {
		return nil
	}
	return s.deleteRange(ctx, s.observedChunks(deployment), below(of.ID+"/"+of.Upload.Hex()))
}

// pack compresses and seals the resources into the document, and into chunks where they are large.
func (s *Store) pack(ctx context.Context, deployment string, into *observation, o *domain.Observation, marks []storedMark) error {
	names := make([]observedName, len(o.Resources))
	bodies := [][]byte{{'['}} // in frames
	for i := range o.Resources {
		r := &o.Resources[i]
		body := []byte("null")
		if len(r.JSON) > 0 {
			var err error
			if body, err = json.Marshal(json.RawMessage(r.JSON)); err != nil {
				return fail.Wrap(err, fail.Internal, "a resource cannot be stored")
			}
		}
		names[i] = observedName{
			r.Group, r.Version, r.Kind, r.Namespace, r.Name, r.Status, r.Message, marks[i].stored.UnixMilli(), marks[i].sum, len(body),
		}
		last := &bodies[len(bodies)-1]
		if len(*last) >= frameSize {
			bodies = append(bodies, nil)
			last = &bodies[len(bodies)-1]
		}
		if i > 0 {
			*last = append(*last, ',')
		}
		*last = append(*last, body...)
	}
	bodies[len(bodies)-1] = append(bodies[len(bodies)-1], ']')
	raw := make([]int, len(bodies))
	for i, body := range bodies {
		raw[i], bodies[i] = len(body), encoder.EncodeAll(body, nil)
	}
	data, err := json.Marshal(names)
	if err != nil {
		return fail.Wrap(err, fail.Internal, "the names of resources cannot be stored")
	}
	return s.sealParts(ctx, deployment, into, encoder.EncodeAll(data, nil), bodies, raw)
}

// observedPlace is what a part of an observation is bound to.
func observedPlace(o *observation, part string, i int) string {
	return fmt.Sprintf("%s/%s/%s/%s/%d", observationsName, o.ID, o.Upload.Hex(), part, i)
}

// divide puts into chunks what is large.
func (s *Store) divide(ctx context.Context, deployment string, of *observation, name string, p *packed) error {
	if len(p.Data) <= inlineSize {
		return nil
	}
	for chunk := range slices.Chunk(p.Data, observedChunk) {
		doc := observedChunkDoc{ID: chunkOf(of.ID, of.Upload, name, p.Chunks), Data: chunk}
		if _, err := s.insertOnce(ctx, s.observedChunks(deployment), doc); err != nil {
			return err
		}
		p.Chunks++
	}
	p.Data = nil
	return nil
}

// unpack decodes what pack encoded.
func (s *Store) unpack(ctx context.Context, o *observation, name string, p packed, into any) error {
	parts, names, err := s.keys.PartsOf(o.Names.Data)
	if err != nil {
		return damagedObservation(o, err)
	}
	sealed := p.Data
	if name == namesPart {
		sealed = slices.Clip(names) // others read it, too
	}
	if sealed, err = s.withChunks(ctx, o, name, p, sealed); err != nil {
		return err
	}
	data, err := openFrames(parts, o, name, p, sealed)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return damagedObservation(o, err)
	}
	return nil
}

// damagedObservation says that one cannot be opened or decoded; that whoever keeps the keys does not answer says nothing about it.
func damagedObservation(o *observation, err error) error {
	if kind := fail.KindOf(err); kind == fail.Unavailable || kind == fail.Timeout {
		return fmt.Errorf("open observation %s: %w", o.ID, err)
	}
	return unopened(fail.Wrap(err, fail.Internal, "observation %s is damaged", o.ID))
}

// withChunks is data with what is in chunks behind it. NotFound when they are gone.
func (s *Store) withChunks(ctx context.Context, o *observation, name string, p packed, data []byte) ([]byte, error) {
	deployment, _, _ := strings.Cut(o.ID, "/")
	for i := range p.Chunks {
		var chunk observedChunkDoc
		if err := s.findOne(ctx, s.observedChunks(deployment), chunkOf(o.ID, o.Upload, name, i), &chunk); err != nil {
			return nil, err
		}
		data = append(data, chunk.Data...)
	}
	return data, nil
}

// openFrames opens what pack sealed: the names in one, the bodies in frames.
func openFrames(parts secret.Parts, o *observation, name string, p packed, sealed []byte) (data []byte, err error) {
	frames := p.Frames
	if name == namesPart {
		frames = []frame{{Packed: len(sealed)}}
	}
	for i, f := range frames {
		if f.Packed > len(sealed) {
			return nil, errCutShort
		}
		compressed, err := parts.Open(observedPlace(o, name, i), sealed[:f.Packed])
		if err != nil {
			return nil, err
		}
		if data, err = decoder.DecodeAll(compressed, data); err != nil {
			return nil, err
		}
		sealed = sealed[f.Packed:]
	}
	return data, nil
}

// DeleteObservation forgets what is known of an app in a cluster, in the turn of who says that there is nothing to be known; that
// nothing is known is no error. Aborted when something of a later turn is known.
func (s *Store) DeleteObservation(ctx context.Context, o domain.ObservedApp, turn domain.Turn) error {
	changed, err := s.deleteObservation(ctx, o, turn)
	return s.observed(ctx, o, changed, err)
}

func (s *Store) deleteObservation(ctx context.Context, o domain.ObservedApp, turn domain.Turn) (changed bool, err error) {
	deployment, id := plan.DeploymentID(o.ContextID, o.App), observationID(o)
	for range observationTries {
		var have observation
		err = s.findOne(ctx, s.observations(deployment), id, &have)
		switch {
		case fail.Is(err, fail.NotFound):
			return false, nil
		case err != nil:
			return false, err
		case s.later(have.Turn, turn):
			return false, errLaterReport(id)
		}
		if changed, err = s.takeObservation(ctx, deployment, &have, turn); changed || err != nil {
			return changed, err
		}
	}
	return false, fail.New(fail.Unavailable, "observation %s is being changed by others; try again", id)
}

// takeObservation deletes an observation as it was read, with its chunks and no others: those of one that is stored anew since are below its
// ID, too. False when it is not there any more, or was reported in a later turn.
func (s *Store) takeObservation(ctx context.Context, deployment string, have *observation, turn domain.Turn) (bool, error) {
	as := append(byID(have.ID), bson.E{Key: "upload", Value: have.Upload}, s.notLater(turn))
	deleted, err := s.deleteOne(ctx, s.observations(deployment), as)
	if err != nil || !deleted {
		return deleted, err
	}
	return true, s.deleteObservedChunks(ctx, deployment, have)
}

// deleteObservations forgets all that is known of contexts.
func (s *Store) deleteObservations(ctx context.Context, contextIDs []string) error {
	if len(contextIDs) == 0 {
		return nil
	}
	for _, name := range []string{observedChunksName, observationsName} {
		for n := range divided[name] {
			if err := s.deleteOf(ctx, s.part(name, n), contextIDs); err != nil {
				return err
			}
		}
	}
	for _, id := range contextIDs {
		if err := s.deleteRange(ctx, s.changes(id), below(id)); err != nil {
			return err
		}
		if _, err := s.deleteOne(ctx, s.versions(), byID(id)); err != nil {
			return err
		}
		s.chains.forget(id)
	}
	return nil
}

// deleteOf deletes what is of contexts, of a collection whose ids begin with a context's.
func (s *Store) deleteOf(ctx context.Context, c *mongo.Collection, contextIDs []string) error {
	ids, err := s.ids(ctx, c, bson.D{})
	if err != nil {
		return err
	}
	gone := make(map[string]bool, len(contextIDs))
	for _, id := range contextIDs {
		gone[id] = true
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		contextID, _, _ := strings.Cut(id, "-")
		return !gone[contextID]
	})
	for some := range slices.Chunk(ids, maxDelete) {
		if err := s.deleteMany(ctx, c, byID(bson.D{{Key: "$in", Value: some}})); err != nil {
			return err
		}
	}
	return nil
}

// Observed lists what there are observations of, for contexts. The apps are named as in labels. It goes over all observations, and those
// who ask at the same time, as the shards of a worker that has been started do, share that.
func (s *Store) Observed(ctx context.Context, contextIDs []string) ([]domain.ObservedApp, error) {
	found := []domain.ObservedApp{}
	if len(contextIDs) == 0 {
		return found, nil
	}
	all, err := s.observedIDs.Get(ctx, "", s.allObserved)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(contextIDs))) {
		found = append(found, all[id]...)
	}
	return found, nil
}

// allObserved is what there are observations of, by context.
func (s *Store) allObserved(ctx context.Context) (map[string][]domain.ObservedApp, error) {
	all := map[string][]domain.ObservedApp{}
	for n := range divided[observationsName] {
		ids, err := s.ids(ctx, s.part(observationsName, n), bson.D{})
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			deployment, _, _ := strings.Cut(id, "/")
			contextID, app, _ := strings.Cut(deployment, "-")
			all[contextID] = append(all[contextID], domain.ObservedApp{ContextID: contextID, App: app, Cluster: clusterOf(id)})
		}
	}
	return all, nil
}

// StoredObservation is an observation as it is stored: what the resources are is read when it is asked for.
type StoredObservation struct {
	domain.Observation // the resources have no JSON; other callers may have them too, so that they must not be changed
	bodies             func() ([]json.RawMessage, error)
	frames             *frames // nil where it is not known which object is where
}

// Object is the JSON of a resource of Resources by its index; nil when there is none. Where the cluster has said
// something newer meanwhile, it is of that. The others are not decoded for it.
func (o *StoredObservation) Object(index int) (json.RawMessage, error) {
	if o.frames != nil {
		if body, ok := o.frames.object(index); ok {
			return body, nil
		}
	}
	bodies, err := o.bodies()
	if err != nil {
		return nil, err
	}
	return bodies[index], nil
}

// fewObservations is up to how many clusters are read one by one.
const fewObservations = 4

// unreadReport stands in an observation that is damaged, in place of what the cluster has said.
const unreadReport = "what it has reported cannot be read: who changed it in the database was not the product, or its key is missing"

// Observations reads what clusters say of an app, sorted by provider and name; nil clusters are all. What is large of
// them is in memory one after the other. An error ends the sequence. What is damaged takes nothing from other clusters: it has an Error.
func (s *Store) Observations(ctx context.Context, contextID, app string, clusters []domain.ClusterName) iter.Seq2[*StoredObservation, error] {
	return func(yield func(*StoredObservation, error) bool) {
		visit := func(o *saidOfCluster) bool {
			stored, err := s.stored(ctx, contextID, app, o)
			switch {
			case fail.Is(err, fail.NotFound): // deleted meanwhile
				return true
			case errors.Is(err, domain.ErrUnreadable):
				of := domain.ObservedApp{ContextID: contextID, App: app, Cluster: clusterOf(o.ID)}
				stored, err = &StoredObservation{Observation: domain.Observation{ObservedApp: of, Error: unreadReport}}, nil
			}
			return yield(stored, err) && err == nil
		}
		var err error
		if len(clusters) > 0 && len(clusters) <= fewObservations {
			err = s.visitSome(ctx, contextID, app, clusters, visit)
		} else {
			err = s.visitAll(ctx, contextID, app, clusters, visit)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (s *Store) visitSome(ctx context.Context, contextID, app string, clusters []domain.ClusterName, visit func(*saidOfCluster) bool) error {
	var ids []string
	for _, c := range clusters {
		ids = append(ids, observationID(domain.ObservedApp{ContextID: contextID, App: app, Cluster: c}))
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		o := &saidOfCluster{observation: &observation{}}
		err := s.findOne(ctx, s.observations(plan.DeploymentID(contextID, app)), id, o.observation)
		switch {
		case fail.Is(err, fail.NotFound):
		case err != nil:
			return err
		case !visit(o):
			return nil
		}
	}
	return nil
}

func (s *Store) visitAll(ctx context.Context, contextID, app string, clusters []domain.ClusterName, visit func(*saidOfCluster) bool) error {
	wanted := map[domain.ClusterName]bool{}
	for _, c := range clusters {
		wanted[c] = true
	}
	found, err := s.saidOf(ctx, contextID, app)
	if err != nil {
		return err
	}
	for _, o := range found.clusters {
		if clusters != nil && !wanted[clusterOf(o.ID)] {
			continue
		}
		if !visit(o) {
			return nil
		}
	}
	return nil
}

// clusterOf takes the cluster out of an observationID.
func clusterOf(id string) (c domain.ClusterName) {
	_, cluster, _ := strings.Cut(id, "/")
	c.Provider, c.Name, _ = strings.Cut(cluster, " ")
	return c
}

// stored makes an observation of its document. NotFound when there is none any more.
func (s *Store) stored(ctx context.Context, contextID, app string, said *saidOfCluster) (*StoredObservation, error) {
	o, resources := said.observation, said.resources
	if o.broken != nil {
		return nil, damagedObservation(o, o.broken)
	}
	if resources == nil {
		var err error
		if resources, o, err = s.resourcesOf(ctx, o); err != nil {
			return nil, err
		}
	}
	return &StoredObservation{
		Observation: domain.Observation{
			ObservedApp: domain.ObservedApp{ContextID: contextID, App: app, Cluster: clusterOf(o.ID)},
			Kinds:       o.Texts.Kinds, Unheard: o.Texts.Unheard, Resources: resources, Error: o.Texts.Error, Gone: goneOf(o),
			Since: sinceOf(o),
		},
		bodies: sync.OnceValues(func() ([]json.RawMessage, error) { return s.bodiesOf(ctx, o, resources) }),
		frames: s.framesOf(ctx, o, resources),
	}, nil
}

func sinceOf(o *observation) time.Time {
	if o.Texts.Since == 0 {
		return time.Time{}
	}
	return time.UnixMilli(o.Texts.Since).UTC()
}

func goneOf(o *observation) []domain.GoneResource {
	if len(o.Gone) == 0 {
		return nil
	}
	gone := make([]domain.GoneResource, len(o.Gone))
	for i, g := range o.Gone {
		gone[i] = domain.GoneResource{Identity: uint64(g.Identity), Since: time.UnixMilli(g.Since).UTC()}
	}
	return gone
}

// resourcesOf decodes what an observation, or the one that has taken its place, says of resources.
func (s *Store) resourcesOf(ctx context.Context, o *observation) ([]domain.ObservedResource, *observation, error) {
	names, o, err := current[observedName](ctx, s, o, namesPart)
	if err != nil {
		return nil, nil, err
	}
	resources := make([]domain.ObservedResource, len(names))
	for i, n := range names {
		resources[i] = domain.ObservedResource{
			Group: n.Group, Version: n.Version, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name, Status: n.Status, Message: n.Message,
			Stored: time.UnixMilli(n.Stored).UTC(), Sum: n.Sum, Size: n.Size,
		}
	}
	return resources, o, nil
}

// bodiesOf reads the JSON of the resources.
func (s *Store) bodiesOf(ctx context.Context, o *observation, resources []domain.ObservedResource) ([]json.RawMessage, error) {
	bodies, newer, err := current[json.RawMessage](ctx, s, o, bodiesPart)
	switch {
	case fail.Is(err, fail.NotFound):
		return make([]json.RawMessage, len(resources)), nil
	case err != nil || newer == o:
		return bodies, err
	}
	others, newest, err := s.resourcesOf(ctx, newer)
	if err != nil {
		return nil, err
	}
	if newest != newer {
		return s.bodiesOf(ctx, newest, resources)
	}
	places := map[plan.ResourceID]json.RawMessage{}
	for i := range others {
		places[identityOf(&others[i])] = bodies[i]
	}
	same := make([]json.RawMessage, len(resources))
	for i := range resources {
		same[i] = places[identityOf(&resources[i])]
	}
	return same, nil
}

// identityOf is the same for a resource in every version.
func identityOf(r *domain.ObservedResource) plan.ResourceID {
	return plan.ResourceID{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// reloads is how often an observation is read again that was replaced while its chunks were being read.
const reloads = 5

// current decodes a part of an observation, or of the one that has taken its place, which it returns too. One that is there still and has lost its chunks
// is damaged: who reports it puts another one in its place.
func current[T any](ctx context.Context, s *Store, o *observation, part string) ([]T, *observation, error) {
	for range reloads {
		p := o.Names
		if part == bodiesPart {
			p = o.Bodies
		}
		var values []T
		err := s.unpack(ctx, o, part, p, &values)
		if !fail.Is(err, fail.NotFound) {
			return values, o, err
		}
		deployment, _, _ := strings.Cut(o.ID, "/")
		newer := &observation{}
		if err := s.findOne(ctx, s.observations(deployment), o.ID, newer); err != nil {
			return nil, nil, err
		}
		if newer.Upload == o.Upload {
			return nil, nil, damagedObservation(o, err)
		}
		o = newer
	}
	return nil, nil, fail.New(fail.Unavailable, "observation %s changes too fast to be read", o.ID)
}
