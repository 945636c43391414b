package aws

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func subnetsXML(id string) answer {
	return ok("<DescribeSubnetsResponse><subnetSet>" + subnetXML(id, "us-east-1a", 10) + "</subnetSet></DescribeSubnetsResponse>")
}

// While AWS cannot be asked the last answer stays in use and is asked for again soon, for a day; what AWS refuses is refused at
// once.
func TestLastAnswerStaysInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newShop(t)
		terms := []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"a": "b"}}}
		check := func(what, want string) {
			t.Helper()
			got, err := c.selectSubnets(t.Context(), terms)
			switch {
			case want == "" && err == nil:
				t.Errorf("%s: no error, but %v", what, got)
			case want != "" && (err != nil || len(got) != 1 || got[0].id != want):
				t.Errorf("%s: %v, %v, want %s", what, got, err, want)
			}
		}
		busy := refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "slow down")
		s.set("DescribeSubnets", busy)
		check("nothing known", "")
		s.set("DescribeSubnets", subnetsXML("subnet-1"))
		check("the first answer", "subnet-1")
		s.set("DescribeSubnets", busy)
		time.Sleep(time.Hour)
		failures := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partSubnets))
		check("an hour of throttling", "subnet-1")
		if got := testutil.ToFloat64(c.metrics.refreshFails.WithLabelValues(partSubnets)); got != failures+1 {
			t.Errorf("%v failures after one more, before %v", got, failures)
		}
		s.set("DescribeSubnets", subnetsXML("subnet-2"))
		check("right after a failure", "subnet-1")
		time.Sleep(staleRetry)
		check("AWS is back", "subnet-2")
		s.set("DescribeSubnets", refuse(http.StatusForbidden, "UnauthorizedOperation", "no"))
		time.Sleep(time.Hour)
		check("AWS refuses", "")
		s.set("DescribeSubnets", busy)
		check("throttled again", "subnet-2")
		time.Sleep(staleFor)
		check("a day without an answer", "")
	})
}

// A release of an AMI moves the parameter of its alias: it is read again after five minutes, and the image is the class's.
func TestImageReleaseIsPickedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newShop(t, func(cfg *Config) {
			cfg.ClusterEndpoint, cfg.ClusterCA = "https://prod.example.com", "Y2E="
			cfg.ServiceCIDR, cfg.KubernetesVersion = "10.100.0.0/16", "1.36"
		})
		release := func(id string) {
			s.set("GetParameter", ok(`{"Parameter":{"Name":"p","Value":"`+id+`"}}`))
			s.set("DescribeImages", ok("<DescribeImagesResponse><imagesSet><item><imageId>"+id+"</imageId><architecture>arm64</architecture>"+
				"<name>"+id+"</name><creationDate>2026-01-01T00:00:00.000Z</creationDate></item></imagesSet></DescribeImagesResponse>"))
		}
		class := nodeClass()
		class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
		check := func(what, want string) {
			t.Helper()
			got, err := c.selectImages(t.Context(), class)
			if err != nil || len(got) == 0 || got[0].ID != want {
				t.Errorf("%s: %+v, %v, want %s", what, got, err, want)
			}
		}
		release("ami-1")
		check("at first", "ami-1")
		s.set("GetParameter", ok(`{"Parameter":{"Name":"p","Value":"ami-2"}}`))
		time.Sleep(4 * time.Minute)
		check("four minutes after the release", "ami-1")
		release("ami-2")
		time.Sleep(2 * time.Minute)
		check("six minutes after it", "ami-2")
		s.set("GetParameter", answer{http.StatusInternalServerError, `{"__type":"InternalServerError","message":"later"}`})
		time.Sleep(time.Hour)
		check("while SSM is down", "ami-2")
	})
}
