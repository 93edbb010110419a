package quantity_test

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-io/drover/internal/quantity"
)

func TestBounds(t *testing.T) {
	for text, want := range map[string]error{
		"": quantity.ErrSyntax, "many": quantity.ErrSyntax, "1.2.3": quantity.ErrSyntax, "1e": quantity.ErrSyntax, "1ee5": quantity.ErrSyntax,
		"1e400": nil, "1E-400": nil, "1e+0000000005": nil, strings.Repeat("9", 400): nil,
		"9999999E999999999999": quantity.ErrBounds, "1e401": quantity.ErrBounds, "1e-401": quantity.ErrBounds, "1E-2147483647": quantity.ErrBounds,
		"1e99999999999999999999": quantity.ErrBounds, strings.Repeat("9", 401): quantity.ErrBounds, ".e-2000000000": quantity.ErrBounds,
	} {
		_, err := quantity.Parse(text)
		require.Equal(t, want, err, "%q", text)
	}
}

// FuzzParse: what Kubernetes reads as a quantity is one, with the same value where Kubernetes is exact; nothing else is. It takes
// "." or e5 for a zero: that is no number here. What is out of bounds it is not asked.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "1", "-1.5", "+2", "1Gi", "500m", "0.1Ki", "1e3", "1E3", "1E", "1e-3", ".5", "5.", ".", "-", "1.2.3", "1 Gi", "0x10", "1_000", "1n", "1ki",
		"99999999999999999999", "1e", "e5", "Inf", "NaN", "1Ei", "9Ei", "１", "1e+5", "--1", "1E-2", "007", "9999999E999999999999", ".e-5", "1e400",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, mine := quantity.Parse(text)
		if errors.Is(mine, quantity.ErrBounds) {
			return
		}
		if mantissa := strings.TrimLeft(text, "+-."); mantissa == "" || strings.ContainsAny(mantissa[:1], "eEinumkKMGTP") {
			require.Error(t, mine, "%q has no digit", text) // Kubernetes takes some of these for a zero
			return
		}
		want, err := resource.ParseQuantity(text)
		require.Equal(t, err == nil, mine == nil, "%q: %v", text, err)
		if err != nil || want.CmpInt64(math.MaxInt64) >= 0 || want.CmpInt64(-math.MaxInt64) <= 0 {
			return
		}
		if exact, isRat := new(big.Rat).SetString(want.AsDec().String()); isRat {
			if distance := new(big.Rat).Sub(exact, got); distance.Abs(distance).Cmp(big.NewRat(1, 1_000_000_000)) > 0 {
				require.Equal(t, exact.RatString(), got.RatString(), "%q", text)
			}
		}
	})
}
