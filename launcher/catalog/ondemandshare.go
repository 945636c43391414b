package catalog

import "fmt"

// OnDemandShare returns the share, 0 to 1, of OnDemandShareAnnotation; 0 without the annotation. The error says what was expected.
func OnDemandShare(annotations map[string]string) (float64, error) {
	text, ok := annotations[OnDemandShareAnnotation]
	if !ok {
		return 0, nil
	}
	share, ok := percentage(text)
	if !ok {
		return 0, fmt.Errorf("metadata.annotations[%s]: %q: a percentage from 0 to 100 is expected; it counts as 0", OnDemandShareAnnotation, text)
	}
	return share, nil
}
