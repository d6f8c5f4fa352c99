//go:build linux && !otelcol_gpu_no_nvml

package nvml

// These types correspond to version 1 structures that were added to nvml.h in R520. The metrics
// array grew from 98 to 210 and then to 333 entries, but the version did not change. A library uses
// only as many entries as the count field specifies.
type (
	// gpmSupport is nvmlGpmSupport_t.
	gpmSupport struct {
		version, supported uint32
	}

	// gpmMetric is nvmlGpmMetric_t.
	gpmMetric struct {
		id         uint32
		nvmlReturn uint32
		value      float64
		_          [3]uintptr // strings
	}

	// gpmMetrics is nvmlGpmMetricsGet_t.
	gpmMetrics struct {
		version, count uint32
		first, second  uintptr
		metrics        [333]gpmMetric
	}
)

const (
	gpmSupportVersion = 1
	gpmMetricsVersion = 1
)

// GPMSupported reports whether a board supports GPU performance monitoring (GPM). Hopper and later
// boards support GPM.
func (l *Library) GPMSupported(board Device) (bool, error) {
	l.support = gpmSupport{version: gpmSupportVersion}
	err := l.call(l.symbols[symGPMSupport], uintptr(board), address(&l.support))
	return l.support.supported != 0, err
}

// NewGPMSample creates an empty sample. The caller must free the sample.
func (l *Library) NewGPMSample() (GPMSample, error) {
	l.out = [2]uint64{}
	err := l.call(l.symbols[symGPMSampleAlloc], address(&l.out))
	return GPMSample(l.out[0]), err
}

// FreeGPMSample frees a sample.
func (l *Library) FreeGPMSample(s GPMSample) error {
	return l.call(l.symbols[symGPMSampleFree], uintptr(s))
}

// ReadGPMSample copies the current performance counters to a sample. If the instance argument is
// NoInstance, the counters are those of the board. Otherwise, the counters are those of the given
// GPU instance on the board.
func (l *Library) ReadGPMSample(board Device, instance uint32, s GPMSample) error {
	if instance == NoInstance {
		return l.call(l.symbols[symGPMSample], uintptr(board), uintptr(s))
	}
	return l.call(l.symbols[symGPMInstanceSample], uintptr(board), uintptr(instance), uintptr(s))
}

// GPMValues computes the metrics whose IDs are in the given slice, and stores the results in the
// same slice. The results cover the time between two samples of a device.
func (l *Library) GPMValues(first, second GPMSample, values []GPMValue) error {
	m := &l.gpm
	m.version, m.count, m.first, m.second = gpmMetricsVersion, uint32(len(values)), uintptr(first), uintptr(second)
	for i := range values {
		// With these initial values, an entry that the library does not write counts as failed.
		m.metrics[i] = gpmMetric{id: values[i].ID, nvmlReturn: uint32(ErrUnknown)}
	}
	if err := l.call(l.symbols[symGPMMetrics], address(m)); err != nil {
		return err
	}
	for i := range values {
		values[i].Value, values[i].OK = m.metrics[i].value, m.metrics[i].nvmlReturn == 0
	}
	return nil
}
