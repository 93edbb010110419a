package kube

import (
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

// What one watch may take, in seconds: the server ends it somewhere in between, so that not all end at once. One
// that does not end by itself is cut off a little later.
const (
	watchLeast = 240
	watchMost  = 480
	watchGrace = 30 * time.Second
)

// List calls each with every object of the collection, in the order of their names, and returns the version from
// which a watch sees what changes. An error of each ends it; others are as Apply's Outcome.Retry has them, and
// ErrExpired.
func (c *Cluster) List(ctx context.Context, q Collection, each func(object json.RawMessage) error) (version string, err error) {
	for next := ""; ; {
		page, err := c.page(ctx, q, next, each)
		switch {
		case err != nil:
			return "", classified(err)
		case page.Continue == "":
			return page.ResourceVersion, nil
		}
		next = page.Continue
	}
}

// page lists one page.
func (c *Cluster) page(ctx context.Context, q Collection, next string, each func(json.RawMessage) error) (meta metav1.ListMeta, err error) {
	release, err := c.slot(ctx)
	if err != nil {
		return meta, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, c.config.Request)
	defer cancel()
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
	_, _ = io.Copy(io.Discard, answer.Body) // the end of the stream: the connection is free
	return meta, nil
}

// readList takes a list apart without holding more than one of its items.
func readList(r io.Reader, meta *metav1.ListMeta, each func(json.RawMessage) error) error {
	d := json.NewDecoder(r)
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
			err = readItems(d, each)
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

func readItems(d *json.Decoder, each func(json.RawMessage) error) error {
	first, err := d.Token()
	if err != nil || first == nil { // null: there are none
		return err
	}
	if first != json.Delim('[') {
		return notAnAPIServer(fmt.Errorf("items begin with %v", first))
	}
	for d.More() {
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
	seconds := watchLeast + rand.IntN(watchMost-watchLeast)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second+watchGrace)
	defer cancel()
	shared, done := c.transport.stream()
	defer done()
	client := c.streams
	if shared {
		client = c.client
	}
	query := q.query()
	query.Set("watch", "true")
	query.Set("allowWatchBookmarks", "true")
	query.Set("resourceVersion", version)
	query.Set("timeoutSeconds", strconv.Itoa(seconds))
	answer, err := c.stream(ctx, client, request{
		method: http.MethodGet, path: q.Path, query: query.Encode(), accept: q.accept("PartialObjectMetadata"),
	})
	if err != nil {
		return classified(err)
	}
	defer answer.Body.Close()
	return classified(readEvents(answer.Body, each))
}

// stream opens one: the answer has to begin within Config.Request, and may go on for as long as ctx does. Few
// begin at a time, so that they find the connection that the first of them made.
func (c *Cluster) stream(ctx context.Context, client *http.Client, r request) (*http.Response, error) {
	release, err := c.slot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(c.config.Request, func() { cancel(context.DeadlineExceeded) })
	answer, err := c.open(ctx, client, r)
	if err == nil && late.Stop() {
		answer.Body = &ending{answer.Body, cancel}
		return answer, nil
	}
	late.Stop()
	cancel(nil)
	if answer != nil {
		answer.Body.Close()
	}
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return nil, cause
	}
	return nil, err
}

// ending is a body that ends its request's context with itself.
type ending struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (e *ending) Close() error {
	defer e.cancel(nil)
	return e.ReadCloser.Close()
}

// maxBuffer is what a decoder's buffer may have grown to before it is made anew, in bytes: an event may be large, and
// the next one hours away.
const maxBuffer = 64 << 10

func readEvents(r io.Reader, each func(version string, e *Event) error) error {
	for d := json.NewDecoder(r); ; {
		var e metav1.WatchEvent
		before := d.InputOffset()
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if watch.EventType(e.Type) == watch.Error {
			return errorEvent(e.Object.Raw)
		}
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(e.Object.Raw, &object); err != nil {
			return notAnAPIServer(err)
		}
		var change *Event
		if watch.EventType(e.Type) != watch.Bookmark {
			change = &Event{Deleted: watch.EventType(e.Type) == watch.Deleted, Object: e.Object.Raw}
		}
		if err := each(object.ResourceVersion, change); err != nil {
			return err
		}
		if d.InputOffset()-before > maxBuffer {
			r = io.MultiReader(d.Buffered(), r)
			d = json.NewDecoder(r)
		}
	}
}

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
