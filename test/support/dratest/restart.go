package dratest

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// restart restarts the observer. In some cases, the observed node also restarts, or is replaced by
// a node that has the same hardware and another name.
func (w *World) restart(t *rapid.T) {
	w.Starts++
	w.seen, w.labeled = map[*instance]time.Time{}, map[string]map[*instance]time.Time{}
	switch sampledFrom(t, "restarts", "agent", "node", "name") {
	case "node":
		w.boot(t)
	case "name":
		w.rejoin(t)
	}
}

// boot restarts the observed node. Either all pods on the node are deleted, or all of them start
// again. The instances are renumbered from 0 in a different order.
func (w *World) boot(t *rapid.T) {
	w.generation++
	drained := rapid.Bool().Draw(t, "drained")
	for _, p := range slices.Clone(w.pods) {
		switch {
		case p.node != w.Node:
		case drained:
			w.delete(t, p)
		default:
			p.preparing = true
		}
	}
	for _, b := range w.boards {
		b.next = 0
	}
	for _, d := range slices.Backward(w.devices) {
		if d.pool == w.Node && d.instance != nil {
			w.appear(d)
		}
	}
	w.settle()
}

// rejoin replaces the observed node with a node that has another name. The pods and the
// ResourceSlices of the old node may be deleted or may remain in the API server.
func (w *World) rejoin(t *rapid.T) {
	old := w.Node
	w.names++
	w.Node, w.hidden = fmt.Sprint("n", w.names), false
	w.generation++
	linger := rapid.Bool().Draw(t, "slices linger")
	boards := map[*board]*board{}
	for i, b := range w.boards {
		moved := &board{kind: b.kind, uuid: b.uuid, index: b.index}
		boards[b], w.boards[i] = moved, moved
	}
	for _, d := range slices.Clone(w.devices) {
		if d.pool != old {
			continue
		}
		moved := *d
		moved.pool, moved.board, moved.instance, moved.renamed = w.Node, boards[d.board], nil, false
		w.devices = append(w.devices, &moved)
		if d.board != nil && d.board.kind == static {
			w.appear(&moved)
		}
		d.removed, d.instance = !linger, nil
	}
	for _, p := range slices.Clone(w.pods) {
		if p.node == old && rapid.Bool().Draw(t, "deleted") {
			w.delete(t, p)
		}
	}
	w.settle()
}
