package launcher

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
