package storageclient

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a storage whose content a test may damage.
type memory struct {
	component.StartFunc
	component.ShutdownFunc
	content map[string][]byte
	refuses bool
}

func (m *memory) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	if m.refuses {
		return nil, errors.New("the disk is full")
	}
	return client{m}, nil
}

type client struct{ *memory }

func (c client) Get(_ context.Context, key string) ([]byte, error) { return c.content[key], nil }

func (c client) Set(_ context.Context, key string, value []byte) error {
	c.content[key] = value
	return nil
}

func (c client) Delete(_ context.Context, key string) error {
	delete(c.content, key)
	return nil
}

func (c client) Batch(ctx context.Context, ops ...*storage.Operation) error {
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value, _ = c.Get(ctx, op.Key)
		case storage.Set:
			_ = c.Set(ctx, op.Key, op.Value)
		case storage.Delete:
			_ = c.Delete(ctx, op.Key)
		}
	}
	return nil
}

func (client) Close(context.Context) error { return nil }

type host struct {
	component.Host
	extensions map[component.ID]component.Component
}

func (h host) GetExtensions() map[component.ID]component.Component { return h.extensions }

var (
	ext  = component.MustNewID("file_storage")
	self = component.MustNewID("gpu_window")
)

func open(t require.TestingT) (storage.Client, *memory) {
	m := &memory{content: map[string][]byte{}}
	c, err := Open(context.Background(), host{extensions: map[component.ID]component.Component{ext: m}}, ext, component.KindProcessor, self)
	require.NoError(t, err)
	return c, m
}

func TestOpenSaysWhatIsWrongWithTheExtension(t *testing.T) {
	_, err := Open(t.Context(), componenttest.NewNopHost(), ext, component.KindProcessor, self)
	require.EqualError(t, err, `storage is "file_storage": must be an extension of the service`)
	other := struct {
		component.StartFunc
		component.ShutdownFunc
	}{}
	_, err = Open(t.Context(), host{extensions: map[component.ID]component.Component{ext: other}}, ext, component.KindProcessor, self)
	require.EqualError(t, err, `storage is "file_storage": must be a storage extension`)
}

func TestOneComponentInTwoPipelinesHasNoStorage(t *testing.T) {
	m := &memory{content: map[string][]byte{}}
	in := host{extensions: map[component.ID]component.Component{ext: m}}
	first, err := Open(t.Context(), in, ext, component.KindProcessor, self)
	require.NoError(t, err)
	_, err = Open(t.Context(), in, ext, component.KindProcessor, self)
	require.EqualError(t, err, `storage "file_storage": gpu_window is in more than one pipeline: must be in one while it has a storage, so define one for each pipeline, as gpu_window/2`)

	for _, other := range []struct {
		kind component.Kind
		id   component.ID
	}{{component.KindExporter, self}, {component.KindProcessor, component.MustNewIDWithName("gpu_window", "2")}} {
		c, err := Open(t.Context(), in, ext, other.kind, other.id)
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
	}
	require.NoError(t, first.Close(t.Context()))
	again, err := Open(t.Context(), in, ext, component.KindProcessor, self)
	require.NoError(t, err, "a collector that starts anew in the same process")
	require.NoError(t, first.Close(t.Context()), "a second time")
	_, err = Open(t.Context(), in, ext, component.KindProcessor, self)
	require.ErrorContains(t, err, "more than one pipeline")
	require.NoError(t, again.Close(t.Context()))
}

// value is a storage that is no pointer and cannot be compared.
type value struct {
	*memory
	_ func()
}

func TestAStorageNeedNotBeAPointer(t *testing.T) {
	in := host{extensions: map[component.ID]component.Component{ext: value{memory: &memory{}}}}
	for range 2 {
		_, err := Open(t.Context(), in, ext, component.KindProcessor, self)
		require.NoError(t, err)
	}
}

func TestAComponentWhoseStorageDidNotOpenMayTryAgain(t *testing.T) {
	m := &memory{content: map[string][]byte{}, refuses: true}
	in := host{extensions: map[component.ID]component.Component{ext: m}}
	_, err := Open(t.Context(), in, ext, component.KindProcessor, self)
	require.EqualError(t, err, `storage "file_storage": the disk is full`)
	m.refuses = false
	c, err := Open(t.Context(), in, ext, component.KindProcessor, self)
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
}

func TestWhatWasStoredComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := open(t)
		ctx := context.Background()
		want := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Byte())).Draw(t, "values")
		for key, value := range want {
			before := slices.Clone(value)
			if rapid.Bool().Draw(t, "batch") {
				require.NoError(t, c.Batch(ctx, storage.SetOperation(key, value)))
			} else {
				require.NoError(t, c.Set(ctx, key, value))
			}
			require.Equal(t, before, value, "the caller's own")
		}
		for key, value := range want {
			got, err := c.Get(ctx, key)
			require.NoError(t, err)
			require.NotNil(t, got)
			require.True(t, slices.Equal(value, got))
			require.NoError(t, c.Delete(ctx, key))
			got, err = c.Get(ctx, key)
			require.NoError(t, err)
			require.Nil(t, got, "what is not stored")
		}
	})
}

// No bit may turn, and no value may turn up under another key.
func TestWhatWasNotStoredIsDamage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, m := open(t)
		ctx := context.Background()
		require.NoError(t, c.Batch(ctx, storage.SetOperation("xid", rapid.SliceOf(rapid.Byte()).Draw(t, "value")), storage.SetOperation("whole", []byte("1"))))
		stored := slices.Clone(m.content["xid"])
		switch rapid.SampledFrom([]string{"bit", "cut", "other key"}).Draw(t, "damage") {
		case "bit":
			at := rapid.IntRange(0, len(stored)*8-1).Draw(t, "at")
			stored[at/8] ^= 1 << (at % 8)
		case "cut":
			stored = stored[:rapid.IntRange(0, len(stored)-1).Draw(t, "length")]
		case "other key":
			stored = slices.Clone(m.content["whole"])
		}
		m.content["xid"] = stored
		before := maps.Clone(m.content)

		damaged, whole := storage.GetOperation("xid"), storage.GetOperation("whole")
		require.ErrorIs(t, c.Batch(ctx, damaged, whole), ErrDamaged)
		assert.Nil(t, damaged.Value)
		assert.Equal(t, []byte("1"), whole.Value)
		_, err := c.Get(ctx, "xid")
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "xid: ")
		assert.Equal(t, before, m.content, "nothing is mended")
	})
}

func TestLoadDecodesWhatIsStoredOrSaysThatItCannot(t *testing.T) {
	c, m := open(t)
	var value struct{ Version int }
	found, err := Load(t.Context(), c, "none", &value)
	require.NoError(t, err)
	assert.False(t, found)
	require.NoError(t, c.Set(t.Context(), "good", []byte(`{"version":3}`)))
	found, err = Load(t.Context(), c, "good", &value)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, 3, value.Version)
	for _, text := range []string{"", "x", `{"version":"3"}`} {
		require.NoError(t, c.Set(t.Context(), "bad", []byte(text)))
		found, err = Load(t.Context(), c, "bad", &value)
		require.ErrorIs(t, err, ErrDamaged)
		require.ErrorContains(t, err, "bad: ")
		assert.False(t, found)
	}
	m.content["good"][0] ^= 1
	_, err = Load(t.Context(), c, "good", &value)
	require.ErrorIs(t, err, ErrDamaged)
}
