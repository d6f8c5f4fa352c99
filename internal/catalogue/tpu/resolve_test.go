package tpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// reading returns a row without a holder for a chip of machine 47.
func reading(field string, chip int) *cat.Reading {
	return &cat.Reading{Field: Exporter.Field(field), Identity: &cat.Identity{Board: fmt.Sprintf("47-%d", chip)}}
}

func TestTheNumbersOfASliceAreMatchedToTheChipsOfTheNodeByOrder(t *testing.T) {
	var rows []*cat.Reading
	for _, chip := range []int{3, 1, 2, 1} {
		rows = append(rows, reading("tensorcore_utilization_node", chip))
	}
	for _, chip := range []int{412, 404, 405, 404} {
		rows = append(rows, reading("duty_cycle_node", chip))
	}
	resolve(rows)
	var got []string
	for _, r := range rows {
		assert.False(t, r.Unresolved)
		got = append(got, r.Identity.Board)
	}
	assert.Equal(t, []string{"47-3", "47-1", "47-2", "47-1", "47-3", "47-1", "47-2", "47-1"}, got)
}

func TestRowsOfAWorkloadAreUnresolvedIfTheNodeHasAnotherNumberOfChips(t *testing.T) {
	ofNode, unread, ofSlice := reading("tensorcore_utilization_node", 1), reading("tensorcore_utilization_node", 2), reading("duty_cycle_node", 404)
	resolve([]*cat.Reading{ofNode, unread, ofSlice})
	assert.True(t, ofSlice.Unresolved)
	assert.False(t, ofNode.Unresolved)
	assert.Equal(t, "47-1", ofNode.Identity.Board)
}

func TestTheHolderInACopiedRowIsAmbiguousIfTheMachineHasSeveral(t *testing.T) {
	copied, own := reading("tensorcore_utilization_node", 1), reading("duty_cycle_node", 404)
	copied.Holder, own.Holder = &cat.Holder{Namespace: "ns", Pod: "p"}, &cat.Holder{Namespace: "ns", Pod: "p"}
	resolve([]*cat.Reading{copied, own})
	assert.False(t, copied.AmbiguousHolder, "the machine has one holder")

	own.Identity = &cat.Identity{Board: "47-404"}
	own.Holder = &cat.Holder{Namespace: "ns", Pod: "q"}
	resolve([]*cat.Reading{copied, own})
	assert.True(t, copied.AmbiguousHolder)
	assert.False(t, own.AmbiguousHolder)
}
