package aws

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"golang.org/x/sync/errgroup"
)

// parallelTemplates is how many launch templates are created at once: EC2 throttles this call early.
const parallelTemplates = 8

// templateUse records which launch templates, or instance profiles, exist, and when each was last used.
type templateUse struct {
	mu   sync.Mutex
	last map[string]time.Time
	// making holds the names that a caller is creating now.
	making map[string]chan struct{}
}

func newTemplateUse() *templateUse {
	return &templateUse{last: map[string]time.Time{}, making: map[string]chan struct{}{}}
}

// begin makes the caller the only one that creates the missing template, until it calls done. Other callers wait; if the creation failed,
// the next of them tries it. mine is false if the template exists after the wait, and if ctx ended.
func (t *templateUse) begin(ctx context.Context, name string) (done func(), mine bool, err error) {
	for {
		t.mu.Lock()
		if _, ok := t.last[name]; ok {
			t.last[name] = time.Now()
			t.mu.Unlock()
			return nil, false, nil
		}
		other, busy := t.making[name]
		if !busy {
			own := make(chan struct{})
			t.making[name] = own
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				delete(t.making, name)
				close(own)
			}, true, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// use reports whether the template is known to exist, and records the use.
func (t *templateUse) use(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.last[name]
	if ok {
		t.last[name] = time.Now()
	}
	return ok
}

func (t *templateUse) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[name] = time.Now()
}

func (t *templateUse) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, name)
}

func (t *templateUse) forgetAll(templates []*ec2.CreateLaunchTemplateInput) {
	for _, template := range templates {
		t.forget(awssdk.ToString(template.LaunchTemplateName))
	}
}

// touch records a use of every known template now.
func (t *templateUse) touch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for name := range t.last {
		t.last[name] = now
	}
}

// missed drops the templates that were last used before the given time and were not listed: another party deleted them.
func (t *templateUse) missed(seen map[string]bool, since time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, last := range t.last {
		if !seen[name] && last.Before(since) {
			delete(t.last, name)
		}
	}
}

// idle reports whether the template was not used since the given time. A template seen for the first time counts as used now.
func (t *templateUse) idle(name string, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, ok := t.last[name]
	if !ok {
		t.last[name] = time.Now()
	}
	return ok && last.Before(since)
}

// ensureTemplates creates the launch templates that are not known to exist.
func (c *Cloud) ensureTemplates(ctx context.Context, templates []*ec2.CreateLaunchTemplateInput) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelTemplates)
	for _, t := range templates {
		name := awssdk.ToString(t.LaunchTemplateName)
		if c.templates.use(name) {
			continue
		}
		group.Go(func() error {
			done, mine, err := c.templates.begin(groupCtx, name)
			if !mine {
				return err
			}
			defer done()
			// The name is a hash of the content: a template of the same name is the same.
			if _, err := c.ec2.CreateLaunchTemplate(groupCtx, t); err != nil && !isTemplateThere(err) {
				return fmt.Errorf("creating launch template %s: %w", name, err)
			}
			c.templates.add(name)
			return nil
		})
	}
	return group.Wait()
}

// listedLate is how long EC2 may not list a launch template that was just created.
const listedLate = time.Minute

// sweepTemplates deletes this cluster's launch templates that no launch used for a period. Templates of an earlier process are recorded and
// used again. Templates that were deleted are created again when they are needed.
func (c *Cloud) sweepTemplates(ctx context.Context) error {
	began := time.Now()
	since, seen := began.Add(-c.cfg.Periods.LaunchTemplates), map[string]bool{}
	err := c.deleteTemplates(ctx, "", func(name string) bool {
		seen[name] = true
		return c.templates.idle(name, since)
	})
	if err == nil {
		c.templates.missed(seen, began.Add(-listedLate))
	}
	return err
}

// deleteTemplates deletes the cluster's launch templates, or those of one class if class is not empty, for which the callback returns true.
func (c *Cloud) deleteTemplates(ctx context.Context, class string, unwanted func(name string) bool) error {
	in := &ec2.DescribeLaunchTemplatesInput{MaxResults: awssdk.Int32(200)}
	in.Filters = append(in.Filters, filter("tag:"+awsv1.EKSClusterNameTagKey, c.cfg.ClusterName),
		filter("launch-template-name", templatePrefix+"*"))
	if class != "" {
		in.Filters = append(in.Filters, filter("tag:"+awsv1.NodeClassTagKey, class))
	}
	var errs []error
	pages := ec2.NewDescribeLaunchTemplatesPaginator(c.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("describing launch templates: %w", err))...)
		}
		for _, t := range page.LaunchTemplates {
			name := awssdk.ToString(t.LaunchTemplateName)
			if !unwanted(name) {
				continue
			}
			c.templates.forget(name)
			_, err := c.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId})
			if err != nil && !code(err).IsTemplateGone() {
				errs = append(errs, fmt.Errorf("deleting launch template %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}
