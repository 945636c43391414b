package launcher

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// Profiles are served where they are enabled, by the server of the metrics.
func TestProfiles(t *testing.T) {
	settings := Defaults()
	if off, err := MetricsServer(settings); err != nil || len(off.ExtraHandlers) != 0 {
		t.Errorf("disabled: handlers %v, error %v", off.ExtraHandlers, err)
	}
	settings.EnableProfiling = true
	on, err := MetricsServer(settings)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for path, handler := range on.ExtraHandlers {
		mux.Handle(path, handler)
	}
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile:", "/debug/pprof/cmdline": ".test"} {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: status %d, want 200 with %q", path, answer.Code, want)
		}
	}
}

// Metrics of thousands of nodes take seconds and memory: one request is answered at a time, one whose client gave up before its turn not at all, and
// profiles are served meanwhile.
func TestMetricsAreServedInTurns(t *testing.T) {
	options, err := MetricsServer(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	filter, err := options.FilterProvider(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan string, 10), make(chan struct{})
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- r.URL.String()
		<-leave
	}))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 10)
	get := func(ctx context.Context, url string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil))
		answered <- answer.Code
	}
	go get(t.Context(), "/metrics?n=1")
	if got := <-entered; got != "/metrics?n=1" {
		t.Fatalf("%s was served first", got)
	}
	go get(t.Context(), "/debug/pprof/heap")
	if got := <-entered; got != "/debug/pprof/heap" {
		t.Fatalf("%s was served beside the first", got)
	}
	gone, giveUp := context.WithCancel(t.Context())
	giveUp()
	get(gone, "/metrics?n=2")
	if code := <-answered; code != http.StatusServiceUnavailable {
		t.Errorf("a request whose client gave up was answered with %d", code)
	}
	go get(t.Context(), "/metrics?n=3")
	close(leave)
	if got := <-entered; got != "/metrics?n=3" {
		t.Errorf("%s was served after the first", got)
	}
	for range 3 {
		if code := <-answered; code != http.StatusOK {
			t.Errorf("answered with %d", code)
		}
	}
}
