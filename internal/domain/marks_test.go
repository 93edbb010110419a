package domain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-io/drover/internal/domain"
)

// letters are all marks. They are stored: a letter that changes its meaning breaks what is deployed.
const letters = "psAFdrXDKhoGHL"

func TestMarksAreTheirLetters(t *testing.T) {
	require.Equal(t, letters, string([]byte{
		byte(domain.MarkPending), byte(domain.MarkSent), byte(domain.MarkApplied), byte(domain.MarkRefused), byte(domain.MarkDoomed),
		byte(domain.MarkDeleting), byte(domain.MarkUndeleted), byte(domain.MarkDeleted), byte(domain.MarkKept),
		byte(domain.MarkIdle), byte(domain.MarkOutdated), byte(domain.MarkGone),
		byte(domain.MarkLeft), byte(domain.MarkLeaving),
	}))
}

func TestMarksEncode(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"A":                             "1A",
		"AAF":                           "2A1F",
		"ApA":                           "1A1p1A",
		strings.Repeat("A", 500) + "FF": "500A2F",
		strings.Repeat("p", 10_000):     "10000p",
		letters:                         "1p1s1A1F1d1r1X1D1K1h1o1G1H1L",
	} {
		marks := domain.Marks(text)
		require.Equal(t, want, marks.Encode())
		require.Equal(t, text, letter(domain.DecodeMarks(want)))
	}
	require.Equal(t, "3D", domain.NewMarks(3, domain.MarkDeleted).Encode())
	require.Empty(t, domain.NewMarks(0, domain.MarkDeleted).Encode())
}

func letter(m domain.Marks) string {
	var b strings.Builder
	for _, x := range m {
		b.WriteByte(byte(x))
	}
	return b.String()
}

func TestMarkState(t *testing.T) {
	for m, want := range map[domain.Mark][3]domain.ResourceState{ // in progress, in progress without an answer, ended
		domain.MarkPending:   {"Pending", "Retrying", "Pending"},
		domain.MarkSent:      {"Pending", "Retrying", "Failed"},
		domain.MarkApplied:   {"Applied", "Applied", "Applied"},
		domain.MarkRefused:   {"Failed", "Failed", "Failed"},
		domain.MarkDoomed:    {"Pending", "Retrying", "Applied"},
		domain.MarkDeleting:  {"Pending", "Retrying", "Failed"},
		domain.MarkUndeleted: {"Failed", "Failed", "Failed"},
		domain.MarkLeaving:   {"Retrying", "Retrying", "Failed"},
		domain.MarkDeleted:   {"Deleted", "Deleted", "Deleted"},
		domain.MarkKept:      {"Applied", "Applied", "Applied"},
		domain.MarkIdle:      {"Pending", "Pending", "Pending"},
		domain.MarkLeft:      {"Pending", "Pending", "Pending"},
		domain.MarkOutdated:  {"Pending", "Retrying", "Pending"},
		domain.MarkGone:      {"", "", ""},
	} {
		for _, c := range []domain.Connectivity{domain.ConnectivityUnknown, domain.ConnectivityAvailable, domain.ConnectivityRetrying} {
			going := want[0]
			if c == domain.ConnectivityRetrying {
				going = want[1]
			}
			require.Equal(t, going, m.State(true, c), "%c %s", m, c)
			require.Equal(t, want[2], m.State(false, c), "%c %s", m, c)
		}
	}
}

func TestMarksCount(t *testing.T) {
	marks := domain.DecodeMarks("2A1F3p")
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 1, "Pending": 3}, marks.Count(false, domain.ConnectivityRetrying))
	require.Equal(t, map[domain.ResourceState]int{"Applied": 2, "Failed": 1, "Retrying": 3}, marks.Count(true, domain.ConnectivityRetrying))
}

// TestDoom deletes all that may be in the cluster, and asks no cluster for what cannot be there.
func TestDoom(t *testing.T) {
	for from, want := range map[byte]byte{
		'p': 'D', 'F': 'D', 'D': 'D', 'h': 'D', // never there
		's': 'd', 'A': 'd', 'd': 'd', 'X': 'd', 'o': 'd', 'H': 'd', // may be there
		'r': 'r', 'K': 'K', 'G': 'G',
	} {
		require.Equal(t, string(want), letter(domain.Marks{domain.Mark(from)}.Doom()), string(from))
	}
	marks := domain.DecodeMarks("2A")
	marks.Doom()
	require.Equal(t, "2A", marks.Encode(), "the marks themselves stay")
}

func FuzzDecodeMarks(f *testing.F) {
	for _, s := range []string{"", "1A", "500A2F", "0A", "A", "12", "1A2", "007p", letters, "1é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tooMany(s) {
			t.Skip("more marks than memory")
		}
		marks := domain.DecodeMarks(s)
		require.Equal(t, marks, domain.DecodeMarks(marks.Encode()), "%q", s)
	})
}

// tooMany says whether a number in s has more than 5 digits.
func tooMany(s string) bool {
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			n = 0
		} else if n++; n > 5 {
			return true
		}
	}
	return false
}
