package telemetry

import (
	"net/http"
	"net/http/pprof"
)

// Profiles serves the runtime's profiles under /debug/pprof/. Who reaches it sees names of functions and the command line.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}
