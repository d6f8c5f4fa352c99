// Package cluster tests the components that use the Kubernetes API against a real API server with
// etcd. Tests that depend on scheduling also use a real scheduler.
package cluster

import (
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/grpclog"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

const (
	node = "gpu-node"

	// patience is the maximum time that a change may take on a busy machine.
	patience = time.Minute
	poll     = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	goleak.VerifyTestMain(controlplane.Main(m))
}
