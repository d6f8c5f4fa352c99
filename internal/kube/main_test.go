package kube_test

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc/grpclog"
)

// grpcWarnings collects the warnings that gRPC logs. Outside tests, these warnings would appear in
// the Collector's log.
var grpcWarnings lockedBuffer

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, &grpcWarnings, io.Discard))
	goleak.VerifyTestMain(m)
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
