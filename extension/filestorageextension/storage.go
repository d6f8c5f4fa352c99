package filestorageextension

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// checkedStorage wraps contrib's extension and checks each database file before contrib opens the
// file.
type checkedStorage struct {
	storage.Extension
	config *filestorage.Config
	logger *zap.Logger
}

// GetClient checks and opens the database file of a component. If recreate is set, GetClient
// renames a damaged file and creates an empty file. Errors contain the path of the file.
func (s *checkedStorage) GetClient(ctx context.Context, kind component.Kind, id component.ID, name string) (storage.Client, error) {
	path := s.path(kind, id, name)
	if err := s.prepare(ctx, path); err != nil {
		return nil, err
	}
	var client storage.Client
	err := recovered(path, func() (err error) {
		client, err = s.Extension.GetClient(ctx, kind, id, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("storage file %s: %w", path, err)
	}
	return &checkedClient{Client: client, path: path, gone: componenthelper.Failure{
		Logger: s.logger, Level: zap.ErrorLevel,
		Fails: "The storage file was removed. Everything stored from now on is lost when the collector exits. Restart it to create a new file.",
		Works: "The storage file exists again.",
	}}, nil
}

// prepare checks a file. If the file is damaged and recreate is set, prepare renames the file. If
// recreate is not set, or if another process uses the file, prepare returns an error.
func (s *checkedStorage) prepare(ctx context.Context, path string) error {
	err := checkPath(ctx, path, s.config.Timeout)
	switch {
	case errors.Is(err, errInUse):
		return fmt.Errorf("storage file %s: %w", path, err)
	case !errors.Is(err, errDamaged):
		return nil // contrib creates a missing file, and any other error occurs again when contrib opens the file
	case !s.config.Recreate:
		return fmt.Errorf("storage file %s: %w; remove it, or set recreate: true to rename it", path, err)
	}
	backup := path + "." + time.Now().UTC().Format("20060102T150405.000Z0700") + ".backup"
	if renameErr := os.Rename(path, backup); renameErr != nil {
		return fmt.Errorf("storage file %s: %w; it cannot be renamed: %w", path, err, renameErr)
	}
	s.logger.Warn("A storage file is damaged. It was renamed and replaced by an empty file, so its content is lost.",
		zap.String("file", path), zap.String("renamed_to", backup), zap.Error(err))
	return nil
}

// errInUse means that another process, or another component of this process, uses the file.
var errInUse = errors.New("the storage file is in use")

// checkPath checks a file. Because a process that uses the file may be about to exit, checkPath
// waits for the file's lock until the timeout has elapsed. If the timeout is 0, checkPath waits
// without a limit, as bbolt does. If another process still uses the file after the timeout, or if
// ctx is done first, checkPath returns an error that wraps errInUse. If files cannot be locked on
// this operating system, checkPath returns nil.
func checkPath(ctx context.Context, path string, timeout time.Duration) error {
	if !canLock {
		return nil
	}
	f, err := os.Open(path) //nolint:gosec // the file is in the directory that the user configured
	if err != nil {
		return err
	}
	defer f.Close()
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timeout of %s", timeout))
		defer cancel()
	}
	for {
		locked, err := lock(f)
		if err != nil {
			return err
		}
		if locked {
			return check(f)
		}
		select {
		case <-time.After(lockInterval):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errInUse, context.Cause(ctx))
		}
	}
}

// path returns the path of a component's file. The file has the same name as in contrib's
// file_storage.
func (s *checkedStorage) path(kind component.Kind, id component.ID, name string) string {
	kinds := map[component.Kind]string{
		component.KindReceiver: "receiver", component.KindProcessor: "processor", component.KindExporter: "exporter",
		component.KindExtension: "extension", component.KindConnector: "connector",
	}
	kindName, ok := kinds[kind]
	if !ok {
		kindName = "other"
	}
	parts := []string{kindName, id.Type().String(), id.Name()}
	if name != "" {
		parts = append(parts, name)
	}
	var safe strings.Builder
	for _, r := range strings.Join(parts, "_") {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_", r) {
			safe.WriteRune(r)
		} else {
			fmt.Fprintf(&safe, "~%04X", r)
		}
	}
	file := safe.String()
	if len(file) > maxName {
		sum := sha256.Sum256([]byte(file))
		file = hex.EncodeToString(sum[:])
	}
	return filepath.Join(s.config.Directory, file)
}

// lockInterval is the time between attempts to lock a file.
const lockInterval = 20 * time.Millisecond

// maxName is the longest file name that common file systems allow.
const maxName = 255

// checkedClient logs an error if its file has been removed, and converts panics in bbolt to errors.
type checkedClient struct {
	storage.Client
	path string

	mu   sync.Mutex
	gone componenthelper.Failure // guarded by mu
}

var _ storage.Walker = (*checkedClient)(nil)

// Get implements storage.Client.
func (c *checkedClient) Get(ctx context.Context, key string) (value []byte, err error) {
	err = recovered(c.path, func() (err error) {
		value, err = c.Client.Get(ctx, key)
		return err
	})
	return value, err
}

// Set implements storage.Client.
func (c *checkedClient) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

// Delete implements storage.Client.
func (c *checkedClient) Delete(ctx context.Context, key string) error {
	return c.Batch(ctx, storage.DeleteOperation(key))
}

// Batch implements storage.Client. Each call checks that the file still exists, because writes to a
// removed file succeed even though the data is lost.
func (c *checkedClient) Batch(ctx context.Context, ops ...*storage.Operation) error {
	_, err := os.Stat(c.path)
	if !errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	c.mu.Lock()
	c.gone.Result(err, zap.String("file", c.path))
	c.mu.Unlock()
	return recovered(c.path, func() error { return c.Client.Batch(ctx, ops...) })
}

// Walk implements storage.Walker.
func (c *checkedClient) Walk(ctx context.Context, walk storage.WalkFunc) error {
	walker, ok := c.Client.(storage.Walker)
	if !ok {
		return errors.New("the storage cannot list its keys")
	}
	return recovered(c.path, func() error { return walker.Walk(ctx, walk) })
}

// Calls the function in the use parameter, and converts a panic in bbolt to an error. A memory
// fault, which occurs if bbolt reads mapped memory beyond the end of a truncated file, is also
// converted.
func recovered(path string, use func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w (%s): %v", errDamaged, path, r)
		}
	}()
	return use()
}
