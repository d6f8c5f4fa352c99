package kube

import (
	"fmt"

	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// Bytes is an amount of memory in bytes. In a configuration it is a number of bytes, or
// a quantity such as 14000Mi.
type Bytes int64

const (
	// MinBytes is the least amount that makes sense, 1Mi: a smaller one lost its unit.
	MinBytes Bytes = 1 << 20
	// MaxBytes is more memory than the devices of any node have, 1Pi.
	MaxBytes Bytes = 1 << 50
)

// UnmarshalText implements [encoding.TextUnmarshaler]. The error names the text and what
// is allowed.
func (b *Bytes) UnmarshalText(text []byte) error {
	q, err := quantity.ParseQuantity(string(text))
	if err != nil || q.Sign() < 0 || q.CmpInt64(int64(MaxBytes)) > 0 {
		return fmt.Errorf("%q is no amount of memory: must be a number of bytes or a quantity such as 14000Mi, 0 to %s", text, MaxBytes)
	}
	*b = Bytes(q.Value())
	return nil
}

// Plausible reports whether the amount is one of memory, [MinBytes] to [MaxBytes]. A
// number without quotes does not pass UnmarshalText: whoever has a field of this type
// asks in Validate.
func (b Bytes) Plausible() bool { return b >= MinBytes && b <= MaxBytes }

// Notation says how the amount is written in a configuration.
func (Bytes) Notation() string { return "a whole number of bytes or a quantity, as in 1536Mi" }

// String returns the amount as a quantity.
func (b Bytes) String() string { return quantity.NewQuantity(int64(b), quantity.BinarySI).String() }
