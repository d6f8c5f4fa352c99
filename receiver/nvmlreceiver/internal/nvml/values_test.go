//go:build linux && !otelcol_gpu_no_nvml

package nvml

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
)

func TestFieldValuesAreReadByTheirType(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), h100+`
field id=1 type=0 value=1.5
field id=2 type=1 value=4294967294
field id=3 type=2 value=5000000000
field id=4 type=3 value=6000000000
field id=5 type=4 value=-7
field id=6 type=5 value=-8
field id=7 type=6 value=65534
field id=8 type=9 value=1
field id=9 type=3 value=1 rc=15
`)
	values := make([]FieldValue, 10)
	for i := range values {
		values[i] = FieldValue{ID: FieldID(i + 1), Value: 77, OK: true}
	}
	require.NoError(t, l.FieldValues(d, values))
	assert.Equal(t, []FieldValue{
		{ID: 1, Value: 1.5, OK: true},
		{ID: 2, Value: 4294967294, OK: true},
		{ID: 3, Value: 5e9, OK: true},
		{ID: 4, Value: 6e9, OK: true},
		{ID: 5, Value: -7, OK: true},
		{ID: 6, Value: -8, OK: true},
		{ID: 7, Value: 65534, OK: true},
		{ID: 8, Value: 0, OK: false},
		{ID: 9, Value: 0, OK: false},
		{ID: 10, Value: 0, OK: false},
	}, values)
}

// Different drivers use the same field numbers for different fields: power smoothing or slowdown
// counters. In this test, the value of each field is its field number, so the values show which
// fields were read.
func TestSlowdownCountersAreReadWithTheNumbersOfTheDriver(t *testing.T) {
	stub := nvmltest.Build(t)
	const both = `gpu uuid=GPU-1
field id=251 value=251
field id=252 value=252
field id=253 value=253
field id=269 value=269
field id=270 value=270
field id=271 value=271
field id=83 value=83
`
	for driver, first := range map[string]float64{
		"570.211.01": 0, "575.64": 251, "580.65.06": 251, "580.82.07": 269, "590.48.01": 269, "580.97": 0, "unknown": 0,
	} {
		t.Run(driver, func(t *testing.T) {
			l, d := board(t, stub, "driver version="+driver+"\n"+both)
			values := []FieldValue{
				{ID: FieldReasonHWPowerBrake}, {ID: FieldTotalEnergy}, {ID: FieldReasonSWThermal, Value: 77, OK: true}, {ID: FieldReasonHWThermal},
			}
			require.NoError(t, l.FieldValues(d, values))
			want := []FieldValue{
				{ID: FieldReasonHWPowerBrake}, {ID: FieldTotalEnergy, Value: 83, OK: true}, {ID: FieldReasonSWThermal}, {ID: FieldReasonHWThermal},
			}
			if first > 0 {
				want[0].Value, want[0].OK = first+2, true
				want[2].Value, want[2].OK = first, true
				want[3].Value, want[3].OK = first+1, true
			}
			assert.Equal(t, want, values)
		})
	}
	t.Run("a driver without a version", func(t *testing.T) {
		l, d := board(t, stub, both+"rule fn=nvmlSystemGetDriverVersion rc=999\n")
		values := []FieldValue{{ID: FieldReasonSWThermal}}
		stub.Record(t)
		require.NoError(t, l.FieldValues(d, values))
		assert.Equal(t, []FieldValue{{ID: FieldReasonSWThermal}}, values)
		assert.Empty(t, stub.Calls(t), "no fields are requested")
	})
}

// The scope of a field is known to be the link number only in driver versions whose nvml.h
// documents this meaning.
func TestCountersPerLinkAreReadIfTheDriverSupportsThem(t *testing.T) {
	stub := nvmltest.Build(t)
	const counters = `gpu uuid=GPU-1
field id=91 type=1 value=18
field id=161 value=1
field id=161 link=1 value=2
field id=162 link=17 value=3
field id=163 link=1 value=4
field id=215 link=1 value=5
`
	for driver, has := range map[string]bool{
		"520.56.06": false, "550.163.01": false, "570.86.16": false, "570.133.07": true, "580.95.05": true, "610.43.03": true, "580.97": true, "unknown": false,
	} {
		t.Run(driver, func(t *testing.T) {
			l, d := board(t, stub, "driver version="+driver+"\n"+counters)
			values := []FieldValue{
				{ID: FieldNVLinkErrorReplay},
				{ID: FieldNVLinkErrorReplay, Link: 1},
				{ID: FieldNVLinkErrorRecovery, Link: 17},
				{ID: FieldNVLinkErrorCRC, Link: 1},
				{ID: FieldNVLinkErrorCRC, Link: 2},
				{ID: FieldNVLinkRecoveryEvents, Link: 1},
				{ID: FieldNVLinkCount},
			}
			want := append([]FieldValue{}, values...)
			want[6].Value, want[6].OK = 18, true
			if has {
				for i, v := range []float64{1, 2, 3, 4, 0, 5} {
					want[i].Value, want[i].OK = v, v > 0
				}
			}
			require.NoError(t, l.FieldValues(d, values))
			assert.Equal(t, want, values)
		})
	}
}

