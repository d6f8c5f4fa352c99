package componenthelper_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var self = component.MustNewID("gpu_power")

// open opens the state of the gpu_power component in a storage extension.
func open(host component.Host) (*componenthelper.State, error) {
	return componenthelper.OpenState(context.Background(), host, &storagetest.ID, component.KindProcessor, self, componenthelper.StateOptions{Version: 1})
}

// host is a host with one extension.
type host struct{ extension component.Component }

func (h host) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{storagetest.ID: h.extension}
}

func TestOpenReportsTheProblemOfTheExtension(t *testing.T) {
	_, err := open(componenttest.NewNopHost())
	require.EqualError(t, err, `storage is "memory_storage": must be an extension that service::extensions lists`)
	_, err = open(host{struct {
		component.StartFunc
		component.ShutdownFunc
	}{}})
	require.EqualError(t, err, `storage is "memory_storage": must be a storage extension`)
}

func TestOneComponentInTwoPipelinesHasNoStorage(t *testing.T) {
	m := storagetest.NewMemory(nil)
	first, err := open(m)
	require.NoError(t, err)
	_, err = open(m)
	require.EqualError(t, err, `storage "memory_storage": gpu_power is in more than one pipeline: must be in one while it has a storage, so define one for each pipeline, as gpu_power/2`)

	for _, other := range []struct {
		kind component.Kind
		id   component.ID
	}{{component.KindExporter, self}, {component.KindProcessor, component.MustNewIDWithName("gpu_power", "2")}} {
		s, err := componenthelper.OpenState(t.Context(), m, &storagetest.ID, other.kind, other.id, componenthelper.StateOptions{})
		require.NoError(t, err)
		require.NoError(t, s.Close(t.Context()))
	}
	require.NoError(t, first.Close(t.Context()))
	again, err := open(m)
	require.NoError(t, err, "a collector that starts anew in the same process")
	require.NoError(t, first.Close(t.Context()), "a second time")
	_, err = open(m)
	require.ErrorContains(t, err, "more than one pipeline")
	require.NoError(t, again.Close(t.Context()))
}

func TestAStorageNeedNotBeAPointer(t *testing.T) {
	in := host{struct {
		*storagetest.Memory
		_ func() // makes the struct incomparable
	}{Memory: storagetest.NewMemory(nil)}}
	for range 2 {
		_, err := open(in)
		require.NoError(t, err)
	}
}

// The refusing type is a storage extension that does not return a client.
type refusing struct {
	*storagetest.Memory
	err error
}

func (r *refusing) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	if r.err != nil {
		return nil, r.err
	}
	return r.Memory.GetClient(ctx, kind, id, name)
}

func TestAComponentWhoseStorageDidNotOpenMayTryAgain(t *testing.T) {
	extension := &refusing{storagetest.NewMemory(nil), errors.New("the disk is full")}
	_, err := open(host{extension})
	require.EqualError(t, err, `storage "memory_storage": the disk is full`)
	extension.err = nil
	s, err := open(host{extension})
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
}

func TestAStoredValueIsRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		s, err := open(storagetest.NewMemory(nil))
		require.NoError(t, err)
		want := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Byte())).Draw(t, "values")
		for key, value := range want {
			before := slices.Clone(value)
			require.NoError(t, s.Write(ctx, map[string]any{key: value}))
			require.Equal(t, before, value, "the caller's own")
		}
		for key, value := range want {
			var got []byte
			found, err := s.Load(ctx, key, &got)
			require.NoError(t, err)
			require.True(t, found)
			require.True(t, slices.Equal(value, got))
			require.NoError(t, s.Write(ctx, nil, key))
			found, err = s.Load(ctx, key, &got)
			require.NoError(t, err)
			require.False(t, found, "what is not stored")
		}
	})
}

