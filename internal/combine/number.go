package combine

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"

	"github.com/drover-io/drover/internal/limits"
	"github.com/drover-io/drover/internal/quantity"
)

// number is exact: an int64 where that holds it, else a double or a rational.
//
// A double is what it is written as: 0.1 is a tenth, so that 0.1 + 0.2 is 0.3. A whole one is the integer that it is.
type number struct {
	small int64    // where big is nil and double is 0
	big   *big.Rat // nil where the number is small or a double
	// double is what a double was, which is written as one: 1e300, not 301 digits.
	double float64
}

// maxWhole is up to where a double that is whole is written as an integer in all its digits.
const maxWhole = 1 << 53

func integer(i int64) number { return number{small: i} }

// double is the number of a double, which must be finite.
func double(f float64) number {
	if f == math.Trunc(f) && math.Abs(f) < maxWhole {
		return number{small: int64(f)}
	}
	return number{double: f}
}

// ofRat is the number of a rational; doubles says whether it came about with doubles.
func ofRat(r *big.Rat, doubles bool) number {
	if r.IsInt() && r.Num().IsInt64() {
		if i := r.Num().Int64(); !doubles || -maxWhole < i && i < maxWhole {
			return integer(i)
		}
	}
	if f, ok := asDouble(r); ok && (doubles || f != math.Trunc(f)) {
		return number{double: f}
	}
	return number{big: r}
}

// asDouble is the double that is just the number.
func asDouble(r *big.Rat) (float64, bool) {
	f, exact := r.Float64()
	if math.IsInf(f, 0) {
		return 0, false
	}
	return f, exact && f == math.Trunc(f) || rat(f).Cmp(r) == 0
}

// rat is the rational of a double.
func rat(f float64) *big.Rat {
	if f == math.Trunc(f) {
		return new(big.Rat).SetFloat64(f)
	}
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'e', -1, 64)) // what strconv writes can be read
	return r
}

// as is the number as it is written where it came about with doubles, or without.
func (n number) as(doubles bool) number {
	if n.isSmall() && -maxWhole < n.small && n.small < maxWhole {
		return n
	}
	if r := n.rat(); r.IsInt() {
		return ofRat(r, doubles)
	}
	return n // there is one way to write it
}

// exact is a sum of numbers that come and go. It is 0 when all have gone, whatever there was.
type exact struct {
	high    int64 // with low, the sum of those that are small
	low     uint64
	parts   *big.Rat // of the others
	others  int
	doubles int // of these
}

func (e *exact) add(n number) {
	if n.isSmall() {
		var carry uint64
		e.low, carry = bits.Add64(e.low, uint64(n.small), 0)
		e.high += n.small>>63 + int64(carry)
		return
	}
	if e.parts == nil {
		e.parts = new(big.Rat)
	}
	e.parts.Add(e.parts, n.rat())
	e.count(n, 1)
}

func (e *exact) subtract(n number) {
	if n.isSmall() {
		var borrow uint64
		e.low, borrow = bits.Sub64(e.low, uint64(n.small), 0)
		e.high -= n.small>>63 + int64(borrow)
		return
	}
	e.parts.Sub(e.parts, n.rat())
	if e.count(n, -1); e.others == 0 {
		e.parts = nil
	}
}

func (e *exact) count(n number, by int) {
	if e.others += by; n.double != 0 {
		e.doubles += by
	}
}

// over is the sum divided by a count.
func (e *exact) over(count int64) number {
	fits := e.high == int64(e.low)>>63
	if count == 1 && fits && e.parts == nil {
		return integer(int64(e.low))
	}
	sum := new(big.Rat).SetInt64(int64(e.low))
	if !fits {
		whole := new(big.Int).Lsh(big.NewInt(e.high), 64)
		sum.SetInt(whole.Add(whole, new(big.Int).SetUint64(e.low)))
	}
	if e.parts != nil {
		sum.Add(sum, e.parts)
	}
	return ofRat(sum.Quo(sum, new(big.Rat).SetInt64(count)), e.doubles > 0)
}

func (n number) isSmall() bool { return n.big == nil && n.double == 0 }

// rat is the number as a rational, which is not to be changed.
func (n number) rat() *big.Rat {
	switch {
	case n.big != nil:
		return n.big
	case n.double != 0:
		return rat(n.double)
	default:
		return new(big.Rat).SetInt64(n.small)
	}
}

// compare is by what the numbers are.
func (n number) compare(m number) int {
	switch {
	case n.isSmall() && m.isSmall():
		return cmp.Compare(n.small, m.small)
	case n.double != 0 && m.double != 0:
		return cmp.Compare(n.double, m.double)
	default:
		return n.rat().Cmp(m.rat())
	}
}

// String is decimal: an integer in all its digits, a double as RFC 8785 writes it, another number exactly where its digits end,
// and as the nearest double where they do not; beyond all doubles as one that had a larger exponent.
func (n number) String() string {
	switch {
	case n.isSmall():
		return strconv.FormatInt(n.small, 10)
	case n.double != 0:
		return writeDouble(n.double)
	case n.big.IsInt():
		return n.big.Num().String()
	}
	if digits, exact := n.big.FloatPrec(); exact {
		return n.big.FloatString(digits)
	}
	f, _ := n.big.Float64()
	if math.IsInf(f, 0) { // with as many digits as a double has
		return new(big.Float).SetPrec(doubleDigits).SetRat(n.big).Text('e', -1)
	}
	return writeDouble(f)
}

// doubleDigits is how many binary digits a double has.
const doubleDigits = 53

// writeDouble writes a finite double as RFC 8785 does, which is how ECMAScript writes numbers.
func writeDouble(f float64) string {
	abs := math.Abs(f)
	switch {
	case f == 0:
		return "0" // a negative zero too
	case abs >= 1e-6 && abs < 1e21:
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	sign, digits := exponent[:1], strings.TrimLeft(exponent[1:], "0")
	return mantissa + "e" + sign + digits
}

// ofQuantity is the number of what Kubernetes reads as a quantity.
func ofQuantity(text string) (number, bool) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil && len(text) <= limits.Quantity {
		return integer(i), true
	}
	r, err := quantity.Parse(text)
	if err != nil {
		return number{}, false
	}
	return ofRat(r, false), true
}

// key tells the number from every other.
func (n number) key() string {
	if n.isSmall() {
		return strconv.FormatInt(n.small, 10)
	}
	return n.rat().RatString()
}
