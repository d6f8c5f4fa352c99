package filestorageextension

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

var owner = component.MustNewIDWithName("gpu_window", "a b")

// The open function returns a client whose file is in the directory dir.
func open(ctx context.Context, dir string, recreate bool, logger *zap.Logger) (storage.Client, error) {
	return openAs(ctx, logger, func(cfg *filestorage.Config) { cfg.Directory, cfg.Recreate = dir, recreate })
}

// The openAs function returns a client. The change function changes the default settings.
func openAs(ctx context.Context, logger *zap.Logger, change func(*filestorage.Config)) (storage.Client, error) {
	factory := NewFactory()
	cfg := factory.CreateDefaultConfig().(*filestorage.Config)
	change(cfg)
	set := extensiontest.NewNopSettings(factory.Type())
	set.Logger = logger
	made, err := factory.Create(ctx, set, cfg)
	if err != nil {
		return nil, err
	}
	if err := made.Start(ctx, componenttest.NewNopHost()); err != nil {
		return nil, err
	}
	return made.(storage.Extension).GetClient(ctx, component.KindProcessor, owner, "")
}

// Creates a database that contains values of various sizes, and from which some values were
// deleted.
func used(t *testing.T) (path string, content []byte) {
	t.Helper()
	dir := t.TempDir()
	c, err := open(t.Context(), dir, true, zap.NewNop())
	require.NoError(t, err)
	for i := range 120 {
		require.NoError(t, c.Set(t.Context(), fmt.Sprint("key", i), bytes.Repeat([]byte{byte(i)}, (i%7)*(i%7)*(i%7)*40)))
	}
	for i := 0; i < 120; i += 3 {
		require.NoError(t, c.Delete(t.Context(), fmt.Sprint("key", i)))
	}
	require.NoError(t, c.Close(t.Context()))
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	content, err = os.ReadFile(found[0])
	require.NoError(t, err)
	return found[0], content
}

func zero(b []byte) { clear(b) }

// Kinds of damage that power failures and faulty disks cause.
var damages = map[string]func(b []byte) []byte{
	"empty":           func([]byte) []byte { return nil },
	"some bytes":      func(b []byte) []byte { return b[:100] },
	"half":            func(b []byte) []byte { return b[:len(b)/2] },
	"one meta page":   func(b []byte) []byte { zero(b[:4096]); return b },
	"other meta page": func(b []byte) []byte { zero(b[4096:8192]); return b },
	"both meta pages": func(b []byte) []byte { zero(b[:8192]); return b },
	"page 2":          func(b []byte) []byte { zero(b[8192:12288]); return b },
	"page 3":          func(b []byte) []byte { zero(b[12288:16384]); return b },
	"tail":            func(b []byte) []byte { zero(b[len(b)/2:]); return b },
	"garbage": func(b []byte) []byte {
		random := rand.New(rand.NewPCG(1, 2))
		for i := 0; i < len(b); i += 97 {
			b[i] = byte(random.Uint32())
		}
		return b
	},
}

// Calls every method of the storage client c.
func use(ctx context.Context, t require.TestingT, c storage.Client) {
	walker, ok := c.(storage.Walker)
	require.True(t, ok)
	require.NoError(t, walker.Walk(ctx, func(string, []byte) ([]*storage.Operation, error) { return nil, nil }))
	for i := range 120 {
		_, err := c.Get(ctx, fmt.Sprint("key", i))
		require.NoError(t, err)
		require.NoError(t, c.Set(ctx, fmt.Sprint("key", i), []byte("again")))
	}
	require.NoError(t, c.Close(ctx))
}

