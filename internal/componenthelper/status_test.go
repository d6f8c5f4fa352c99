package componenthelper

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/component/componentstatus"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

func TestTheStatusReportsTheProblemOfEachPartOnce(t *testing.T) {
	host := statustest.NewHost()
	status := Status{Host: host}
	for _, step := range []struct {
		part, problem string
		news          bool
		last          string
	}{
		{"lease", "", false, ""}, // the lease part had no problem before
		{"objects", "nodes: forbidden", true, "nodes: forbidden"},
		{"objects", "nodes: forbidden", false, "nodes: forbidden"},
		{"lease", "no quorum", true, "no quorum\nnodes: forbidden"},
		{"lease", "connection refused", true, "connection refused\nnodes: forbidden"},
		{"objects", "", true, "connection refused"},
		{"objects", "", false, "connection refused"},
		{"lease", "", true, "StatusOK"},
	} {
		var problem error
		if step.problem != "" {
			problem = errors.New(step.problem)
		}
		before := len(host.Events())
		news, well := status.Report(step.part, problem)
		assert.Equal(t, step.news, news, step)
		assert.Equal(t, step.news, len(host.Events()) > before, step)
		assert.Equal(t, step.last, host.Last(), step)
		assert.Equal(t, step.last == "" || step.last == "StatusOK", well, step)
	}
}

func TestTheOKOfOnePartDoesNotHideTheErrorOfAnother(t *testing.T) {
	host := statustest.NewHost()
	status := Status{Host: host}
	ReportStatus(status.Part("gpu_k8s"), errors.New("the kubelet does not answer"))
	ReportStatus(status.Part("endpoints"), nil)
	assert.Equal(t, "the kubelet does not answer", host.Last())
	ReportStatus(status.Part("endpoints"), errors.New("connection refused"))
	assert.Equal(t, "connection refused\nthe kubelet does not answer", host.Last())
	ReportStatus(status.Part("gpu_k8s"), nil)
	assert.Equal(t, "connection refused", host.Last())
	ReportStatus(status.Part("endpoints"), nil)
	assert.Equal(t, "StatusOK", host.Last())
}

func TestAPermanentErrorOfAPartReachesTheHost(t *testing.T) {
	host := statustest.NewHost()
	status := Status{Host: host}
	componentstatus.ReportStatus(status.Part("page"), componentstatus.NewPermanentErrorEvent(errors.New("the address is in use")))
	assert.Equal(t, []componentstatus.Status{componentstatus.StatusPermanentError}, host.Statuses())
}
