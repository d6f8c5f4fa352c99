package kube_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/controlplane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(controlplane.Main(m)) }
