// Package strictconf reads what components' configurations have in common where the
// Collector's own decoding is lax: numbers that must be whole, and amounts of memory.
package strictconf

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// Unmarshal decodes conf into cfg, a pointer to a component's Config, whose Unmarshal
// method calls it. Decoding alone cuts off the fraction of a number that is for an
// integer, and wraps one that is too large: here each is an error, which names the field,
// its value and what is allowed. What decoding moves elsewhere is not looked at; of our
// components' settings that is only confighttp's keepalive.
func Unmarshal(conf *confmap.Conf, cfg any) error {
	if err := conf.Unmarshal(cfg); err != nil {
		return err
	}
	decoded := confmap.New()
	if err := decoded.Marshal(cfg); err != nil {
		return err
	}
	return errors.Join(changed("", conf.ToStringMap(), decoded.ToStringMap())...)
}

// changed returns an error for each number that is another one since it was decoded.
func changed(field string, given, decoded any) []error {
	var errs []error
	switch given := given.(type) {
	case map[string]any:
		decoded, _ := decoded.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			inner := key
			if field != "" {
				inner = field + confmap.KeyDelimiter + key
			}
			errs = append(errs, changed(inner, given[key], decoded[key])...)
		}
	case []any:
		decoded, _ := decoded.([]any)
		for i := range min(len(given), len(decoded)) {
			errs = append(errs, changed(fmt.Sprintf("%s[%d]", field, i), given[i], decoded[i])...)
		}
	default:
		if before, ok := number(given); ok {
			if after, ok := number(decoded); ok && before != after {
				errs = append(errs, fmt.Errorf("%s is %v: must be %s", field, given, allowed(decoded)))
			}
		}
	}
	return errs
}

// number returns the value of a number of any type. That of a large integer is rounded,
// by far less than decoding changes one.
func number(value any) (float64, bool) {
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// allowed says which numbers the type of value takes. Only NaN is none of a float's.
func allowed(value any) string {
	switch value.(type) {
	case Bytes:
		return "a whole number of bytes or a quantity, as in 1536Mi"
	case time.Duration:
		return "a duration with its unit, as in 10s"
	case float64:
		return "a number"
	}
	return fmt.Sprintf("a whole number of at most %d bits", reflect.TypeOf(value).Bits())
}
