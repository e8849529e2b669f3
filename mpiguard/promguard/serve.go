package promguard

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// DefaultAddr is where Serve listens: on this machine alone.
const DefaultAddr = "127.0.0.1:9475"

// Serve exports the guard under /metrics until stop is called, which waits for
// scrapes that are under way. All ranks call it: the lowest rank of a node
// listens, on addr or where that is empty on DefaultAddr, and on the others it
// does nothing and returns a stop that does nothing. Who can reach addr can read
// the paths of cgroups and the memory of the ranks.
func Serve(g Guard, addr string, pools map[string]func() PoolStats) (stop func(), err error) {
	st := g.Stats()
	for _, r := range st.Node {
		if r.Rank < st.Rank {
			return func() {}, nil
		}
	}
	if addr == "" {
		addr = DefaultAddr
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return serve(l, NewCollector(g, pools))
}

func serve(l net.Listener, c *Collector) (stop func(), err error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		l.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: scrapeTimeout}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: scrapeTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l) // it ends with Shutdown
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			srv.Close()
		}
		<-ended
	}, nil
}

const scrapeTimeout = 5 * time.Second
