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
	// recordedNode is the name of the recorded node. Replacing the digits in recordedNode creates
	// the name of another node.
	recordedNode = "gpu-node-00000"
	// nodeDigits is the number of digits that a node number has in the node's name and in device
	// IDs.
	nodeDigits = 5
)

// recording is an agent's OTLP request for one scrape. The parts of a request that differ between
// nodes or between scrapes have a fixed length. A request for another node is therefore created by
// copying the body and overwriting those parts.
type recording struct {
	body []byte
	// All offsets are relative to the start of body. names contains the offsets of the node number
	// in node names. devices contains the offsets of the node number in device IDs. times contains
	// the offsets of timestamps.
	names, devices, times []int
	points                int
	gpus                  int
}

// newRecording returns a recording of the given request.
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
		// After the prefix, an ID must have room for the node number and for the digits that
		// distinguish the devices of one node.
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

// devicePrefix is the prefix of a GPU's ID.
const devicePrefix = "GPU-"

// places returns the positions of all occurrences of text in body, with offset added to each
// position.
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

// The of function appends to dst the request that the given node's agent would send for a scrape at
// the given time.
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
