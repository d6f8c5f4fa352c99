// Package cluster tests the components that use the Kubernetes API against a real API server with
// etcd. If scheduling matters, it also uses a real scheduler.
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

	// patience is how long a change may take on a machine that is busy with other work.
	patience = time.Minute
	poll     = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	goleak.VerifyTestMain(controlplane.Main(m))
}
