package componenthelper

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
)

var (
	// ErrDamaged means that the value that was read from storage is not the value that was written
	// under the same key.
	ErrDamaged = errors.New("the stored value is damaged")
	// ErrVersion means that a stored value has a version that the component does not support.
	ErrVersion = errors.New("the stored value is not of this version")
)

// StateOptions defines how a component stores its state and which messages it logs.
type StateOptions struct {
	// Version is the version of the stored JSON. The "version" field of the JSON contains Version.
	// Stored values with a different version are not used.
	Version int
	// Key is the storage key of a component that stores only one value. If Key is empty, the
	// component stores one value for each place. The component chooses the names of places, for
	// example the names of nodes.
	Key string
	// Unusable is the log message for stored values that cannot be used.
	Unusable string
	// Failure logs a message when writes start to fail and when they succeed again.
	Failure Failure
	// Count counts a failed operation, such as "read" or "write", in a self-metric.
	Count func(ctx context.Context, operation string)
}

// State is the state that a component keeps in a storage extension, so that the state survives a
// restart. The state consists of key-value pairs. If no storage extension is configured, the State
// is nil and stores nothing. [State.Changed] and [State.Save] are safe for concurrent use. The
// other methods are not safe for concurrent use.
//
// Each stored value ends with a CRC-32 of the key and the value, so that damaged values are
// detected. The storage key for the value of a place is place/<name>. A storage extension cannot
// list its keys, so the key "places" contains a list of the places' names.
type State struct {
	client  storage.Client // nil if the State is closed
	release func()
	options StateOptions

	saving sync.Mutex
	listed map[string]bool // places in the stored list of places

	mu      sync.Mutex
	changed map[string]bool // keys that must be written
}

const placesKey = "places"

type storedPlaces struct {
	Version int      `json:"version"`
	Places  []string `json:"places"`
}

// OpenState returns the state of a component in the storage extension ext, or nil if ext is nil.
// The kind and owner parameters identify the component. Errors name the extension and describe the
// problem. A component must close its State before it calls OpenState again.
func OpenState(ctx context.Context, host component.Host, ext *component.ID, kind component.Kind, owner component.ID, o StateOptions) (*State, error) {
	if ext == nil {
		return nil, nil
	}
	found, ok := host.GetExtensions()[*ext]
	if !ok {
		return nil, fmt.Errorf("storage is %q: must be an extension that service::extensions lists", ext)
	}
	extension, ok := found.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage is %q: must be a storage extension", ext)
	}
	release, free := take(user{extension, kind, owner})
	if !free {
		return nil, fmt.Errorf("storage %q: %s is in more than one pipeline: must be in one while it has a storage, so define one for each pipeline, as %[2]s/2", ext, owner)
	}
	client, err := extension.GetClient(ctx, kind, owner, "")
	if err != nil {
		release()
		return nil, fmt.Errorf("storage %q: %w", ext, err)
	}
	return &State{client: client, release: release, options: o, changed: map[string]bool{}, listed: map[string]bool{}}, nil
}

// users contains the components that have an open state. If a component is in several pipelines,
// its instances have the same ID and would overwrite each other's values in storage.
var users sync.Map

type user struct {
	storage storage.Extension
	kind    component.Kind
	id      component.ID
}

// The take function registers a user until the returned release function is called. If the user is
// already registered, the second result is false.
func take(u user) (release func(), free bool) {
	if !reflect.ValueOf(u.storage).Comparable() { // this storage extension cannot be part of a map key
		return func() {}, true
	}
	_, taken := users.LoadOrStore(u, nil)
	return func() { users.Delete(u) }, !taken
}

func (s *State) open() bool { return s != nil && s.client != nil }

// Close closes the state. Close may be called more than once.
func (s *State) Close(ctx context.Context) error {
	if !s.open() {
		return nil
	}
	defer s.release()
	client := s.client
	s.client = nil
	return client.Close(ctx)
}