func TestADamagedFileIsReportedRenamedAndReplaced(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			path, content := used(t)
			bad := damage(content)
			require.NoError(t, os.WriteFile(path, bad, 0o600))
			core, logs := observer.New(zap.WarnLevel)
			c, err := open(t.Context(), filepath.Dir(path), true, zap.New(core))
			require.NoError(t, err)
			use(t.Context(), t, c)

			renamed, err := filepath.Glob(path + ".*.backup")
			require.NoError(t, err)
			require.Len(t, logs.All(), len(renamed))
			for _, l := range logs.All() {
				assert.Equal(t, path, l.ContextMap()["file"])
				assert.Equal(t, renamed[0], l.ContextMap()["renamed_to"])
				kept, err := os.ReadFile(renamed[0])
				require.NoError(t, err)
				assert.Equal(t, bad, kept)
			}
		})
	}
}

func TestWithoutRecreateTheErrorContainsTheDamagedFile(t *testing.T) {
	path, content := used(t)
	require.NoError(t, os.WriteFile(path, damages["both meta pages"](content), 0o600))
	_, err := open(t.Context(), filepath.Dir(path), false, zap.NewNop())
	require.ErrorIs(t, err, errDamaged)
	assert.ErrorContains(t, err, path)
}

func TestAnUndamagedFileIsKept(t *testing.T) {
	path, before := used(t)
	core, logs := observer.New(zap.InfoLevel)
	c, err := open(t.Context(), filepath.Dir(path), true, zap.New(core))
	require.NoError(t, err)
	v, err := c.Get(t.Context(), "key1")
	require.NoError(t, err)
	assert.Len(t, v, 40)
	assert.Empty(t, logs.All())
	require.NoError(t, c.Close(t.Context()))
	assert.NotEmpty(t, before)
}

// A truncated file must be detected even if only free pages are missing.
func TestATruncatedFileIsDamaged(t *testing.T) {
	path, content := used(t)
	for _, pages := range []int{1, 2, 3, 5, 8} {
		require.NoError(t, os.WriteFile(path, content[:pages*os.Getpagesize()], 0o600))
		require.ErrorIs(t, checkPath(t.Context(), path, 0), errDamaged, "%d of %d pages", pages, len(content)/os.Getpagesize())
	}
}

// If recreate is set, a component must always get a usable file. If recreate is not set, damage
// must result in an error, even if the check function does not detect the damage and bbolt panics.
func TestAfterAnyDamageTheStorageCanBeUsed(t *testing.T) {
	path, content := used(t)
	rapid.Check(t, func(rt *rapid.T) {
		bad := slices.Clone(content)
		for range rapid.IntRange(1, 20).Draw(rt, "changes") {
			from := rapid.IntRange(0, len(bad)/64).Draw(rt, "position") * 64
			change := rapid.SliceOfN(rapid.Byte(), 1, 80).Draw(rt, "bytes")
			copy(bad[min(from, len(bad)):], change)
		}
		if rapid.Bool().Draw(rt, "cut") {
			bad = bad[:rapid.IntRange(0, len(bad)).Draw(rt, "length")]
		}
		// After a panic in bbolt, the database file remains locked, so each case uses a separate
		// directory.
		dir := t.TempDir()
		require.NoError(rt, os.WriteFile(filepath.Join(dir, filepath.Base(path)), bad, 0o600))
		recreate := rapid.Bool().Draw(rt, "recreate")
		c, err := open(context.Background(), dir, recreate, zap.NewNop())
		if err != nil && !recreate {
			require.ErrorIs(rt, err, errDamaged)
			return
		}
		require.NoError(rt, err)
		use(context.Background(), rt, c)
	})
}

