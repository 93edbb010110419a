package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// input is the standard input of a command. To read it ends when the command is interrupted, as no pipe or terminal does by itself; what is read there after
// that is lost with the process.
type input struct {
	ctx  context.Context // of the run: a Reader is given none
	from io.Reader
}

func (in *input) Read(p []byte) (int, error) {
	var n int
	data := make([]byte, len(p)) // p is the caller's again after this
	err := in.until(func() (err error) {
		n, err = in.from.Read(data)
		return err
	})
	if errors.Is(err, context.Canceled) {
		return 0, err
	}
	return copy(p, data[:n]), err
}

// until does what waits for input, unless the command ends before.
func (in *input) until(read func() error) error {
	done := make(chan error, 1)
	go func() { done <- read() }()
	select {
	case err := <-done:
		return err
	case <-in.ctx.Done():
		return context.Canceled
	}
}

// inTerminal is the terminal that the standard input is, nil where it is none.
func (s *session) inTerminal() *os.File {
	if f, ok := bareIn(s.In).(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// typedToken is a token that is typed at a terminal, which does not show it, with all that was pasted behind its line: left there, the shell would run
// it.
func (s *session) typedToken(f *os.File) ([]byte, error) {
	fd := int(f.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, errUsage{fmt.Errorf("read token: %w", err)}
	}
	_, _ = fmt.Fprint(s.Err, "Token, which is not shown: ") // also with --quiet: somebody is waited for
	defer fmt.Fprintln(s.Err)
	var line []byte
	err = s.In.(*input).until(func() (err error) {
		if line, err = term.ReadPassword(fd); err != nil {
			return err
		}
		rest, err := restOf(f)
		line = append(append(line, '\n'), rest...)
		return err
	})
	switch {
	case errors.Is(err, context.Canceled):
		return nil, errors.Join(err, term.Restore(fd, before)) // else what is typed in the shell is not shown either
	case err != nil:
		return nil, errUsage{fmt.Errorf("read token: %w", err)}
	}
	return line, nil
}

// restOf is what a terminal has already, and nobody has read; on Linux, elsewhere nobody knows how much that is.
func restOf(f *os.File) (rest []byte, err error) {
	fd := int(f.Fd())
	before, err := term.MakeRaw(fd) // else a line without its end is not seen
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, term.Restore(fd, before)) }()
	rest = make([]byte, unread(fd))
	n, err := io.ReadFull(f, rest)
	return rest[:n], err
}

// readWhole reads what there is, and calls it by a name where that fails.
func readWhole(in io.Reader, called string) ([]byte, error) {
	data, err := io.ReadAll(in)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = errUsage{fmt.Errorf("read %s: %w", called, err)}
	}
	return data, err
}

// bareIn is what an input reads from: what a program that is started reads itself.
func bareIn(in io.Reader) io.Reader {
	if i, ok := in.(*input); ok {
		return i.from
	}
	return in
}
