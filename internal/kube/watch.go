package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/drover-io/drover/internal/fail"
	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/panics"
	"github.com/drover-io/drover/internal/policy"
)

// Collection is where objects of one kind are listed and watched.
type Collection struct {
	Path     string // escaped: "/api/v1/pods"
	Labels   string // selector, "" for all
	Fields   string // selector, "" for all
	Metadata bool   // nothing but the metadata of objects is wanted; old servers may send all the same
	Page     int    // objects asked for at a time
}

// Event is a change of an object of a collection. An object that ceases to be selected is deleted.
type Event struct {
	Deleted bool
	Object  json.RawMessage
}

// ErrExpired says that the cluster does not know any more what happened after the version: it has to be listed
// again.
var ErrExpired = fail.New(fail.NotFound, "the cluster does not know the version any more")

// IsUnserved says whether err, of List or Watch, is the cluster's word that it serves nothing there.
func IsUnserved(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && isUnserved(status)
}

// IsAnswer says whether err, of List or Watch, is the cluster's answer about the collection, so that others may
// well be listed and watched: no such kind, no permission, an aggregated API that is down.
func IsAnswer(err error) bool {
	var status *apierrors.StatusError
	return errors.As(err, &status) && !isOfCluster(status)
}

// IsBusy says whether err, of List or Watch, is that the cluster takes too long, or wants to be left alone for a while. That
// may be about the collection alone: API servers say so, too, where objects have to be converted and cannot be.
func IsBusy(err error) bool {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		return isOfCluster(status) && status.ErrStatus.Code != http.StatusUnauthorized
	}
	return fail.Is(err, fail.Timeout)
}

// What one watch may take, in seconds: the server ends it somewhere in between, so that not all end at once. One
// that does not end by itself is cut off a little later.
const (
	watchLeast = 240
	watchMost  = 480
)

// What bounds the pages of a list: one has leastOnPage objects or as many as were asked for, but for morePages of them, which may have
// fewer, or none.
const (
	leastOnPage = 10
	morePages   = 100
)

// List calls each with every object of the collection, in the order of their names, and returns the version from
// which a watch sees what changes. An error of each ends it; others are as Apply's Outcome.Retry has them, and
// ErrExpired. A list that goes on for ever ends with an error, too.
func (c *Cluster) List(ctx context.Context, q Collection, each func(object json.RawMessage) error) (version string, err error) {
	objects, pages := 0, 0
	counted := func(object json.RawMessage) error {
		if objects++; objects > limits.ClusterObjects {
			return notAnAPIServer(fmt.Errorf("a list has more than %d objects", limits.ClusterObjects))
		}
		return each(object)
	}
	for next := ""; ; {
		page, err := c.page(ctx, q, next, counted)
		if pages++; err == nil && pages > objects/max(1, min(q.Page, leastOnPage))+morePages {
			err = notAnAPIServer(errors.New("a list has pages without end"))
		}
		switch {
		case err != nil:
			return "", classified(err)
		case page.Continue == "":
			return page.ResourceVersion, nil
		}
		next = page.Continue
	}
}

// Version is that of the collection at the path as it is now; as little of it is read as can be. Errors are as List has them.
func (c *Cluster) Version(ctx context.Context, path string) (string, error) {
	page, err := c.page(ctx, Collection{Path: path, Metadata: true, Page: 1}, "", func(json.RawMessage) error { return nil })
	if err != nil {
		return "", classified(err)
	}
	return page.ResourceVersion, nil
}

// page lists one page.
func (c *Cluster) page(ctx context.Context, q Collection, next string, each func(json.RawMessage) error) (meta metav1.ListMeta, err error) {
	release, err := c.slot(ctx)
	if err != nil {
		return meta, err
	}
	defer release()
	asked := ctx
	ctx, leave := c.While(ctx)
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.config.Request)
	defer cancel()
	defer func() { err = c.said(asked, err) }()
	query := q.query()
	query.Set("limit", strconv.Itoa(q.Page))
	if next != "" {
		query.Set("continue", next)
	}
	answer, err := c.open(ctx, c.client, request{
		method: http.MethodGet, path: q.Path, query: query.Encode(), accept: q.accept("PartialObjectMetadataList"),
	})
	if err != nil {
		return meta, err
	}
	defer answer.Body.Close()
	if err := readList(answer.Body, &meta, each); err != nil {
		return meta, err
	}
	_, _ = io.Copy(io.Discard, newBounded(answer.Body)) // the end of the stream: the connection is free
	return meta, nil
}

// bounded fails when more is read of a reader than one object of a cluster has, until it is told that the next one begins.
type bounded struct {
	io.Reader
	left int
}

// errObject says that there is something that no API server would keep.
var errObject = fmt.Errorf("an object has more than %d bytes", limits.ClusterAnswer)

func newBounded(r io.Reader) *bounded { return &bounded{r, limits.ClusterAnswer} }

// next begins an object.
func (b *bounded) next() { b.left = limits.ClusterAnswer }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, notAnAPIServer(errObject)
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// readList takes a list apart without holding more than one of its items.
func readList(r io.Reader, meta *metav1.ListMeta, each func(json.RawMessage) error) error {
	b := newBounded(r)
	d := json.NewDecoder(b)
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		switch name {
		case "metadata":
			err = d.Decode(meta)
		case "items":
			err = readItems(d, b, each)
		default:
			var skipped json.RawMessage
			err = d.Decode(&skipped)
		}
		if err != nil {
			return err
		}
	}
	return expect(d, json.Delim('}'))
}