// NVML_VALUE_NOT_AVAILABLE is an integer of the value's type with all bits set.
func TestAFieldThatIsNotAvailableHasNoValue(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), `gpu uuid=GPU-1
field id=1 type=1 value=none
field id=2 type=2 value=none
field id=3 type=3 value=none
field id=4 type=4 value=none
field id=5 type=5 value=none
field id=6 type=6 value=none
field id=7 type=3 value=4294967295
field id=8 type=1 value=65535
`)
	values := make([]FieldValue, 8)
	for i := range values {
		values[i].ID = FieldID(i + 1)
	}
	require.NoError(t, l.FieldValues(d, values))
	for i, v := range values[:6] {
		assert.Equal(t, FieldValue{ID: FieldID(i + 1)}, v)
	}
	assert.Equal(t, []FieldValue{{ID: 7, Value: 4294967295, OK: true}, {ID: 8, Value: 65535, OK: true}}, values[6:], "all ones in another width are a value")
}

func TestUnsetFieldHasNoValue(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), "gpu uuid=GPU-1\nfield id=83 value=9\nfield id=142 rc=-1\n")
	values := []FieldValue{{ID: FieldTotalEnergy}, {ID: FieldRemappedCorrectable}}
	require.NoError(t, l.FieldValues(d, values))
	values[0].ID, values[1].ID = FieldRemappedCorrectable, FieldTotalEnergy
	require.NoError(t, l.FieldValues(d, values), "an earlier value is not returned")
	assert.Equal(t, []FieldValue{{ID: FieldRemappedCorrectable}, {ID: FieldTotalEnergy, Value: 9, OK: true}}, values)
}

func TestMemoryOfEveryStructureVersion(t *testing.T) {
	current, old := nvmltest.Build(t), nvmltest.Build(t, "-DOLD")
	for name, tt := range map[string]struct {
		stub   *nvmltest.Stub
		script string
		want   Memory
		err    error
	}{
		"the second version has a separate reserved memory": {
			current, "gpu uuid=GPU-1 total=1000 reserved=100 free=600 used=300\n", Memory{Total: 1000, Free: 600, Used: 300}, nil,
		},
		"the first version counts reserved memory as used": {
			old, "gpu uuid=GPU-1 total=1000 reserved=100 free=600 used=300\n", Memory{Total: 1000, Free: 600, Used: 400}, nil,
		},
		"a rejected version is not replaced by the other version": {
			current, "gpu uuid=GPU-1 total=1000 free=600 used=300\nrule fn=nvmlDeviceGetMemoryInfo_v2 rc=25\n", Memory{}, ResultError(25),
		},
		"the used memory is not available": {
			current, "gpu uuid=GPU-1 total=1000 free=600 used=0xffffffffffffffff\n", Memory{}, ErrNotSupported,
		},
		"the free memory is not available": {
			old, "gpu uuid=GPU-1 total=1000 free=0xffffffffffffffff used=300\n", Memory{}, ErrNotSupported,
		},
		"the size is not available": {
			current, "gpu uuid=GPU-1 total=0xffffffffffffffff free=600 used=300\n", Memory{}, ErrNotSupported,
		},
		"none": {current, "gpu uuid=GPU-1\n", Memory{}, ErrNotSupported},
	} {
		t.Run(name, func(t *testing.T) {
			l, d := board(t, tt.stub, tt.script)
			got, err := l.Memory(d)
			require.ErrorIs(t, err, tt.err)
			assert.Equal(t, tt.want, got)
		})
	}
}

// In CUDA 14, functions that are deprecated in CUDA 13 will return NVML_ERROR_DEPRECATED.
func TestTemperatureIsReadWithoutTheDeprecatedFunction(t *testing.T) {
	stub := nvmltest.Build(t, "-DCUDA14")
	l, d := board(t, stub, h100)
	celsius, err := l.Query(d, Temperature)
	require.NoError(t, err)
	assert.EqualValues(t, 51, celsius)
	reasons, err := l.Query(d, ClockEventReasons)
	require.NoError(t, err)
	assert.EqualValues(t, 4, reasons)
	_, err = l.Query(d, PowerViolation)
	require.ErrorIs(t, err, ErrDeprecated, "the field is still read")

	l, d = board(t, stub, "gpu uuid=GPU-1 temp=0xffffffff\n")
	_, err = l.Query(d, Temperature)
	require.ErrorIs(t, err, ErrNotSupported, "-1 is not available")
	l, d = board(t, stub, "gpu uuid=GPU-1\n")
	_, err = l.Query(d, Temperature)
	require.ErrorIs(t, err, ErrNotSupported)
}
