package kube

import (
	"fmt"

	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// Bytes is an amount of memory in bytes. In a configuration it is a number of bytes, or a quantity
// such as 14000Mi.
type Bytes int64

const (
	// MinBytes is the smallest accepted amount, 1Mi: a smaller one is probably missing its unit.
	MinBytes Bytes = 1 << 20
	// MaxBytes is more memory than the devices of any node have, 1Pi.
	MaxBytes Bytes = 1 << 50
)

// UnmarshalText implements [encoding.TextUnmarshaler]. The error has the text and the allowed
// values.
func (b *Bytes) UnmarshalText(text []byte) error {
	q, err := quantity.ParseQuantity(string(text))
	if err != nil || q.Sign() < 0 || q.CmpInt64(int64(MaxBytes)) > 0 {
		return fmt.Errorf("%q is not an amount of memory: must be a number of bytes or a quantity such as 14000Mi, 0 to %s", text, MaxBytes)
	}
	*b = Bytes(q.Value())
	return nil
}

// Plausible reports whether the amount is in the range [MinBytes] to [MaxBytes]. UnmarshalText is
// not called for numbers without quotes, so the Validate method of a Config with a field of this
// type must call Plausible.
func (b Bytes) Plausible() bool { return b >= MinBytes && b <= MaxBytes }

// Notation describes how the amount is written in a configuration.
func (Bytes) Notation() string { return "a whole number of bytes or a quantity, as in 1536Mi" }

// String returns the amount as a quantity.
func (b Bytes) String() string { return quantity.NewQuantity(int64(b), quantity.BinarySI).String() }
