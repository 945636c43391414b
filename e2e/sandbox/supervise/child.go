package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Config configures a child.
type Config struct {
	// Name is the child's in errors and logs.
	Name string
	// Path is the program's.
	Path string
	// Args are the arguments, without the program's name.
	Args []string
	// Env is the whole environment.
	Env []string
	// LogFile receives the output of all runs of the program.
	LogFile string
	// Backoff is the delay before the second restart in a row. It doubles with each further one, up to thirty times Backoff.
	// After a run that lasted sixty times as long it starts again. Default 10 s, as for kubelets.
	Backoff time.Duration
	// Grace is the time between SIGTERM and SIGKILL when Run's context ends. Default 5 s.
	Grace time.Duration
	// Exited is called, from Run's goroutine, after each run that was not ended by Run's context; nil means no call.
	Exited func(Exit)
}

// Exit describes a run of the program that has ended.
type Exit struct {
	// PID is the id that the process had.
	PID int
	// State is text such as "signal: killed" or "exit status 1".
	State string
	// Uptime is the duration of the run.
	Uptime time.Duration
	// RestartIn is the delay before the next run.
	RestartIn time.Duration
	// Killed means that Kill ended the run.
	Killed bool
}

// mostCrashes is how many of its crashes a Child remembers.
const mostCrashes = 100

// ErrNotRunning is Kill's error between two runs.
var ErrNotRunning = errors.New("not running")

// Child is one supervised program.
type Child struct {
	cfg      Config
	mu       sync.Mutex
	process  *os.Process
	killed   bool
	restarts int
	crashes  []Exit
}

// New returns a child that Run starts.
func New(cfg Config) (*Child, error) {
	if cfg.Name == "" || cfg.Path == "" || cfg.LogFile == "" {
		return nil, errors.New("supervise: Name, Path and LogFile are required")
	}
	stat, err := os.Stat(cfg.Path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	case stat.IsDir() || stat.Mode()&0o111 == 0:
		return nil, fmt.Errorf("checking the program of %s: %s is not executable", cfg.Name, cfg.Path)
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 10 * time.Second
	}
	if cfg.Grace == 0 {
		cfg.Grace = 5 * time.Second
	}
	return &Child{cfg: cfg}, nil
}

// PID returns the id of the running process; 0 between two runs.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.Pid
}

// Restarts returns how often the program was restarted.
func (c *Child) Restarts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restarts
}

// Crashes returns the ends of the program that neither Kill nor the end of Run's context caused: the first hundred.
func (c *Child) Crashes() []Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.crashes)
}

// Kill ends the running process with SIGKILL; Run restarts it. Errors: ErrNotRunning.
func (c *Child) Kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return fmt.Errorf("%s: %w", c.cfg.Name, ErrNotRunning)
	}
	switch err := c.process.Kill(); {
	case errors.Is(err, os.ErrProcessDone):
		return fmt.Errorf("%s: %w", c.cfg.Name, ErrNotRunning)
	case err != nil:
		return fmt.Errorf("%s: %w", c.cfg.Name, err)
	}
	c.killed = true
	return nil
}

// Run runs the program and restarts it until ctx ends. It then ends the program and waits for it. It fails only where the
// program cannot be started at all.
func (c *Child) Run(ctx context.Context) error {
	// The kernel sends the parent-death signal when the thread that forked ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	log, err := os.OpenFile(c.cfg.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", c.cfg.Name, err)
	}
	return errors.Join(c.keepRunning(ctx, log), log.Close())
}

// keepRunning starts the program again after each end, until ctx ends.
func (c *Child) keepRunning(ctx context.Context, log *os.File) error {
	wait := time.Duration(0)
	for {
		exit, err := c.runOnce(ctx, log)
		if err != nil || ctx.Err() != nil {
			return err
		}
		wait = next(wait, exit.Uptime, c.cfg.Backoff)
		exit.RestartIn = wait
		if wait == firstRestart {
			exit.RestartIn = 0
		}
		if c.cfg.Exited != nil {
			c.cfg.Exited(exit)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(exit.RestartIn):
		}
		c.mu.Lock()
		c.restarts++
		if !exit.Killed && len(c.crashes) < mostCrashes {
			c.crashes = append(c.crashes, exit)
		}
		c.mu.Unlock()
	}
}

// firstRestart stands for "at once", since zero stands for "never restarted".
const firstRestart = time.Nanosecond

// next returns the delay before the next start, after a delay of last and a run of uptime.
func next(last, uptime, backoff time.Duration) time.Duration {
	switch {
	case last == 0 || uptime >= 60*backoff:
		return firstRestart
	case last == firstRestart:
		return backoff
	default:
		return min(2*last, 30*backoff)
	}
}

// runOnce starts the program and waits until it exits, by itself or because ctx ended.
func (c *Child) runOnce(ctx context.Context, log *os.File) (Exit, error) {
	if ctx.Err() != nil {
		return Exit{}, nil
	}
	cmd := exec.Command(c.cfg.Path, c.cfg.Args...)
	cmd.Env = c.cfg.Env
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return Exit{}, fmt.Errorf("%s: %w", c.cfg.Name, err)
	}
	c.publish(cmd.Process)
	defer c.publish(nil)

	ended := make(chan struct{})
	var ender sync.WaitGroup
	ender.Go(func() { c.endWith(ctx, cmd.Process, ended) })
	// Wait fails where the program failed, which its state describes better. The log is a file, so no copying can fail.
	waitErr := cmd.Wait()
	close(ended)
	ender.Wait()
	if cmd.ProcessState == nil {
		return Exit{}, fmt.Errorf("%s: %w", c.cfg.Name, waitErr)
	}
	return Exit{PID: cmd.Process.Pid, State: cmd.ProcessState.String(), Uptime: time.Since(begin), Killed: c.wasKilled()}, nil
}

func (c *Child) publish(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = p
	c.killed = c.killed && p == nil
}

func (c *Child) wasKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

// endWith sends SIGTERM when ctx ends, and SIGKILL after the grace period.
func (c *Child) endWith(ctx context.Context, process *os.Process, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	// The process may have ended already.
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(c.cfg.Grace):
		_ = process.Kill()
		<-ended
	}
}
