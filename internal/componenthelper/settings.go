package componenthelper

import (
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/confmap"
)

// Config is a pointer to a component's configuration.
type Config interface {
	confmap.Unmarshaler
	confmap.Validator
}

// Unmarshal decodes conf into cfg. The Unmarshal method of cfg's type calls the Unmarshal function.
// By itself, decoding with confmap would truncate fractions to integers, wrap numbers that are too
// large, and ignore misspelled settings of confighttp, such as auth and tls. Unmarshal returns an
// error for each number that decoding would change, for each misspelled setting, and for each value
// of the wrong type. Each error message includes the field's name, its value, and the allowed
// values. The error for an unknown key suggests the most similar key. Unmarshal does not check the
// keepalive settings of confighttp, because decoding moves their numbers to other fields.
func Unmarshal(conf *confmap.Conf, cfg Config) error {
	if errs := unknown("", conf.ToStringMap(), reflect.TypeOf(cfg)); len(errs) > 0 {
		return errors.Join(errs...)
	}
	if err := conf.Unmarshal(cfg); err != nil {
		if errs := mistyped("", conf.ToStringMap(), reflect.TypeOf(cfg)); len(errs) > 0 {
			return errors.Join(errs...)
		}
		return err
	}
	decoded := confmap.New()
	if err := decoded.Marshal(cfg); err != nil {
		return err
	}
	return errors.Join(changed("", conf.ToStringMap(), decoded.ToStringMap())...)
}

// The unknown function returns an error for each key that is not a setting of type t.
func unknown(field string, given any, t reflect.Type) []error {
	t = settings(t)
	var errs []error
	switch given := given.(type) {
	case map[string]any:
		var fields map[string]reflect.Type
		switch {
		case t == reflect.TypeFor[component.ID]():
			return []error{fmt.Errorf("%s is a map: must be %s", field, form(t))}
		case t.Kind() == reflect.Struct:
			fields = map[string]reflect.Type{}
			addFields(fields, t)
		case t.Kind() == reflect.Map:
		default:
			return nil // decoding checks values of all other types
		}
		for _, key := range slices.Sorted(maps.Keys(given)) {
			inner := join(field, key)
			switch of, ok := fields[key]; {
			case ok:
				errs = append(errs, unknown(inner, given[key], of)...)
			case fields == nil:
				errs = append(errs, unknown(inner, given[key], t.Elem())...)
			default:
				errs = append(errs, fmt.Errorf("unknown key %q: %s", inner, suggest(field, key, slices.Sorted(maps.Keys(fields)))))
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i := range given {
			errs = append(errs, unknown(fmt.Sprintf("%s[%d]", field, i), given[i], t.Elem())...)
		}
	}
	return errs
}

// suggest describes the key that the user probably meant, or lists all valid keys if no key is
// similar.
func suggest(field, key string, keys []string) string {
	if known := Similar(key, keys); known != "" {
		return fmt.Sprintf("did you mean %q?", join(field, known))
	}
	return "must be one of " + strings.Join(keys, ", ")
}

// The settings function returns the type that contains a field's settings: the target of a pointer
// type, the value type of an Optional, or t itself if t is any other type.
func settings(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if optional, ok := reflect.PointerTo(t).MethodByName("GetOrInsertDefault"); ok {
		return settings(optional.Type.Out(0))
	}
	return t
}

// addFields adds the settings of a struct, including the settings of squashed structs.
func addFields(fields map[string]reflect.Type, t reflect.Type) {
	for f := range t.Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("mapstructure"), ",")
		switch {
		case option == "squash":
			addFields(fields, settings(f.Type))
		case name != "" && name != "-":
			fields[name] = f.Type
		}
	}
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + confmap.KeyDelimiter + key
}