func readItems(d *json.Decoder, b *bounded, each func(json.RawMessage) error) error {
	first, err := d.Token()
	if err != nil || first == nil { // null: there are none
		return err
	}
	if first != json.Delim('[') {
		return notAnAPIServer(fmt.Errorf("items begin with %v", first))
	}
	for d.More() {
		b.next()
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return err
		}
		if err := each(item); err != nil {
			return err
		}
	}
	return expect(d, json.Delim(']'))
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = notAnAPIServer(fmt.Errorf("%v in place of %v", got, want))
	}
	return err
}

// Watch calls each with every change of the collection after version, and with every version that was reached, until
// the cluster ends the watch: then it returns nil after some minutes. A connection that is dead is noticed after some
// seconds. Errors are those of List.
func (c *Cluster) Watch(ctx context.Context, q Collection, version string, each func(version string, e *Event) error) error {
	w, err := c.watch(ctx, q, version)
	if err == nil {
		err = readEvents(ctx, w.body, each)
		w.end()
	}
	return classified(c.said(ctx, err))
}

// watch opens one.
func (c *Cluster) watch(ctx context.Context, q Collection, version string) (w stream, err error) {
	seconds := watchLeast + rand.IntN(watchMost-watchLeast)
	query := q.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	query.Set("timeoutSeconds", strconv.Itoa(seconds))
	r := request{method: http.MethodGet, path: q.Path, query: query.Encode(), accept: q.accept("PartialObjectMetadata")}
	err = apart(ctx, func() error {
		w, err = c.stream(ctx, time.Duration(seconds)*time.Second+policy.WatchGrace, r)
		return err
	})
	return w, err
}

// apart has f done by a goroutine of its own. A cluster has a watch for each of its kinds, and most wait for hours: the
// stack of one that waits is small as long as what needs more of it is done apart.
func apart(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- panics.Do(ctx, f) }()
	return <-done
}

// stream is an answer that goes on.
type stream struct {
	body io.Reader
	end  func() // has to be called
}

// stream opens an answer that has to begin within Config.Request and is cut off when it lasts longer than most. Few
// begin at a time, so that they find the connection that the first of them made.
func (c *Cluster) stream(ctx context.Context, most time.Duration, r request) (stream, error) {
	s, err := c.seat(ctx)
	if err != nil {
		return stream{}, err
	}
	defer s.opened()
	end, open := s.leave, false
	defer func() { // also when it panics
		if !open {
			end()
		}
	}()
	release, err := c.slot(ctx)
	if err != nil {
		return stream{}, err
	}
	defer release()
	streamed, cancel := context.WithTimeout(ctx, most)
	replaced := context.AfterFunc(c.life, cancel)
	late := time.AfterFunc(c.config.Request, cancel)
	var answer *http.Response
	end = func() {
		if answer != nil {
			answer.Body.Close()
		}
		late.Stop()
		replaced()
		cancel()
		s.leave()
	}
	answer, err = c.open(streamed, s.client, r) //nolint:bodyclose // end closes it
	inTime := late.Stop()
	if err == nil && inTime {
		answer.Request, answer.Header = nil, nil // net/http holds the answer for as long as it lasts
		open = true
		return stream{answer.Body, end}, nil
	}
	if !inTime && ctx.Err() == nil {
		err = context.DeadlineExceeded
	}
	return stream{}, err
}

// readEvents calls each with what a watch tells. While there is nothing it has no buffer.
func readEvents(ctx context.Context, r io.Reader, each func(version string, e *Event) error) error {
	first := make([]byte, 1)
	for {
		n, err := r.Read(first)
		switch {
		case n > 0 && !isSpace(first[0]):
			if err := apart(ctx, func() error { return readSome(io.MultiReader(bytes.NewReader(first), r), each) }); err != nil {
				return err
			}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readSome reads events until it has got all that was sent so far.
func readSome(r io.Reader, each func(version string, e *Event) error) error {
	b := newBounded(r)
	for d := json.NewDecoder(b); ; {
		b.next()
		var e metav1.WatchEvent
		if err := d.Decode(&e); err != nil {
			return err
		}
		if watch.EventType(e.Type) == watch.Error {
			return errorEvent(e.Object.Raw)
		}
		var object struct {
			Metadata struct {
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
		}
		if err := json.Unmarshal(e.Object.Raw, &object); err != nil {
			return notAnAPIServer(err)
		}
		var change *Event
		if watch.EventType(e.Type) != watch.Bookmark {
			change = &Event{Deleted: watch.EventType(e.Type) == watch.Deleted, Object: e.Object.Raw}
		}
		if err := each(object.Metadata.ResourceVersion, change); err != nil {
			return err
		}
		if !hasMore(d.Buffered()) {
			return nil
		}
	}
}

// hasMore says whether there is anything but space.
func hasMore(r io.Reader) bool {
	for next := make([]byte, 1); ; {
		if n, _ := r.Read(next); n == 0 {
			return false
		}
		if !isSpace(next[0]) {
			return true
		}
	}
}

// isSpace says whether JSON may have the byte between two values.
func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// errorEvent is what the server ends a watch with when something is wrong with it.
func errorEvent(data []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(data, &status); err != nil {
		return notAnAPIServer(err)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// classified is kindOf, and ErrExpired.
func classified(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) && (status.ErrStatus.Code == http.StatusGone || status.ErrStatus.Reason == metav1.StatusReasonExpired) {
		return ErrExpired
	}
	return kindOf(err)
}

func (q Collection) query() url.Values {
	v := url.Values{}
	if q.Labels != "" {
		v.Set("labelSelector", q.Labels)
	}
	if q.Fields != "" {
		v.Set("fieldSelector", q.Fields)
	}
	return v
}

// accept asks for metadata as the kind, where nothing else is wanted.
func (q Collection) accept(kind string) string {
	if !q.Metadata {
		return contentJSON
	}
	return "application/json;as=" + kind + ";g=meta.k8s.io;v=v1,application/json"
}
