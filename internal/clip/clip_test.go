package clip_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/internal/clip"
)

func TestClip(t *testing.T) {
	for _, tc := range []struct {
		text                  string
		most                  int
		bytes, dotted, within string
	}{
		{"", 8, "", "", ""},
		{"a reason", 8, "a reason", "a reason", "a reason"},
		{"a reason.", 8, "a reason", "a reason ...", "a re ..."},
		{"a né word", 4, "a n", "a n ...", " ..."},
		{"aéreason.", 6, "aérea", "aérea ...", "a ..."},
		{"a\xffreasons", 8, "areason", "areason ...", "a\xffre ..."},
	} {
		if got := clip.Bytes(tc.text, tc.most); got != tc.bytes {
			t.Errorf("Bytes(%q, %d) is %q, want %q", tc.text, tc.most, got, tc.bytes)
		}
		if got := clip.Text(tc.text, tc.most); got != tc.dotted {
			t.Errorf("Text(%q, %d) is %q, want %q", tc.text, tc.most, got, tc.dotted)
		}
		if got := clip.Within(tc.text, tc.most); got != tc.within || len(got) > tc.most {
			t.Errorf("Within(%q, %d) is %q, want %q", tc.text, tc.most, got, tc.within)
		}
	}
}
