// Package price reads price lists, which contain the hourly prices of GPU boards.
package price

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// maxBytes is the maximum size of a price list.
const maxBytes = 1 << 20

// List is a price list.
type List struct {
	// Currency is an ISO 4217 code.
	Currency string `yaml:"currency"`
	// Prices contains the prices of boards. For each board, the first matching entry is used.
	Prices []Price `yaml:"prices"`
}

// Price is the hourly price of a board. Exactly one of Model, NodeLabel, and HostType is set.
type Price struct {
	// Model is the board's hw.model. Model comparison ignores case and treats spaces as dashes.
	Model string `yaml:"model"`
	// NodeLabel contains node labels. The entry matches only if the node has all labels in
	// NodeLabel.
	NodeLabel map[string]string `yaml:"node_label"`
	// HostType is the node's instance type.
	HostType string `yaml:"host_type"`
	// Price is the price per hour, in the currency of the list.
	Price *float64 `yaml:"price"`
}

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

// Parse parses a price list. The returned error describes every invalid entry.
func Parse(text []byte) (*List, error) {
	l := &List{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(l); err != nil && !errors.Is(err, io.EOF) {
		return nil, explain(err)
	}
	if err := d.Decode(&List{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the price list has several YAML documents: must have exactly one")
	}
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(currencyForm.MatchString(l.Currency), "currency is %q: must be an ISO 4217 code, such as USD", l.Currency)
	check(len(l.Prices) > 0, "prices is empty: must have at least one entry")
	for i := range l.Prices {
		p := &l.Prices[i]
		criteria := 0
		for _, isSet := range []bool{p.Model != "", len(p.NodeLabel) > 0, p.HostType != ""} {
			if isSet {
				criteria++
			}
		}
		check(criteria == 1, "prices[%d] has %d of model, node_label, and host_type: must have exactly one", i, criteria)
		if p.Price == nil {
			check(false, "prices[%d]::price is missing: must be the hourly price in %s, or 0 for a free board", i, l.Currency)
		} else {
			check(*p.Price >= 0 && !math.IsInf(*p.Price, 0), "prices[%d]::price is %v: must be a finite number, at least 0", i, *p.Price)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	for i := range l.Prices {
		l.Prices[i].Model = catalogue.FoldModel(l.Prices[i].Model)
	}
	return l, nil
}

var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type price\.(\w+)`)
	wrongType  = regexp.MustCompile("cannot unmarshal !!\\w+ ?(`.*`)? into (\\S+)")
	// keys contains the allowed YAML keys for each type.
	keys = map[string]string{"List": "currency, prices", "Price": "model, node_label, host_type, price"}
	// forms maps the Go types in the decoder's errors to descriptions.
	forms = map[string]string{
		"price.List": "a map with the keys currency and prices", "[]price.Price": "a list", "price.Price": "a map with a price",
		"map[string]string": "a map of labels", "string": "a string", "float64": "a number",
	}
)

// explain rewrites the decoder's errors so that the errors describe the price list instead of Go
// types.
func explain(err error) error {
	wrong, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return err
	}
	var errs []error
	for _, text := range wrong.Errors {
		if m := unknownKey.FindStringSubmatch(text); m != nil {
			text = strings.Replace(text, m[0], fmt.Sprintf("%s is unknown: must be one of %s", m[1], keys[m[2]]), 1)
		}
		if m := wrongType.FindStringSubmatch(text); len(m) > 2 && forms[m[2]] != "" {
			text = strings.Replace(text, m[0], strings.TrimSpace(m[1]+" must be "+forms[m[2]]), 1)
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// PriceOf returns the hourly price of a board. If the list contains no price for the board, PriceOf
// returns false. The model parameter is the model name that the exporter reports. The label
// function returns the value of a node label.
func (l *List) PriceOf(model, hostType string, label func(key string) string) (float64, bool) {
	if l == nil {
		return 0, false
	}
	model = catalogue.FoldModel(model)
	for i := range l.Prices {
		if p := &l.Prices[i]; p.matches(model, hostType, label) {
			return *p.Price, true
		}
	}
	return 0, false
}

func (p *Price) matches(model, hostType string, label func(string) string) bool {
	switch {
	case p.Model != "":
		return p.Model == model
	case p.HostType != "":
		return p.HostType == hostType
	}
	for key, value := range p.NodeLabel {
		if label(key) != value {
			return false
		}
	}
	return true
}

// File is a price list that is stored in a file. The file can change.
type File struct {
	Path string

	text []byte               // text is the newest version of the price list, which may be invalid.
	err  error                // err describes why the newest version is invalid.
	list atomic.Pointer[List] // list is the last valid price list.
}

// List returns the last valid price list, or nil if no valid price list has been read. List may be
// called while Read is running.
func (f *File) List() *List { return f.list.Load() }

// Read reads the file again. If Read returns an error, the last valid price list stays in use. Read
// must not be called concurrently.
func (f *File) Read() error {
	text, err := read(f.Path)
	if err != nil {
		return err
	}
	if f.text != nil && bytes.Equal(text, f.text) {
		return f.err
	}
	list, err := Parse(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.Path, err)
	} else {
		f.list.Store(list)
	}
	f.text, f.err = text, err
	return err
}

func read(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // The path comes from the configuration.
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && len(text) > maxBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxBytes)
	}
	return text, err
}
