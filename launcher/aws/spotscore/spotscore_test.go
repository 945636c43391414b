package spotscore_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/aws/spotscore"
)

// region returns the scores of a region whose EC2 answers each request, by its token, with the text.
func region(t *testing.T, answer func(r *http.Request) string) *spotscore.Scores {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answer(r)
		if text == "" {
			w.WriteHeader(http.StatusForbidden)
			text = `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized to perform this operation.</Message></Error></Errors></Response>`
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return spotscore.New(awssdk.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		Retryer: func() awssdk.Retryer { return awssdk.NopRetryer{} },
	})
}

func page(next string, scores ...string) string {
	return `<GetSpotPlacementScoresResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><spotPlacementScoreSet>` + strings.Join(scores, "") +
		`</spotPlacementScoreSet><nextToken>` + next + `</nextToken></GetSpotPlacementScoresResponse>`
}

func score(region, id string, score int) string {
	return fmt.Sprintf(`<item><region>%s</region><availabilityZoneId>%s</availabilityZoneId><score>%d</score></item>`, region, id, score)
}

// One configuration is asked for, by zone, on all pages; other regions and answers without a zone do not count.
func TestPages(t *testing.T) {
	var asked []string
	scores := region(t, func(r *http.Request) string {
		token := r.FormValue("NextToken")
		for _, name := range []string{"Action", "InstanceType.1", "InstanceType.3", "RegionName.1", "SingleAvailabilityZone", "TargetCapacity", "TargetCapacityUnitType"} {
			asked = append(asked, r.FormValue(name))
		}
		if token == "" {
			return page("more", score("eu-west-1", "euw1-az1", 9), score("us-east-1", "use1-az1", 1), score("eu-west-1", "", 5))
		}
		return page("", score("eu-west-1", "euw1-az2", 2))
	})
	got, err := scores.PlacementScores(t.Context(), []string{"m5.large", "m5.xlarge", "m5.2xlarge"})
	if diff := cmp.Diff(map[string]int{"euw1-az1": 9, "euw1-az2": 2}, got); diff != "" || err != nil {
		t.Errorf("scores %v (-want +got):\n%s", err, diff)
	}
	once := []string{"GetSpotPlacementScores", "m5.large", "m5.2xlarge", "eu-west-1", "true", "100", "vcpu"}
	if diff := cmp.Diff(append(once, once...), asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A refusal is an error with its code, and so are pages without end.
func TestRefusals(t *testing.T) {
	_, err := region(t, func(*http.Request) string { return "" }).PlacementScores(t.Context(), []string{"m5.large"})
	if err == nil || !strings.HasPrefix(err.Error(), "getting spot placement scores: ") || !strings.Contains(err.Error(), "UnauthorizedOperation") {
		t.Errorf("error %v", err)
	}
	calls := 0
	_, err = region(t, func(*http.Request) string { calls++; return page("again") }).PlacementScores(t.Context(), []string{"m5.large"})
	if err == nil || calls > 20 {
		t.Errorf("error %v after %d pages", err, calls)
	}
}
