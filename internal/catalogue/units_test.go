package catalogue

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		name    string
		unit    Unit
		exposed float64
		want    float64
		verdict Verdict
	}{
		{"MiB become bytes", MiB, 12000, 12000 * 1048576, Valid},
		{"bytes stay", Byte, 12, 12, Valid},
		{"MHz become Hz", MHz, 1410, 1.41e9, Valid},
		{"millijoules become joules", Millijoule, 1500, 1.5, Valid},
		{"what DCGM calls MB/s is NVML's KiB/s by 1000", ThousandKiBPerSecond, 88, 88 * 1024000, Valid},
		{"a rate below 0 is a counter that began anew", ThousandKiBPerSecond, -3, 0, Absurd},
		{"nanoseconds become seconds", Nanosecond, 1.8e12, 1800, Valid},
		{"percent becomes a fraction", Percent, 50, 0.5, Valid},
		{"ratios above 1 are left to be clamped", Ratio, 1.294, 1.294, Valid},
		{"percentages above 100 are left to be clamped", Percent, 101, 1.01, Valid},
		{"twice a whole is the most that is clamped", Percent, 200, 2, Valid},
		{"an unsigned -1 is no percentage", Percent, 4294967295, 0, Implausible},
		{"a blank times 100 is no ratio", Ratio, 1.40737488355328e16, 0, Implausible},
		{"a ratio far below 0", Ratio, -0.06, 0, Implausible},
		{"a percentage far below 0", Percent, -5.5, 0, Implausible},
		{"a percentage that is garbage on both scales", RatioOrPercent, 201, 0, Implausible},
		{"negative temperatures exist", Celsius, -5, -5, Valid},

		{"int64 blank", MiB, 9223372036854775792, 0, Blank},
		{"int64 not supported, as an old exporter leaked it", Nanosecond, 9223372036854775794, 0, Blank},
		{"int64 blank in %g", Millijoule, 9.223372036854776e+18, 0, Blank},
		{"int32 blank", Percent, 2147483632, 0, Blank},
		{"int32 not permissioned", MHz, 2147483635, 0, Blank},
		{"int32 blank is a legitimate rate", BytePerSecond, 2147483632, 2147483632, Valid},
		{"int32 blank is a legitimate duration", Nanosecond, 2147483632, 2.147483632, Valid},
		{"int32 blank is a legitimate size", Byte, 2147483632, 2147483632, Valid},
		{"fp64 blank", Watt, 140737488355328, 0, Blank},
		{"fp64 not permissioned", Ratio, 140737488355331, 0, Blank},
		{"fp64 blank is a legitimate byte count", ByteCount, 140737488355328, 140737488355328, Valid},

		{"NaN", Ratio, math.NaN(), 0, NotFinite},
		{"+Inf", MiB, math.Inf(1), 0, NotFinite},
		{"-Inf", Celsius, math.Inf(-1), 0, NotFinite},
		{"negative memory", MiB, -1, 0, Absurd},
		{"negative power", Watt, -3, 0, Absurd},
		{"a temperature that melts", Celsius, 65535, 0, Absurd},
		{"half a bit", Mask, 4.5, 0, Absurd},
		{"a negative mask", Mask, -4, 0, Absurd},
		{"a flag that is set", Flag, 1, 1, Valid},
		{"half a flag", Flag, 0.5, 0, Absurd},
		{"seven flags", Flag, 7, 0, Absurd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, verdict := tt.unit.Value(tt.exposed)
			require.Equal(t, tt.verdict, verdict)
			if verdict == Valid {
				assert.InDelta(t, tt.want, got, 1e-9*math.Abs(tt.want))
			}
		})
	}
}

func TestOneValueDeterminesTheScaleOfRatios(t *testing.T) {
	assert.Equal(t, ScalePercent, Settle(57))
	assert.Equal(t, ScaleRatio, Settle(0.57))
	assert.Equal(t, ScaleUnknown, Settle(0))
	assert.Equal(t, ScaleUnknown, Settle(1))
	assert.Equal(t, ScaleUnknown, Settle(2147483632), "a sentinel does not determine the scale")
	assert.Equal(t, ScaleUnknown, Settle(65535), "garbage does not determine the scale")

	v, ok := ScalePercent.Apply(57)
	assert.True(t, ok)
	assert.InDelta(t, 0.57, v, 1e-12)
	v, ok = ScaleRatio.Apply(1)
	assert.True(t, ok)
	assert.InDelta(t, 1.0, v, 0)
	v, ok = ScaleUnknown.Apply(0)
	assert.True(t, ok, "0 is 0 on both scales")
	assert.Zero(t, v)
	_, ok = ScaleUnknown.Apply(1)
	assert.False(t, ok, "1 is either 1 % or 100 %")
}

func TestRoundingIsClampedAndGarbageIsDropped(t *testing.T) {
	for _, tt := range []struct {
		in, want float64
		clamped  bool
		verdict  Verdict
	}{
		{0, 0, false, Valid},
		{1, 1, false, Valid},
		{0.5, 0.5, false, Valid},
		{1.294, 1, true, Valid},
		{2, 1, true, Valid},
		{-0.05, 0, true, Valid},
		{2.01, 0, false, Implausible},
		{-0.051, 0, false, Implausible},
		{1.4e16, 0, false, Implausible},
		{math.NaN(), 0, false, Implausible},
		{math.Inf(1), 0, false, Implausible},
	} {
		got, clamped, verdict := Clamp(tt.in)
		assert.InDelta(t, tt.want, got, 0, "%v", tt.in)
		assert.Equal(t, tt.clamped, clamped, "%v", tt.in)
		assert.Equal(t, tt.verdict, verdict, "%v", tt.in)
	}
}

func TestPCIeCapacity(t *testing.T) {
	for _, tt := range []struct {
		generation, lanes, want float64
		ok                      bool
	}{
		{4, 16, 31.504e9, true},
		{3, 16, 15.76e9, true},
		{5, 8, 31.504e9, true},
		{0, 16, 0, false},
		{7, 16, 0, false},
		{4.5, 16, 0, false},
		{4, 3, 0, false},
		{4, 0, 0, false},
	} {
		got, ok := PCIeCapacity(tt.generation, tt.lanes)
		assert.Equal(t, tt.ok, ok)
		assert.InDelta(t, tt.want, got, 1)
	}
}

func TestContainersWithoutAPodHaveANameOrAnID(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		namespace, pod, label string
		want                  Holder
	}{
		{"", "", id, Holder{ID: id}},
		{"", "", id[1:], Holder{Name: id[1:]}},
		{"", "", strings.ToUpper(id), Holder{Name: strings.ToUpper(id)}},
		{"", "", "trainer", Holder{Name: "trainer"}},
		{"ns", "p", id, Holder{Namespace: "ns", Pod: "p", Container: id}},
	} {
		assert.Equal(t, tt.want, container(tt.namespace, tt.pod, "", tt.label))
	}
}

func TestATextThatIsNotAJobIDIsNotAHolder(t *testing.T) {
	of := New(Exporter{Labels: map[Role][]string{RoleJob: {"job"}}})
	for job, holds := range map[string]bool{
		"4711": true, "4711_3": true, "123[4].server": true, "": false,
		"4711 4712": false, "4711\n": false, "47\x0011": false, strings.Repeat("7", MaxJobID+1): false,
	} {
		row := NewRow(of)
		row.Set("job", job)
		_, named := row.Named()
		assert.Equal(t, holds, named, "%q", job)
	}
}