// The checksum detects flipped bits and values that were stored under a different key.
func TestWhatWasNotStoredIsDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		m := storagetest.NewMemory(map[string]string{"other": "1"})
		s, err := open(m)
		require.NoError(t, err)
		require.NoError(t, s.Write(ctx, map[string]any{"xid": rapid.SliceOf(rapid.Byte()).Draw(t, "value")}))
		stored := []byte(m.Raw()["xid"])
		switch rapid.SampledFrom([]string{"bit", "cut", "other key"}).Draw(t, "damage") {
		case "bit":
			at := rapid.IntRange(0, len(stored)*8-1).Draw(t, "at")
			stored[at/8] ^= 1 << (at % 8)
		case "cut":
			stored = stored[:rapid.IntRange(0, len(stored)-1).Draw(t, "length")]
		case "other key":
			stored = []byte(m.Raw()["other"])
		}
		m.PutRaw("xid", string(stored))
		before := m.Raw()

		var got []byte
		found, err := s.Load(ctx, "xid", &got)
		require.ErrorIs(t, err, componenthelper.ErrDamaged)
		require.ErrorContains(t, err, "xid: ")
		assert.False(t, found)
		assert.Nil(t, got)
		assert.Equal(t, before, m.Raw(), "nothing is mended")
	})
}

type number struct {
	Version int     `json:"version"`
	Number  float64 `json:"number"`
}

func TestLoadDecodesTheStoredValueOrReturnsAnError(t *testing.T) {
	m := storagetest.NewMemory(map[string]string{"good": `{"version":1,"number":3}`})
	s, err := open(m)
	require.NoError(t, err)
	var value number
	found, err := s.Load(t.Context(), "none", &value)
	require.NoError(t, err)
	assert.False(t, found)
	found, err = s.Load(t.Context(), "good", &value)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, number{1, 3}, value)
	for text, want := range map[string]error{
		"":                           componenthelper.ErrDamaged,
		"x":                          componenthelper.ErrDamaged,
		`{"version":"1"}`:            componenthelper.ErrDamaged,
		`{"version":1,"number":"3"}`: componenthelper.ErrDamaged,
		`{"version":2,"number":"3"}`: componenthelper.ErrVersion,
		`{"number":3}`:               componenthelper.ErrVersion,
		`null`:                       componenthelper.ErrVersion,
	} {
		m.Put("bad", text)
		found, err = s.Load(t.Context(), "bad", &value)
		require.ErrorIs(t, err, want, text)
		require.ErrorContains(t, err, "bad: ")
		assert.False(t, found)
	}
}

// numbers is a component that stores one number for each place.
type numbers struct {
	state  *componenthelper.State
	values map[string]float64
	counts map[string]int // number of failures by operation
	logs   *observer.ObservedLogs
}

// startNumbers starts a numbers component. The component rejects stored numbers below 0.
func startNumbers(t *testing.T, m *storagetest.Memory) *numbers {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	n := &numbers{values: map[string]float64{}, counts: map[string]int{}, logs: logs}
	var err error
	n.state, err = componenthelper.OpenState(t.Context(), m, &storagetest.ID, component.KindProcessor, self, componenthelper.StateOptions{
		Version: 1, Unusable: "Some numbers cannot be used.",
		Failure: componenthelper.Failure{Logger: zap.New(core), Fails: "Numbers cannot be stored.", Works: "Numbers can be stored again."},
		Count:   func(_ context.Context, operation string) { n.counts[operation]++ },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.state.Close(context.Background())) })
	componenthelper.Restore(t.Context(), n.state, func(place string, stored *number) error {
		if stored.Number < 0 {
			return errors.New("below 0")
		}
		n.values[place] = stored.Number
		return nil
	})
	return n
}

// The set method changes the number of a place.
func (n *numbers) set(place string, value float64) {
	n.values[place] = value
	n.state.Changed(place)
}

func (n *numbers) forget(place string) {
	delete(n.values, place)
	n.state.Changed(place)
}

func (n *numbers) save() error {
	return n.state.Save(context.Background(), n.value)
}

func (n *numbers) value(place string) any {
	if value, known := n.values[place]; known {
		return number{1, value}
	}
	return nil
}

func (n *numbers) messages() []string {
	var messages []string
	for _, e := range n.logs.All() {
		messages = append(messages, e.Message)
	}
	return messages
}

