// Package quantity reads what Kubernetes calls a quantity, within bounds: Kubernetes' own parser takes minutes of processor time
// for 9999999E999999999999. So whatever strangers have written goes through here before a library of Kubernetes gets it.
package quantity

import (
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/limits"
)

// What is wrong with a text, to be said behind it.
var (
	ErrSyntax = errors.New("is not a quantity such as 4, 500m or 16Gi")
	ErrBounds = errors.New("is no quantity: at most " + strconv.Itoa(limits.Quantity) + " characters, and an exponent of at most " + strconv.Itoa(limits.QuantityExponent))
)

// suffixes are those of Kubernetes' quantities.
var suffixes = func() map[string]*big.Rat {
	all := map[string]*big.Rat{}
	thousand, kibi := big.NewRat(1000, 1), big.NewRat(1024, 1)
	r := big.NewRat(1, 1_000_000_000)
	for _, s := range []string{"n", "u", "m", "", "k", "M", "G", "T", "P", "E"} {
		all[s] = r
		r = new(big.Rat).Mul(r, thousand)
	}
	r = kibi
	for _, s := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		all[s] = r
		r = new(big.Rat).Mul(r, kibi)
	}
	return all
}()

// Parse reads what Kubernetes reads as a quantity, exactly: resource.ParseQuantity rounds up to a billionth, and cuts what is
// greater than an int64. The error is ErrBounds or ErrSyntax; what is ErrSyntax here, that function is quick with.
func Parse(text string) (*big.Rat, error) {
	if len(text) > limits.Quantity {
		return nil, ErrBounds
	}
	end := 0
	for end < len(text) && (end == 0 && (text[0] == '+' || text[0] == '-') || text[end] >= '0' && text[end] <= '9' || text[end] == '.') {
		end++
	}
	digits, suffix := text[:end], text[end:]
	times := suffixes[suffix]
	if times == nil {
		exponent, ok := strings.CutPrefix(suffix, "e")
		if !ok {
			if exponent, ok = strings.CutPrefix(suffix, "E"); !ok {
				return nil, ErrSyntax
			}
		}
		e, err := strconv.Atoi(exponent)
		if e > limits.QuantityExponent || e < -limits.QuantityExponent {
			return nil, ErrBounds
		}
		if err != nil {
			return nil, ErrSyntax
		}
		digits += "e" + strconv.Itoa(e)
	}
	if strings.Count(digits, ".") > 1 || !strings.ContainsAny(text[:end], "0123456789") {
		return nil, ErrSyntax
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, ErrSyntax
	}
	if times != nil {
		r.Mul(r, times)
	}
	return r, nil
}