// Restore calls the use function for each stored value: either for the component's only value, or
// for the value of each place. Restore counts the values that cannot be read or for which the use
// function returns an error, and logs these values in one line. The next [State.Save] replaces or
// deletes the unusable values.
func Restore[T any](ctx context.Context, s *State, use func(key string, stored *T) error) {
	if !s.open() {
		return
	}
	keys := []string{s.options.Key}
	var errs []error
	if s.options.Key == "" {
		var list storedPlaces
		if _, err := s.Load(ctx, placesKey, &list); err != nil {
			errs = append(errs, err)
		}
		for _, name := range list.Places {
			s.listed[name] = true
		}
		keys = slices.Sorted(maps.Keys(s.listed))
	}
	for _, key := range keys {
		var stored T
		found, err := s.Load(ctx, s.at(key), &stored)
		if found {
			if err = use(key, &stored); err != nil {
				err = fmt.Errorf("%s: %w: %w", s.at(key), ErrDamaged, err)
			}
		}
		if err != nil {
			errs = append(errs, err)
		}
		if err != nil || !found && s.listed[key] {
			s.Changed(key)
		}
	}
	s.Unusable(ctx, "read", errs...)
}

// Changed records that the next [State.Save] must write the value of the given key or place.
func (s *State) Changed(key string) {
	if s.open() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed[key] = true
	}
}

// SaveEvery saves changes in the background, once per interval, until the returned stop function is
// called. The component must not modify anything that the value function has returned, because
// SaveEvery writes the returned data to storage without holding the component's locks; see
// [stage.Nodes.Stored]. If a write has started, the stop function waits until the write has ended.
//
// [stage.Nodes.Stored]: github.com/otelcol-gpu/otelcol-gpu/internal/stage
func (s *State) SaveEvery(ctx context.Context, interval time.Duration, value func(key string) any) (stop func()) {
	if !s.open() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var saving sync.WaitGroup
	saving.Go(func() {
		EveryTick(ctx, interval, func(time.Time) {
			_ = s.Save(ctx, value) // Save logs, counts, and retries failures
		})
	})
	return func() {
		cancel()
		saving.Wait()
	}
}

// Save writes the values of the given changed keys, and of all other keys that have changed since
// the last successful Save, in one batch. The value function returns the value to store for a key.
// If the value function returns nil, the place no longer exists, and Save deletes the place's
// stored value. If changed keys are given and Save returns no error, their values have been written.
func (s *State) Save(ctx context.Context, value func(key string) any, changed ...string) error {
	if !s.open() || len(changed) == 0 && !s.hasChanges() {
		return nil
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	for _, key := range changed {
		s.Changed(key)
	}
	return s.write(ctx, s.prepare(value))
}

func (s *State) hasChanges() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.changed) > 0
}

// pending is a write that is ready to be sent to the storage extension. A pending write shares no
// memory with the component's values.
type pending struct {
	changed    map[string]bool
	listed     map[string]bool // places in the stored list of places after the write
	operations []*storage.Operation
	err        error // error that lists the values that are not written because they could not be encoded
}

// prepare returns the write for the pending changes, or nil if there are none.
func (s *State) prepare(value func(key string) any) *pending {
	s.mu.Lock()
	changed := s.changed
	s.changed = map[string]bool{}
	s.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	set, listed := map[string]any{}, maps.Clone(s.listed)
	var gone []string
	for key := range changed {
		if v := value(key); v != nil {
			set[s.at(key)], listed[key] = v, true
		} else {
			gone = append(gone, s.at(key))
			delete(listed, key)
		}
	}
	if s.options.Key == "" && !maps.Equal(listed, s.listed) {
		set[placesKey] = storedPlaces{s.options.Version, slices.Sorted(maps.Keys(listed))}
	}
	operations, err := encode(set, gone)
	return &pending{changed, listed, operations, err}
}

// write sends a pending write to the storage extension. Values that could not be written remain
// marked as changed.
func (s *State) write(ctx context.Context, w *pending) error {
	if w == nil {
		return nil
	}
	err := errors.Join(w.err, s.client.Batch(ctx, w.operations...))
	if err == nil {
		s.listed = w.listed
	} else {
		s.mu.Lock()
		maps.Copy(s.changed, w.changed)
		s.mu.Unlock()
	}
	s.Done(ctx, "write", err)
	return err
}

