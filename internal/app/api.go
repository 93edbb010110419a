package app

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/drover-io/drover/api"
	"github.com/drover-io/drover/internal/domain"
	"github.com/drover-io/drover/internal/explain"
	"github.com/drover-io/drover/internal/kube"
	"github.com/drover-io/drover/internal/render"
	"github.com/drover-io/drover/internal/service"
)

// Listen takes the API's address, so that one in use is an error before anything is waited for.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	l, err := c.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the REST API (--listen): %w", err)
	}
	return l, nil
}

// ServeAPI answers REST requests on the listener until ctx ends, then drains.
func (p *Parts) ServeAPI(ctx context.Context, l net.Listener) error {
	lifecycle := service.NewLifecycle(p.store, p.store, heard{p.store}, p.engine, time.Now)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	handler, err := api.New(api.Deps{
		Service: service.New(service.Deps{
			Store: p.store, Sealer: p.sealer, Instances: lifecycle, Now: time.Now,
			Checks: service.Checks{Chart: render.CheckChart, Profile: render.CheckProfile, Kubeconfig: kube.CheckKubeconfig},
		}),
		Lifecycle: lifecycle,
		Status: func(ctx context.Context, group domain.Key, parameters url.Values) (api.Document, error) {
			d, err := lifecycle.Status(ctx, group, parameters)
			if err != nil {
				return nil, err // a nil document must not hide in the interface
			}
			return d, nil
		},
		Explain: service.NewExplainer(lifecycle, p.engine, explain.WebUI{
			URL: strings.TrimSuffix(p.config.WebUI, "/"), Namespace: p.config.Temporal.Namespace,
		}).Explain,
		Ready: p.ready(), Log: p.log, Metrics: registry, MaxBody: p.config.MaxBody,
	})
	if err != nil {
		return err
	}
	return api.Serve(ctx, l, handler, p.config.Drain)
}