func TestAPlaceIsWrittenWhenItChangesAndDeletedWhenItIsRemoved(t *testing.T) {
	m := storagetest.NewMemory(nil)
	n := startNumbers(t, m)
	require.NoError(t, n.save())
	assert.Zero(t, m.Writes(), "nothing changed")
	n.set("/n1", 1)
	n.set("/n2", 2)
	require.NoError(t, n.save())
	want := map[string]string{
		"places":    `{"version":1,"places":["/n1","/n2"]}`,
		"place//n1": `{"version":1,"number":1}`,
		"place//n2": `{"version":1,"number":2}`,
	}
	assert.Equal(t, want, m.Values())
	m.Put("place//n1", "untouched")
	n.set("/n2", 3)
	require.NoError(t, n.save())
	want["place//n1"], want["place//n2"] = "untouched", `{"version":1,"number":3}`
	assert.Equal(t, want, m.Values())
	n.forget("/n1")
	n.forget("/n3") // no value for this place was ever stored
	require.NoError(t, n.save())
	assert.Equal(t, map[string]string{
		"places": `{"version":1,"places":["/n2"]}`, "place//n2": `{"version":1,"number":3}`,
	}, m.Values())
	assert.Equal(t, 3, m.Writes(), "each in one batch")

	require.NoError(t, n.state.Close(t.Context()))
	assert.Equal(t, map[string]float64{"/n2": 3}, startNumbers(t, m).values)
}

func TestAFailedWriteIsLoggedOnceCountedAndRetried(t *testing.T) {
	m := storagetest.NewMemory(nil)
	n := startNumbers(t, m)
	m.Fail(errors.New("disk full"))
	n.set("/n1", 1)
	require.ErrorContains(t, n.save(), "disk full")
	n.set("/n2", 2)
	require.ErrorContains(t, n.save(), "disk full")
	m.Fail(nil)
	require.NoError(t, n.save(), "without another change")
	assert.Len(t, m.Values(), 3)
	assert.Equal(t, []string{"Numbers cannot be stored.", "Numbers can be stored again."}, n.messages())
	assert.Equal(t, map[string]int{"write": 2}, n.counts)
}

func TestWhatChangedIsSavedInTheBackgroundUntilItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		n := startNumbers(t, m)
		var lock sync.Mutex
		stop := n.state.SaveEvery(t.Context(), time.Minute, func(key string) any {
			lock.Lock()
			defer lock.Unlock()
			return n.value(key)
		})
		defer stop()
		set := func(place string, value float64) {
			lock.Lock()
			defer lock.Unlock()
			n.set(place, value)
		}
		minute := func() {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		minute()
		assert.Zero(t, m.Writes(), "nothing changed")
		set("/n1", 1)
		set("/n2", 1)
		m.Fail(errors.New("disk full"))
		minute()
		set("/n2", 2)
		m.Fail(nil)
		minute()
		want := map[string]string{
			"places":    `{"version":1,"places":["/n1","/n2"]}`,
			"place//n1": `{"version":1,"number":1}`, "place//n2": `{"version":1,"number":2}`,
		}
		assert.Equal(t, want, m.Values(), "also what changed before the write that failed")
		minute()
		assert.Equal(t, 2, m.Writes())
		set("/n1", 3)
		stop()
		minute()
		assert.Equal(t, want, m.Values(), "nothing is written after the stop")
		require.NoError(t, n.save())
		assert.Equal(t, `{"version":1,"number":3}`, m.Values()["place//n1"])
	})
}

// A component stores a change before it sends the data that depends on the change, so that it does
// not send the data again after a restart.
func TestASaveReturnsAfterItsOwnChangesAreWritten(t *testing.T) {
	m := storagetest.NewMemory(nil)
	s, err := open(m)
	require.NoError(t, err)
	var saving sync.WaitGroup
	for node := range 4 {
		saving.Go(func() {
			for n := range 100 {
				place := fmt.Sprintf("n%d/%d", node, n)
				assert.NoError(t, s.Save(context.Background(), func(string) any { return number{1, 1} }, place))
				assert.Contains(t, m.Values(), "place/"+place)
			}
		})
	}
	saving.Wait()
	require.NoError(t, s.Close(t.Context()))
}

// The blocked type is a storage extension whose writes wait until the release channel is closed.
type blocked struct {
	*storagetest.Memory
	writing, release chan struct{}
}

func (b *blocked) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	c, err := b.Memory.GetClient(ctx, kind, id, name)
	return &blockedClient{c, b}, err
}

type blockedClient struct {
	storage.Client
	of *blocked
}

func (c *blockedClient) Batch(ctx context.Context, ops ...*storage.Operation) error {
	close(c.of.writing)
	<-c.of.release
	return c.Client.Batch(ctx, ops...)
}

