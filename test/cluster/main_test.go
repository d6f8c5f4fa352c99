// Package cluster tests the components that ask Kubernetes for something against one real API
// server with its etcd, and where placement matters a real scheduler.
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

	// patience is how long a change may take to arrive on a machine that does other work meanwhile.
	patience = time.Minute
	poll     = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	goleak.VerifyTestMain(controlplane.Main(m))
}
