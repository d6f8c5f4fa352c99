package gpuclusterreceiver

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// readObjects reads the API objects in a YAML file. The test fails if an object contains an unknown
// field.
func readObjects(t *testing.T, file string) []runtime.Object {
	t.Helper()
	text, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, text.Close()) }()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(text))
	var objects []runtime.Object
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		if fields, err := yaml.ToJSON(document); err == nil && string(fields) == "null" { // only comments
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		require.NoError(t, err, string(document))
		objects = append(objects, object)
	}
}

// storeObject adds an object to the store the same way the cache does.
func storeObject(t *testing.T, s *store, object runtime.Object) {
	t.Helper()
	switch o := object.(type) {
	case *corev1.Pod:
		s.cluster.SetPod(convertPod(o, s.families))
	case *corev1.Node:
		s.cluster.SetNode(convertNode(o, s.conditions))
	case *resourcev1.ResourceSlice:
		slice, _ := convertSlice(o)
		s.cluster.SetSlice(slice)
	case *resourcev1.ResourceClaim:
		s.cluster.SetClaim(o)
	case *resourcev1.DeviceClass:
		s.cluster.SetClass(o)
	case *resourcev1.ResourceClaimTemplate:
		s.cluster.SetTemplate(o)
	case *resourcev1.DeviceTaintRule:
		s.cluster.SetTaintRule(o)
	default:
		t.Fatalf("the receiver does not read a %T", o)
	}
}

// The render function returns the points in the batches as sorted lines. Each line contains the
// Resource, the metric, the attributes, and the value of a point. Points for rules without
// violations are omitted.
func render(t *testing.T, batches ...pmetric.Metrics) string {
	t.Helper()
	var lines []string
	for _, md := range batches {
		for _, rm := range md.ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					declared, ok := signal.Lookup(m.Name())
					require.True(t, ok, m.Name())
					require.Equal(t, declared.Unit, m.Unit())
					require.Equal(t, declared.Description, m.Description())
					for _, dp := range m.Gauge().DataPoints().All() {
						line := pointtest.Text(rm.Resource().Attributes()) + " " + m.Name() + " " + pointtest.Text(dp.Attributes()) + " = " + number(t, declared, dp)
						if m.Name() == signal.K8sGPURequestInvalid.Name && dp.IntValue() == 0 {
							continue
						}
						lines = append(lines, line)
					}
				}
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func number(t *testing.T, declared *signal.Metric, dp pmetric.NumberDataPoint) string {
	t.Helper()
	if declared.Int {
		require.Equal(t, pmetric.NumberDataPointValueTypeInt, dp.ValueType(), declared.Name)
		return strconv.FormatInt(dp.IntValue(), 10)
	}
	require.Equal(t, pmetric.NumberDataPointValueTypeDouble, dp.ValueType(), declared.Name)
	return strconv.FormatFloat(dp.DoubleValue(), 'g', -1, 64)
}