// Slow storage does not delay batches that change nothing.
func TestASaveWithoutChangesDoesNotWaitForTheWriteOfAnother(t *testing.T) {
	b := &blocked{storagetest.NewMemory(nil), make(chan struct{}), make(chan struct{})}
	s, err := open(host{b})
	require.NoError(t, err)
	save := func(changed ...string) error {
		return s.Save(context.Background(), func(string) any { return number{1, 1} }, changed...)
	}
	var saving sync.WaitGroup
	saving.Go(func() { assert.NoError(t, save("n1")) })
	<-b.writing
	require.NoError(t, save())
	assert.Empty(t, b.Values(), "the other write has not ended")
	close(b.release)
	saving.Wait()
	assert.Len(t, b.Values(), 2, "the place and the list of places")
	require.NoError(t, s.Close(t.Context()))
}

func TestAValueThatJSONCannotRepresentDoesNotAffectOthers(t *testing.T) {
	m := storagetest.NewMemory(nil)
	n := startNumbers(t, m)
	n.set("/n1", math.NaN())
	n.set("/n2", 2)
	require.ErrorContains(t, n.save(), "place//n1: ")
	assert.Equal(t, `{"version":1,"number":2}`, m.Values()["place//n2"])
	n.set("/n1", 1)
	require.NoError(t, n.save())
	assert.Equal(t, `{"version":1,"number":1}`, m.Values()["place//n1"])
}

func TestUnusablePlacesAreCountedLoggedOnceAndDeleted(t *testing.T) {
	m := storagetest.NewMemory(map[string]string{
		"places":           `{"version":1,"places":["damaged","missing","refused","good","good"]}`,
		"place/damaged":    `{"version":1,`,
		"place/refused":    `{"version":1,"number":-1}`,
		"place/good":       `{"version":1,"number":1}`,
		"place/not listed": `{"version":1,"number":1}`,
	})
	n := startNumbers(t, m)
	assert.Equal(t, map[string]float64{"good": 1}, n.values)
	require.Equal(t, []string{"Some numbers cannot be used."}, n.messages())
	assert.Equal(t, "place/damaged: the stored value is damaged: unexpected end of JSON input\n"+
		"place/refused: the stored value is damaged: below 0", n.logs.All()[0].ContextMap()["error"])
	assert.Equal(t, map[string]int{"read": 2}, n.counts)
	require.NoError(t, n.save())
	assert.Equal(t, map[string]string{
		"places": `{"version":1,"places":["good"]}`, "place/good": `{"version":1,"number":1}`, "place/not listed": `{"version":1,"number":1}`,
	}, m.Values())
}

func TestAListOfPlacesThatCannotBeReadIsWrittenAgain(t *testing.T) {
	m := storagetest.NewMemory(map[string]string{"places": "x"})
	n := startNumbers(t, m)
	assert.Equal(t, []string{"Some numbers cannot be used."}, n.messages())
	n.set("/n1", 1)
	require.NoError(t, n.save())
	assert.JSONEq(t, `{"version":1,"places":["/n1"]}`, m.Values()["places"])
}

func TestWithoutAStorageNothingIsKept(t *testing.T) {
	s, err := componenthelper.OpenState(t.Context(), componenttest.NewNopHost(), nil, component.KindProcessor, self, componenthelper.StateOptions{})
	require.NoError(t, err)
	componenthelper.Restore(t.Context(), s, func(string, *number) error { return errors.New("called") })
	s.Changed("/n1")
	require.NoError(t, s.Save(t.Context(), func(string) any { return number{1, 1} }))
	require.NoError(t, s.Close(t.Context()))
}

func TestAClosedStateStoresNothing(t *testing.T) {
	m := storagetest.NewMemory(nil)
	n := startNumbers(t, m)
	require.NoError(t, n.state.Close(t.Context()))
	assert.True(t, m.Closed())
	n.set("/n1", 1)
	require.NoError(t, n.save())
	assert.Empty(t, m.Values())
}

// The current version can read state that earlier versions of the program stored.
func TestTheStoredFormStays(t *testing.T) {
	assert.Equal(t, "value\x44\x89\x00\xe8", string(componenthelper.Seal("key", []byte("value"))))
}
