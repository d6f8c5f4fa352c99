package catalogue

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReservationPodsAreRecognizedByTheirNamespace(t *testing.T) {
	assert.True(t, IsReservation(Holder{Namespace: "kai-resource-reservation", Pod: "gpu-reservation-1"}))
	assert.True(t, IsReservation(Holder{Namespace: "runai-reservation", Pod: "runai-reservation-gpu-1"}))
	assert.False(t, IsReservation(Holder{Namespace: "team", Pod: "gpu-reservation-1", Container: "resource-reservation"}), "any user can choose these names")
	assert.False(t, IsReservation(Holder{}))
}
