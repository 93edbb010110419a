package harness

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Collector takes traces by OTLP over HTTP.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
}

// Span is one that was sent.
type Span struct {
	Service, Trace, ID, Parent, Name string
	Links                            []string // ids of traces
	Failed                           bool
	Attributes                       map[string]string // numbers as they are written
}

// NewCollector starts one, which ends with the test.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var sent collectorpb.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(data, &sent)
		}
		if err != nil {
			t.Errorf("spans that were sent cannot be read: %s", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.take(&sent)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) take(sent *collectorpb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range sent.GetResourceSpans() {
		service := text(r.GetResource().GetAttributes())["service.name"]
		for _, in := range r.GetScopeSpans() {
			for _, s := range in.GetSpans() {
				one := Span{
					Service: service, Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(), Attributes: text(s.GetAttributes()),
					Failed: s.GetStatus().GetCode() == 2,
				}
				for _, l := range s.GetLinks() {
					one.Links = append(one.Links, hex.EncodeToString(l.GetTraceId()))
				}
				for _, e := range s.GetEvents() { // their attributes count as the span's
					for name, value := range text(e.GetAttributes()) {
						one.Attributes[e.GetName()+"."+name] = value
					}
				}
				c.spans = append(c.spans, one)
			}
		}
	}
}

func text(attributes []*commonpb.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			found[a.GetKey()] = v.StringValue
		default:
			found[a.GetKey()] = a.GetValue().String()
		}
	}
	return found
}

// Spans are those that were sent up to now.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}
