package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// recordedNode is the name of the recorded node. Its digits are replaced for other nodes.
	recordedNode = "gpu-node-00000"
	// nodeDigits is the number of digits in a node's number, in its name and in its device ids.
	nodeDigits = 5
)

// recording is an agent's OTLP request for one scrape. The parts that differ between nodes and
// between scrapes have a fixed length. To create a request for another node, it is enough to copy
// the body and overwrite these bytes.
type recording struct {
	body []byte
	// names, devices, and times are the offsets of node numbers and of the scrape's time in body.
	names, devices, times []int
	points                int
	gpus                  int
}

// newRecording returns a recording of a request, with these offsets.
func newRecording(body []byte) (*recording, error) {
	request := pmetricotlp.NewExportRequest()
	if err := request.UnmarshalProto(body); err != nil {
		return nil, err
	}
	r := &recording{body: body, points: request.Metrics().DataPointCount()}
	ids, at := map[string]bool{}, map[uint64]bool{}
	for p := range points.All(request.Metrics()) {
		if id := label(p.Attributes(), signal.HardwareID) + label(p.Resource.Attributes(), signal.HardwareID); id != "" {
			ids[id] = true
		}
		at[uint64(p.Timestamp())] = true
	}
	r.gpus = len(ids)
	for id := range ids {
		// The digits that distinguish a node's devices must follow the node number.
		if len(id) < 2*nodeDigits+len(devicePrefix) || id[:len(devicePrefix)] != devicePrefix {
			return nil, fmt.Errorf("%q is not the id of a GPU", id)
		}
		r.devices = append(r.devices, places(body, []byte(id), len(devicePrefix))...)
	}
	r.names = places(body, []byte(recordedNode), len(recordedNode)-nodeDigits)
	for t := range at {
		r.times = append(r.times, places(body, binary.LittleEndian.AppendUint64(nil, t), 0)...)
	}
	if len(r.names) == 0 || len(r.devices) == 0 || len(r.times) < r.points {
		return nil, errors.New("a node's name, its devices or times were not found")
	}
	slices.Sort(r.times)
	return r, nil
}

// devicePrefix is the prefix of a GPU's id.
const devicePrefix = "GPU-"

// places returns the offsets of text in body, each increased by offset.
func places(body, text []byte, offset int) []int {
	var found []int
	for from := 0; ; {
		i := bytes.Index(body[from:], text)
		if i < 0 {
			return found
		}
		found = append(found, from+i+offset)
		from += i + len(text)
	}
}

// of appends the request that a node's agent sends for a scrape at the given time.
func (r *recording) of(dst []byte, node int, at time.Time) []byte {
	start := len(dst)
	dst = append(dst, r.body...)
	body := dst[start:]
	name, id := fmt.Sprintf("%0*d", nodeDigits, node), fmt.Sprintf("%0*x", nodeDigits, node)
	for _, i := range r.names {
		copy(body[i:], name)
	}
	for _, i := range r.devices {
		copy(body[i:], id)
	}
	for _, i := range r.times {
		binary.LittleEndian.PutUint64(body[i:], uint64(at.UnixNano()))
	}
	return dst
}