// If another process uses a file, the error is returned after the timeout, and the file is not
// changed.
func TestAFileThatAnotherProcessUsesIsNotTouched(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"undamaged": func(b []byte) []byte { return b },
		"damaged":   damages["half"],
	} {
		t.Run(name, func(t *testing.T) {
			path, content := used(t)
			want := damage(content)
			require.NoError(t, os.WriteFile(path, want, 0o600))
			lockUntil(t, path, nil)
			synctest.Test(t, func(t *testing.T) {
				before := time.Now()
				_, err := openAs(t.Context(), zap.NewNop(), func(cfg *filestorage.Config) {
					cfg.Directory, cfg.Recreate, cfg.Timeout = filepath.Dir(path), true, 10*time.Second
				})
				require.ErrorContains(t, err, path)
				require.ErrorIs(t, err, errInUse)
				require.NotErrorIs(t, err, errDamaged)
				assert.InDelta(t, 10, time.Since(before).Seconds(), 0.1)
			})
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
}

// The lockUntil function locks a file as another process does, and unlocks the file when the given
// channel is closed or the test ends.
func lockUntil(t *testing.T, path string, unlock <-chan struct{}) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	locked, err := lock(f)
	require.NoError(t, err)
	require.True(t, locked)
	if unlock == nil {
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return
	}
	go func() {
		<-unlock
		_ = f.Close()
	}()
}

// After a collector is killed, its files remain locked for a moment. If the timeout is 0, the
// extension waits without a limit, as contrib does.
func TestADamagedFileIsDetectedEvenIfItsUserIsExiting(t *testing.T) {
	for name, tt := range map[string]struct{ timeout, locked time.Duration }{
		"within the timeout": {10 * time.Second, 9 * time.Second},
		"without a timeout":  {0, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			path, content := used(t)
			require.NoError(t, os.WriteFile(path, damages["both meta pages"](content), 0o600))
			synctest.Test(t, func(t *testing.T) {
				before := time.Now()
				unlock := make(chan struct{})
				lockUntil(t, path, unlock)
				time.AfterFunc(tt.locked, func() { close(unlock) })
				core, logs := observer.New(zap.WarnLevel)
				c, err := openAs(t.Context(), zap.New(core), func(cfg *filestorage.Config) {
					cfg.Directory, cfg.Recreate, cfg.Timeout = filepath.Dir(path), true, tt.timeout
				})
				require.NoError(t, err)
				assert.InDelta(t, tt.locked.Seconds(), time.Since(before).Seconds(), 0.1)
				assert.Len(t, logs.All(), 1, "the damage is reported")
				use(t.Context(), t, c)
			})
		})
	}
}

func TestWaitingForAFileEndsWithTheContext(t *testing.T) {
	path, _ := used(t)
	lockUntil(t, path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := openAs(ctx, zap.NewNop(), func(cfg *filestorage.Config) { cfg.Directory, cfg.Timeout = filepath.Dir(path), 0 })
	require.ErrorIs(t, err, context.Canceled)
}

func TestAFileThatIsRemovedIsReportedOnce(t *testing.T) {
	path, _ := used(t)
	core, logs := observer.New(zap.InfoLevel)
	c, err := open(t.Context(), filepath.Dir(path), true, zap.New(core))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	for range 3 {
		require.NoError(t, c.Set(t.Context(), "k", nil))
	}
	require.Len(t, logs.All(), 1)
	assert.Equal(t, zap.ErrorLevel, logs.All()[0].Level)
	assert.Equal(t, path, logs.All()[0].ContextMap()["file"])
	require.NoError(t, c.Close(t.Context()))
}

func TestFilesHaveTheNamesOfContrib(t *testing.T) {
	for _, tt := range []struct {
		kind component.Kind
		id   component.ID
		name string
	}{
		{component.KindExporter, component.MustNewIDWithName("otlp_http", "ä/~ x"), "metrics"},
		{component.KindProcessor, component.MustNewID("gpu_window"), ""},
		{component.KindExporter, component.MustNewIDWithName("otlp_http", strings.Repeat("x", 300)), "metrics"},
	} {
		dir := t.TempDir()
		contrib := filestorage.NewFactory()
		cfg := contrib.CreateDefaultConfig().(*filestorage.Config)
		cfg.Directory = dir
		made, err := contrib.Create(t.Context(), extensiontest.NewNopSettings(contrib.Type()), cfg)
		require.NoError(t, err)
		c, err := made.(storage.Extension).GetClient(t.Context(), tt.kind, tt.id, tt.name)
		require.NoError(t, err)
		require.NoError(t, c.Close(t.Context()))
		assert.FileExists(t, (&checkedStorage{config: cfg}).path(tt.kind, tt.id, tt.name))
	}
}
