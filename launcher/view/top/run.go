package top

import (
	"context"
	"errors"
	"io"

	tea "charm.land/bubbletea/v2"
)

// Run shows the view on a terminal until the user quits or the context ends, and then leaves the terminal as it was.
func Run(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	// The signals of the process end its context.
	_, err := tea.NewProgram(New(c), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	if ended := errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil; !ended {
		return err
	}
	return nil
}
