package kube

import (
	"fmt"

	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// Bytes is an amount of memory in bytes. In a configuration, users specify a number of bytes or a
// quantity such as 14000Mi.
type Bytes int64

const (
	// MinBytes is the minimum plausible amount, 1Mi. If an amount is smaller, the user probably
	// omitted the unit.
	MinBytes Bytes = 1 << 20
	// MaxBytes is the maximum plausible amount, 1Pi. No node has that much device memory.
	MaxBytes Bytes = 1 << 50
)

// UnmarshalText implements [encoding.TextUnmarshaler]. Error messages include the text and the
// allowed values.
func (b *Bytes) UnmarshalText(text []byte) error {
	q, err := quantity.ParseQuantity(string(text))
	if err != nil || q.Sign() < 0 || q.CmpInt64(int64(MaxBytes)) > 0 {
		return fmt.Errorf("%q is not an amount of memory: must be a number of bytes or a quantity such as 14000Mi, 0 to %s", text, MaxBytes)
	}
	*b = Bytes(q.Value())
	return nil
}

// Plausible reports whether the amount is between [MinBytes] and [MaxBytes]. Decoding does not call
// UnmarshalText for numbers without quotes. Therefore, if a configuration has a field of type
// Bytes, the configuration's Validate method must call Plausible.
func (b Bytes) Plausible() bool { return b >= MinBytes && b <= MaxBytes }

// Notation describes how users specify Bytes in a configuration. Error messages contain this
// description.
func (Bytes) Notation() string { return "a whole number of bytes or a quantity, as in 1536Mi" }

// String returns the amount as a quantity.
func (b Bytes) String() string { return quantity.NewQuantity(int64(b), quantity.BinarySI).String() }
