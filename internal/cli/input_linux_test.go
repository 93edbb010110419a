package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// TestATokenThatIsPasted: all that was pasted is looked at, and nothing of it is left for the shell to run.
func TestATokenThatIsPasted(t *testing.T) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine gives no terminal:", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	before, err := term.GetState(int(tty.Fd()))
	require.NoError(t, err)
	for pasted, want := range map[string]string{
		"good\r": "good", " good\r\r\n": "good", "\rgood\r": "good",
		"go\rod\r": "", "good\rrm -r x": "", "\r": "",
	} {
		_, err := keyboard.WriteString(pasted)
		require.NoError(t, err)
		s := &session{Options: Options{In: &input{t.Context(), tty}, Err: io.Discard}}
		token, err := s.readToken("-")
		require.Equal(t, want, token, "%q", pasted)
		if want == "" {
			require.ErrorContains(t, err, "has no token, or more than one word", "%q", pasted)
		}
		require.Zero(t, unread(int(tty.Fd())), "%q", pasted)
		after, err := term.GetState(int(tty.Fd()))
		require.NoError(t, err)
		require.Equal(t, before, after, "%q", strings.TrimSpace(pasted))
	}
}
