package fleet

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// choice says which objects a list or a watch is about.
type choice struct {
	kind      *kind
	namespace string // "" is every one
	labels    labels.Selector
	fields    fields.Selector
}

func (t target) choice(query url.Values) (choice, error) {
	c := choice{kind: t.kind, namespace: t.namespace}
	var err error
	if c.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return c, apierrors.NewBadRequest("unable to parse the label selector: " + err.Error())
	}
	if c.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return c, apierrors.NewBadRequest("unable to parse the field selector: " + err.Error())
	}
	for _, r := range c.fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" {
			return c, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return c, nil
}

func (c choice) has(o *object) bool {
	return o != nil && o.kind == c.kind && (c.namespace == "" || c.namespace == o.namespace) &&
		c.labels.Matches(labels.Set(o.labels)) &&
		(c.fields.Empty() || c.fields.Matches(fields.Set{"metadata.name": o.name, "metadata.namespace": o.namespace}))
}

// place is where a list goes on: what a continue token says.
type place struct {
	Version         uint64
	Namespace, Name string // of the last object that was told
}

func (t target) list(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	chosen, err := t.choice(query)
	if err != nil {
		return err
	}
	limit, err := number64(query, "limit")
	if err != nil {
		return err
	}
	t.cluster.mu.RLock()
	objects := t.cluster.sorted(chosen.has)
	version, lost := t.cluster.version, t.cluster.lost
	t.cluster.mu.RUnlock()
	if token := query.Get("continue"); token != "" {
		// The rest of a list is as of now, not of when it began; what is told of it is the beginning, so that
		// a watch from there has everything.
		from, err := readPlace(token)
		if err != nil {
			return err
		}
		if from.Version < lost || from.Version > version {
			return apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
		}
		version = from.Version
		objects = slices.DeleteFunc(objects, func(o *object) bool {
			return compare(o.id, id{t.kind, from.Namespace, from.Name}) <= 0
		})
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(version, 10)}
	if limit > 0 && limit < uint64(len(objects)) {
		rest := int64(len(objects)) - int64(limit) // #nosec G115 -- less than the objects
		meta.RemainingItemCount = &rest
		objects = objects[:limit]
		last := objects[limit-1]
		meta.Continue = place{version, last.namespace, last.name}.token()
	}
	writeBody(w, http.StatusOK, encodeList(t.kind, meta, objects, metadataOnly(r)))
	return nil
}

func encodeList(k *kind, meta metav1.ListMeta, objects []*object, metadataOnly bool) []byte {
	is := metav1.TypeMeta{APIVersion: k.GroupVersion().String(), Kind: k.Kind + "List"}
	if metadataOnly {
		is = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}
	}
	var b bytes.Buffer
	b.WriteString(`{"kind":`)
	write(&b, is.Kind)
	b.WriteString(`,"apiVersion":`)
	write(&b, is.APIVersion)
	b.WriteString(`,"metadata":`)
	write(&b, meta)
	b.WriteString(`,"items":[`)
	for i, o := range objects {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(o.encoded(metadataOnly))
	}
	b.WriteString("]}")
	return b.Bytes()
}

func (p place) token() string {
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is plain
	}
	return base64.RawURLEncoding.EncodeToString(encoded)
}

func readPlace(token string) (p place, err error) {
	encoded, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(encoded, &p)
	}
	if err != nil {
		return p, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	return p, nil
}

func number64(query url.Values, name string) (uint64, error) {
	value := query.Get(name)
	if value == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("the parameter %s is not a number: %q", name, value))
	}
	return n, nil
}

// watchTime is how long a watch lasts when the client does not say.
const watchTime = 30 * time.Minute

// watching is a watch that is under way. It has no buffer: it reads the events of its cluster, and ends when
// it falls behind what the cluster remembers.
type watching struct {
	w            http.ResponseWriter
	flush        *http.ResponseController
	cluster      *cluster
	chosen       choice
	metadataOnly bool
	version      uint64 // events up to this one are told
}

