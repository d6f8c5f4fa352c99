package gpuwindowprocessor

import "github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"

const (
	// maxBatchBytes bounds the estimated OTLP size of a batch: a gRPC server accepts 4 MiB by
	// default, and long labels are repeated on each point.
	maxBatchBytes = 3 << 20
	// pointBytes is the size of a point without its attributes, attributeBytes is the size of an
	// attribute without its encoding in the engine, and metricBytes is the size of a metric without its
	// texts.
	pointBytes     = 40
	attributeBytes = 9
	metricBytes    = 24
)

// rowsPerBatch returns how many of the first rows fit in one batch. It is at least one.
func (w *writer) rowsPerBatch(rows []window.Row) int {
	size := 0
	var previous *window.Row
	device := window.Attrs("") // of the previous row
	deviceSize, flatSize := 0, 0
	for i := range rows {
		row := &rows[i]
		newResource := previous == nil || row.Resource != previous.Resource
		newDevice := newResource || row.Device != device
		if newDevice {
			device, deviceSize = row.Device, attributesSize(row.Device)
		}
		if newResource && w.flat { // then each point has these attributes too
			flatSize = attributesSize(row.Resource.Attrs)
		}
		if newResource || w.onResources && newDevice {
			size += attributesSize(row.Resource.Attrs) + len(row.Resource.SchemaURL)
		}
		if newResource || w.onResources && newDevice || row.Metric != previous.Metric {
			size += metricBytes + len(row.Metric.Name) + len(row.Metric.Unit) + len(row.Metric.Description) + attributesSize(row.Metric.Metadata)
		}
		if newDevice || !w.onResources {
			size += deviceSize
		}
		previous = row
		if w.flat && w.onResources {
			size += deviceSize
		}
		size += flatSize + pointBytes + attributesSize(row.Own) + attributesSize(row.Extra)
		if size > maxBatchBytes && i > 0 {
			return i
		}
	}
	return len(rows)
}

func attributesSize(attrs window.Attrs) int {
	return len(attrs) + attributeBytes*attrs.Len()
}
