package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-k8s/slipway/launcher/view"
	"github.com/slipway-k8s/slipway/launcher/view/top"
)

// readTakes bounds one reading of the cluster for a live view.
const readTakes = 30 * time.Second

// newTop returns the command top.
func newTop(o *options) *cobra.Command {
	var interval time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch slipway's nodes, the bill and pending pods in the terminal",
		Long: `Watch slipway's nodes, the bill and pending pods in the terminal: what slipway status prints, live.

Keys: arrows or the mouse wheel select a row and Enter opens it; / filters; c m p a n t z o s sort by CPU, memory, price, age, name, type, zone,
NodePool, state; ? shows all keys; q quits. NO_COLOR=1 leaves colors out. Where standard output is no terminal, or a dumb one, it prints one table
after the other.`,
		Example: `  slipway top
  NO_COLOR=1 slipway top --interval 5s`,
		Annotations: map[string]string{takesNamespace: "of the pods to count"},
		Args:        cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := validInterval(interval); err != nil {
				return err
			}
			return o.live(cmd, interval)
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often the cluster is read")
	return cmd
}

// live shows the view of package top on a terminal that can move its cursor, and one table after the other elsewhere.
func (o *options) live(cmd *cobra.Command, interval time.Duration) error {
	in, out, ok := screenOf(cmd)
	if !ok {
		return o.watch(cmd, interval, view.FormatTable)
	}
	c, _, err := o.client()
	if err != nil {
		return err
	}
	reading := func() (context.Context, context.CancelFunc) { return context.WithTimeout(cmd.Context(), readTakes) }
	return top.Run(cmd.Context(), top.Config{
		Load: func() (top.Snapshot, error) {
			ctx, cancel := reading()
			defer cancel()
			return o.snapshot(ctx, c)
		},
		Explain: func(name string) (string, error) {
			ctx, cancel := reading()
			defer cancel()
			var text strings.Builder
			pod, err := explainPod(ctx, c, named(name, ""), &text)
			if err != nil {
				return "", fmt.Errorf("explaining pod %s: %w", name, err)
			}
			if pod.Spec.NodeName == "" {
				perPool(&text, pod)
			}
			return text.String(), nil
		},
		Interval: interval, Color: os.Getenv("NO_COLOR") == "", ASCII: asciiOnly(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))),
	}, in, out)
}

// screenOf returns the terminal that the command is used on; false if there is none, or one that cannot move its cursor.
func screenOf(cmd *cobra.Command) (in io.Reader, out io.Writer, ok bool) {
	// The command's own writer quotes what a terminal would obey: the view quotes what it shows itself.
	screen, isFile := cmd.Root().OutOrStdout().(*os.File)
	keys, isKeys := cmd.InOrStdin().(*os.File)
	if !isFile || !isKeys || !term.IsTerminal(int(screen.Fd())) || !term.IsTerminal(int(keys.Fd())) {
		return nil, nil, false
	}
	return keys, screen, cursorMoves()
}

// cursorMoves reports whether the terminal that TERM names can move its cursor.
func cursorMoves() bool {
	name := os.Getenv("TERM")
	return name != "" && name != "dumb"
}

// asciiOnly reports whether a locale has no block characters. A locale that is not set has them, as most terminals do.
func asciiOnly(locale string) bool {
	charset := strings.ToLower(strings.ReplaceAll(locale, "-", ""))
	return locale != "" && !strings.Contains(charset, "utf8")
}