func (t target) watch(w http.ResponseWriter, r *http.Request, bookmark time.Duration) error {
	query := r.URL.Query()
	chosen, err := t.choice(query)
	if err != nil {
		return err
	}
	version, err := number64(query, "resourceVersion")
	if err != nil {
		return err
	}
	seconds, err := number64(query, "timeoutSeconds")
	if err != nil {
		return err
	}
	lasts := watchTime
	if seconds > 0 {
		lasts = time.Duration(min(seconds, uint64(watchTime/time.Second))) * time.Second // #nosec G115 -- bounded
	}
	w.Header().Set("Content-Type", "application/json")
	s := &watching{
		w: w, flush: http.NewResponseController(w), cluster: t.cluster, chosen: chosen,
		metadataOnly: metadataOnly(r), version: version,
	}
	if initial := isTrue(query, "sendInitialEvents"); initial || version == 0 {
		s.begin(initial)
	}
	if !isTrue(query, "allowWatchBookmarks") {
		bookmark = lasts
	}
	ended, mark := time.NewTimer(lasts), time.NewTicker(bookmark)
	defer ended.Stop()
	defer mark.Stop()
	for {
		changed := s.tellNew()
		if changed == nil || s.flush.Flush() != nil {
			return nil
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-ended.C:
			return nil
		case <-mark.C:
			s.bookmark(nil)
		case <-changed:
		}
	}
}

// begin tells what is there, and marks the end of it if the client asked for it.
func (s *watching) begin(marked bool) {
	s.cluster.mu.RLock()
	objects := s.cluster.sorted(s.chosen.has)
	s.version = s.cluster.version
	s.cluster.mu.RUnlock()
	for _, o := range objects {
		s.send(watch.Added, o.encoded(s.metadataOnly))
	}
	if marked {
		s.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
}

// tellNew tells what has happened since the last time. It returns nil when it cannot, having said so.
func (s *watching) tellNew() (changed <-chan struct{}) {
	events, changed, ok := s.cluster.since(s.version)
	if !ok {
		gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", s.version)).Status()
		gone.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		var b bytes.Buffer
		write(&b, gone)
		s.send(watch.Error, b.Bytes())
		return nil
	}
	for _, e := range events {
		s.tell(e)
		s.version = e.version
	}
	return changed
}

// tell sends the event as it looks to who only sees the chosen objects.
func (s *watching) tell(e event) {
	was, is := s.chosen.has(e.before), e.is != watch.Deleted && s.chosen.has(e.object)
	switch {
	case is && was:
		s.send(watch.Modified, e.object.encoded(s.metadataOnly))
	case is:
		s.send(watch.Added, e.object.encoded(s.metadataOnly))
	case was: // it is told as it was, with the version of the change
		s.send(watch.Deleted, withVersion(e.before, e.version).encoded(s.metadataOnly))
	}
}

// bookmark tells how far the watch is.
func (s *watching) bookmark(annotations map[string]string) {
	is := metav1.TypeMeta{APIVersion: s.chosen.kind.GroupVersion().String(), Kind: s.chosen.kind.Kind}
	if s.metadataOnly {
		is = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
	}
	var b bytes.Buffer
	write(&b, metav1.PartialObjectMetadata{TypeMeta: is, ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.FormatUint(s.version, 10), Annotations: annotations,
	}})
	s.send(watch.Bookmark, b.Bytes())
}

// send writes an event; that the client is gone is seen when it is flushed.
func (s *watching) send(is watch.EventType, object []byte) {
	line := make([]byte, 0, len(object)+64)
	line = append(line, `{"type":"`...)
	line = append(line, is...)
	line = append(line, `","object":`...)
	line = append(line, object...)
	line = append(line, "}\n"...)
	_, _ = s.w.Write(line)
}