// The changed function returns an error for each number in the decoded configuration that differs
// from the number in the given configuration.
func changed(field string, given, decoded any) []error {
	var errs []error
	switch given := given.(type) {
	case map[string]any:
		decoded, _ := decoded.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			errs = append(errs, changed(join(field, key), given[key], decoded[key])...)
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

// The mistyped function returns an error for each value that a setting of type t does not accept.
// Unmarshal calls mistyped after decoding has failed, because the decoder's errors contain Go types
// instead of the allowed values.
func mistyped(field string, given any, t reflect.Type) []error {
	t = settings(t)
	if _, isMap := given.(map[string]any); isMap && t == reflect.TypeFor[configopaque.MapList]() { // MapList accepts a list or a map
		t = reflect.TypeFor[map[string]configopaque.String]()
	}
	if given == nil || t.Kind() == reflect.Interface {
		return nil
	}
	if text, ok := given.(string); ok {
		if parser, ok := reflect.TypeAssert[encoding.TextUnmarshaler](reflect.New(t)); ok {
			if err := parser.UnmarshalText([]byte(text)); err != nil {
				return []error{fmt.Errorf("%s is %q: %w", field, text, err)}
			}
			return nil
		}
	}
	var errs []error
	switch given := given.(type) {
	case map[string]any:
		fields := map[string]reflect.Type{}
		switch t.Kind() {
		case reflect.Struct:
			addFields(fields, t)
		case reflect.Map:
			for key := range given {
				fields[key] = t.Elem()
			}
		default:
			return []error{fmt.Errorf("%s is a map: must be %s", field, form(t))}
		}
		for _, key := range slices.Sorted(maps.Keys(given)) {
			if of, ok := fields[key]; ok {
				errs = append(errs, mistyped(join(field, key), given[key], of)...)
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return []error{fmt.Errorf("%s is a list: must be %s", field, form(t))}
		}
		for i := range given {
			errs = append(errs, mistyped(fmt.Sprintf("%s[%d]", field, i), given[i], t.Elem())...)
		}
	default:
		if !accepts(t, given) {
			errs = append(errs, fmt.Errorf("%s is %s: must be %s", field, shown(given, t), form(t)))
		}
	}
	return errs
}

// The shown function formats a value of the wrong type for an error message. For the value of a
// secret setting or a string that may contain a password, shown returns only a description.
func shown(given any, t reflect.Type) string {
	text, isText := given.(string)
	switch {
	case t == reflect.TypeFor[configopaque.String]():
		return "of another type"
	case isText && strings.Contains(text, "@"):
		return "a text"
	case isText:
		return strconv.Quote(text)
	}
	return fmt.Sprint(given)
}

// The accepts function reports whether a string, a number, or a boolean can be decoded to type t.
func accepts(t reflect.Type, given any) bool {
	text, isText := given.(string)
	_, isNumber := number(given)
	switch t.Kind() {
	case reflect.String:
		return isText
	case reflect.Slice: // decoding splits a string at commas, but only for this type
		return isText && t == reflect.TypeFor[[]string]()
	case reflect.Bool:
		return reflect.TypeOf(given).Kind() == reflect.Bool
	case reflect.Struct, reflect.Map:
		return false
	}
	if t == reflect.TypeFor[time.Duration]() && isText {
		_, err := time.ParseDuration(text)
		return err == nil
	}
	return isNumber
}

// form describes the values that type t accepts.
func form(t reflect.Type) string {
	if t == reflect.TypeFor[component.ID]() {
		return "the ID of a component, as in file_storage/main"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string in quotes"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false, without quotes"
	case reflect.Map:
		return "a map"
	case reflect.Struct:
		fields := map[string]reflect.Type{}
		addFields(fields, t)
		return "a map with keys of " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
	}
	return allowed(reflect.Zero(t).Interface())
}

// number converts a number of any type to a float64. Large integers are rounded. The rounding error
// is much smaller than the change that an overflow during decoding would cause.
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

// The allowed function describes the numbers that are valid for the type of the given value. If the
// type has its own notation, the type's Notation method describes that notation.
func allowed(value any) string {
	switch value := value.(type) {
	case interface{ Notation() string }:
		return value.Notation()
	case time.Duration:
		return "a duration with its unit, as in 10s"
	case float64:
		return "a number"
	}
	return fmt.Sprintf("a whole number of at most %d bits", reflect.TypeOf(value).Bits())
}