// The at method converts a key of the State to a storage key.
func (s *State) at(key string) string {
	if s.options.Key != "" {
		return key
	}
	return "place/" + key
}

// Load reads the value of a storage key. If value is a *[]byte, Load stores the bytes in *value.
// Otherwise, Load decodes the bytes as JSON into *value. Load returns false if storage does not
// contain the key or if an error occurs.
func (s *State) Load(ctx context.Context, key string, value any) (found bool, err error) {
	sealed, err := s.client.Get(ctx, key)
	if err != nil || sealed == nil {
		return false, err
	}
	text, err := Unseal(key, sealed)
	if err != nil {
		return false, err
	}
	if to, ok := value.(*[]byte); ok {
		*to = text
		return true, nil
	}
	var of struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return false, fmt.Errorf("%s: %w: %w", key, ErrDamaged, err)
	}
	if of.Version != s.options.Version {
		return false, fmt.Errorf("%s: %w: version %d", key, ErrVersion, of.Version)
	}
	if err := json.Unmarshal(text, value); err != nil {
		return false, fmt.Errorf("%s: %w: %w", key, ErrDamaged, err)
	}
	return true, nil
}

// Write stores the values in the set map under their storage keys, and deletes the storage keys in
// the gone list, in one batch. Write stores a []byte unchanged and encodes other values as JSON.
// If JSON cannot represent a value, Write omits the value and reports it in the error.
func (s *State) Write(ctx context.Context, set map[string]any, gone ...string) error {
	operations, err := encode(set, gone)
	return errors.Join(err, s.client.Batch(ctx, operations...))
}

// encode returns the storage operations of a batch. The error lists the values that are omitted
// because they cannot be encoded.
func encode(set map[string]any, gone []string) (ops []*storage.Operation, err error) {
	var errs []error
	for key, value := range set {
		text, ok := value.([]byte)
		if !ok {
			var err error
			if text, err = json.Marshal(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
				continue
			}
		}
		ops = append(ops, storage.SetOperation(key, Seal(key, text)))
	}
	for _, key := range gone {
		ops = append(ops, storage.DeleteOperation(key))
	}
	return ops, errors.Join(errs...)
}

// Done counts the operation if it failed. Done logs a message when operations start to fail and
// when they succeed again.
func (s *State) Done(ctx context.Context, operation string, err error) {
	if err != nil {
		s.options.Count(ctx, operation)
	}
	s.options.Failure.Result(err, zap.String("operation", operation))
}

// Unusable counts stored values that cannot be used, and logs them in one line. Unusable ignores
// nil errors.
func (s *State) Unusable(ctx context.Context, operation string, errs ...error) {
	err := errors.Join(errs...)
	if err == nil {
		return
	}
	for _, e := range errs {
		if e != nil {
			s.options.Count(ctx, operation)
		}
	}
	s.options.Failure.Logger.Warn(s.options.Unusable, zap.Error(err))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum computes the checksum of a key and a value. Including the key ensures that a value that
// was stored under a different key is rejected.
func checksum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

// Seal returns the form in which a value is stored: the value followed by its checksum.
func Seal(key string, value []byte) []byte {
	sealed := append(make([]byte, 0, len(value)+crc32.Size), value...)
	return binary.LittleEndian.AppendUint32(sealed, checksum(key, value))
}

// Unseal returns the value without its checksum. If the checksum does not match, Unseal returns
// [ErrDamaged].
func Unseal(key string, sealed []byte) ([]byte, error) {
	size := len(sealed) - crc32.Size
	if size < 0 || checksum(key, sealed[:size]) != binary.LittleEndian.Uint32(sealed[size:]) {
		return nil, fmt.Errorf("%s: %w", key, ErrDamaged)
	}
	return sealed[:size], nil
}
