package gpuk8sprocessor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap/confmaptest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.yaml.in/yaml/v3"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pdatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// Each directory in testdata/golden is one test case. The directory's name is a sentence that
// describes the expected behavior. The steps.yaml file lists the sources' responses and the
// scrapes, in order. If a step in steps.yaml omits the response of a source, the source's previous
// response still applies. The output.txt file contains the expected output, one point per line,
// followed by the self-metrics. The optional config.yaml file contains the processor's
// configuration. In all files, GPU-1 and MIG-1 stand for full UUIDs.
func TestGolden(t *testing.T) {
	dirs, played := goldentest.Dirs(t), 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			played++
			text, err := os.ReadFile(filepath.Join(dir, "steps.yaml"))
			require.NoError(t, err)
			var steps []step
			require.NoError(t, yaml.Unmarshal([]byte(lengthen(string(text))), &steps))
			got := play(t, dir, steps, false)
			for range 5 {
				assert.Equal(t, got, play(t, dir, steps, true), "the output does not depend on the order of points")
			}
			goldentest.Compare(t, dir, got)
		})
	}
	if played == len(dirs) { // If -run selects only some of the directories, framesCompared is not checked.
		assert.Greater(t, framesCompared.Load(), int64(20), "batches that were also processed as frames")
	}
}

// framesCompared is the number of batches that were processed a second time, as frames.
var framesCompared atomic.Int64

// step describes one point in time in a test script.
type step struct {
	At string
	// Kubelet contains the devices in the kubelet's PodResources response, by
	// namespace/pod/container. Each device has the format "[resource=]id" or "claim
	// driver/pool/device [share]". The default resource is nvidia.com/gpu.
	Kubelet *struct {
		State   string
		Devices map[string][]string
		Claims  map[string][]string
	}
	Pods *[]struct {
		Name, UID, Created string
		Ended              bool
		Static             string   // Static is the UID that the kubelet uses for a static pod.
		Claims             []string // The format is container=claim[/request].
		Containers         []string // The format is container=id.
		Owner              struct {
			Deployment, Job, Kind, Workload, Kueue string
			Labels                                 map[string]string
		}
		Scheduled scheduledPod `yaml:",inline"`
	}
	// Slices contains one entry per device, in the format "driver/pool generation/count device
	// key=value…".
	Slices *[]string
	// SlicesHidden is true if ResourceSlices cannot be read.
	SlicesHidden *bool `yaml:"slices_hidden"`
	Claims       *[]struct {
		Name, UID string
		Results   []struct {
			Device, Request, Class, Share string
			Admin                         bool
		}
		For    []string // The format is pod=uid.
		Others bool     // Others is true if the claim is also reserved for unknown pods.
	}
	// Instances contains one entry per MIG instance, in the format "MIG-uuid GPU-uuid gi".
	Instances *[]string
	Sharing   string
	// HostType is the node's instance type. NodeLabels are the node's labels.
	HostType   string            `yaml:"host_type"`
	NodeLabels map[string]string `yaml:"node_labels"`
	// Scrape contains one point per line, in the format "[node=] [host=]
	// [pod=namespace/pod/container[/uid]] [job=] [container=] hw.id metric=value attribute=value…".
	// The default node is n1, and the default host is the node's name. The time= key overrides the
	// step's time. The metric value "stale" ends the series.
	Scrape string
}

var (
	short = regexp.MustCompile(`\b(GPU|MIG)-(\d)\b`)
	long  = regexp.MustCompile(`(GPU|MIG)-0{8}-0000-0000-0000-0{11}(\d)`)
)

func lengthen(s string) string {
	return short.ReplaceAllString(s, "$1-00000000-0000-0000-0000-00000000000$2")
}

func shorten(s string) string { return long.ReplaceAllString(s, "$1-$2") }

// newTestProcessor returns a processor that does not read any source. The test provides the
// sources' data.
func newTestProcessor(t testing.TB, dir string, set processor.Settings) *gpuK8s {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.NodeName = "n1"
	if file := filepath.Join(dir, "config.yaml"); dir != "" {
		if _, err := os.Stat(file); err == nil {
			conf, err := confmaptest.LoadConf(file)
			require.NoError(t, err)
			require.NoError(t, conf.Unmarshal(cfg))
		}
	}
	require.NoError(t, cfg.Validate())
	p, err := newProcessor(cfg, set)
	require.NoError(t, err)
	return p
}

// play runs the steps of a test script and returns the output as text.
func play(t *testing.T, dir string, steps []step, shuffled bool) string {
	t.Helper()
	p := newTestProcessor(t, dir, processortest.NewNopSettings(metadata.Type))
	handed := newTestProcessor(t, dir, processortest.NewNopSettings(metadata.Type))
	var current answers
	var b strings.Builder
	for i := range steps {
		s := &steps[i]
		at, err := time.ParseDuration(s.At)
		require.NoError(t, err)
		now := time.Unix(0, int64(at))
		if s.apply(t, &current, now) {
			copied := current.Sources
			copied.Listing.Containers = slices.Clone(current.Listing.Containers)
			copied.Pods = slices.Clone(current.Pods)
			all := slices.Clone(current.slices)
			copied.Claims = slices.Clone(current.Claims)
			if shuffled {
				shuffle(copied.Listing.Containers)
				shuffle(copied.Pods)
				shuffle(all)
				shuffle(copied.Claims)
			}
			devices, complete := readSlices(all, p.cfg.Sources.DRA.Drivers)
			copied.Devices, copied.SlicesHidden = devices, current.SlicesHidden || !complete
			p.tracker.Update(now, copied)
			handed.tracker.Update(now, copied)
		}
		if s.Scrape != "" {
			lines := strings.Split(strings.TrimSpace(s.Scrape), "\n")
			if shuffled {
				shuffle(lines)
			}
			md, err := p.processMetrics(context.Background(), parse(t, lines, at))
			require.NoError(t, err)
			goldentest.Contract(t, md)
			if pdatatest.AsFrames(t, pdatagpu.Sections(handed.section()).Process, parse(t, lines, at), md) {
				framesCompared.Add(1)
			}
			b.WriteString(render(md))
		}
	}
	stats := p.tracker.Stats()
	for r, n := range stats.Unattributed {
		if n > 0 {
			fmt.Fprintf(&b, "unattributed %s %d\n", attribution.Reason(r), n)
		}
	}
	if stats.Conflicts > 0 {
		fmt.Fprintf(&b, "conflicts %d\n", stats.Conflicts)
	}
	return shorten(b.String())
}

func shuffle[T any](s []T) { rand.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] }) }

var states = map[string]kube.Phase{"": kube.Synced, "current": kube.Synced, "old": kube.Stale, "off": kube.Off}

// answers contains the sources' current responses. The ResourceSlices are stored as API objects.
type answers struct {
	attribution.Sources
	slices []*resourcev1.ResourceSlice
}

// apply updates the sources' responses and reports whether any response has changed.
func (s *step) apply(t *testing.T, current *answers, now time.Time) bool {
	t.Helper()
	changed := s.Sharing != "" || s.Kubelet != nil || s.Pods != nil || s.Slices != nil || s.Claims != nil || s.Instances != nil || s.SlicesHidden != nil || s.HostType != ""
	if s.SlicesHidden != nil {
		current.SlicesHidden = *s.SlicesHidden
	}
	if s.HostType != "" {
		current.HostType, current.NodeLabels = s.HostType, s.NodeLabels
	}
	if s.Sharing != "" {
		current.Sharing = s.Sharing
	}
	if k := s.Kubelet; k != nil {
		current.Listing.State = states[k.State]
		if k.Devices != nil || k.Claims != nil || k.State == "" {
			current.Listing.Time = now.UnixNano()
			current.Listing.Containers = nil
		}
		names := slices.Sorted(maps.Keys(k.Devices))
		names = append(names, slices.Sorted(maps.Keys(k.Claims))...)
		for _, name := range slices.Compact(names) {
			n := strings.Split(name, "/")
			c := attribution.ContainerResources{Namespace: n[0], Pod: n[1], Container: n[2]}
			listed := listedBy(k.Devices[name])
			c.Devices, c.Others = listed.Devices, listed.Others
			for _, claim := range k.Claims[name] {
				f := append(strings.Fields(claim), "")
				c.Claimed = append(c.Claimed, attribution.ClaimedDevice{Namespace: n[0], Allocation: allocation(f[1], gpudata.Allocation{Claim: f[0], ShareID: f[2]})})
			}
			current.Listing.Containers = append(current.Listing.Containers, c)
		}
	}
	if s.Pods != nil {
		current.PodsState, current.Pods = kube.Synced, nil
		for _, p := range *s.Pods {
			created, err := time.ParseDuration(cmp.Or(p.Created, "0s"))
			require.NoError(t, err)
			namespace, name, _ := strings.Cut(p.Name, "/")
			pod := attribution.Pod{Namespace: namespace, Name: name, UID: p.UID, Created: int64(created), Ended: p.Ended}
			pod.StaticUID = p.Static
			pod.Owner = gpudata.NewOwner(gpudata.Ownership{
				Deployment: p.Owner.Deployment, Job: p.Owner.Job,
				WorkloadKind: p.Owner.Kind, Workload: p.Owner.Workload, KueueWorkload: p.Owner.Kueue, Labels: gpudata.NewLabels(p.Owner.Labels),
			})
			for _, c := range p.Containers {
				container, id, _ := strings.Cut(c, "=")
				pod.Containers = append(pod.Containers, attribution.PodContainer{Name: container, ID: id})
			}
			for _, c := range p.Claims {
				container, claim, _ := strings.Cut(c, "=")
				claim, request, _ := strings.Cut(claim, "/")
				pod.Claims = append(pod.Claims, kube.ContainerClaim{Container: container, Claim: claim, Request: request})
			}
			p.Scheduled.fill(&pod)
			current.Pods = append(current.Pods, pod)
		}
	}
	if s.Slices != nil {
		current.slices = nil
		for _, line := range *s.Slices {
			f := strings.Fields(line)
			driver, pool, _ := strings.Cut(f[0], "/")
			sl := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: pool}}}
			_, err := fmt.Sscanf(f[1], "%d/%d", &sl.Spec.Pool.Generation, &sl.Spec.Pool.ResourceSliceCount)
			require.NoError(t, err)
			d := resourcev1.Device{Name: f[2], Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
			for _, kv := range f[3:] {
				if k, v, set := strings.Cut(kv, "="); set {
					d.Attributes[resourcev1.QualifiedName(k)] = resourcev1.DeviceAttribute{StringValue: &v}
				} else {
					d.AllowMultipleAllocations = new(true)
				}
			}
			// Devices of the same pool and generation are put in one slice, unless the script sets
			// a slice count greater than 1.
			if n := len(current.slices); n > 0 && sl.Spec.Pool.ResourceSliceCount == 1 && current.slices[n-1].Spec.Pool.Name == pool &&
				current.slices[n-1].Spec.Driver == driver && current.slices[n-1].Spec.Pool.Generation == sl.Spec.Pool.Generation {
				current.slices[n-1].Spec.Devices = append(current.slices[n-1].Spec.Devices, d)
				continue
			}
			sl.Spec.Devices = append(sl.Spec.Devices, d)
			current.slices = append(current.slices, sl)
		}
	}
	if s.Claims != nil {
		current.ClaimsState, current.Claims = kube.Synced, nil
		for _, c := range *s.Claims {
			namespace, name, _ := strings.Cut(c.Name, "/")
			var pods []gpudata.Holder
			for _, p := range c.For {
				pod, uid, _ := strings.Cut(p, "=")
				pods = append(pods, gpudata.Holder{Namespace: namespace, Pod: pod, UID: uid})
			}
			for _, r := range c.Results {
				current.Claims = append(current.Claims, attribution.ClaimedDevice{
					Namespace: namespace, Admin: r.Admin, ReservedFor: pods, ForOthers: c.Others,
					Allocation: allocation(r.Device, gpudata.Allocation{Claim: name, ClaimUID: c.UID, Request: r.Request, Class: r.Class, ShareID: r.Share}),
				})
			}
		}
	}
	if s.Instances != nil {
		current.Instances = nil
		for _, line := range *s.Instances {
			f := strings.Fields(line)
			current.Instances = append(current.Instances, attribution.Instance{MIGUUID: f[0], UUID: f[1], GPUInstance: f[2]})
		}
	}
	return changed
}

// allocation returns a copy of the given allocation with the given device. The device parameter has
// the format driver/pool/device.
func allocation(device string, a gpudata.Allocation) gpudata.Allocation {
	f := strings.Split(device, "/")
	a.Driver, a.Pool, a.Device = f[0], f[1], f[2]
	return a
}

// parse converts the lines of a scrape to a batch that has the same structure as the output of
// gpu_synthesizer.
func parse(t testing.TB, lines []string, at time.Duration) pmetric.Metrics {
	t.Helper()
	md := pmetric.NewMetrics()
	type group struct {
		slice  pmetric.MetricSlice
		byName map[string]pmetric.NumberDataPointSlice
	}
	groups := map[string]*group{}
	for _, line := range lines {
		fields := strings.Fields(line)
		node, pod, job, container := "n1", "", "", ""
		when := at
		cutField := func(key string, into *string) {
			if v, ok := strings.CutPrefix(fields[0], key+"="); ok {
				*into, fields = v, fields[1:]
			}
		}
		cutField("node", &node)
		host := node
		cutField("host", &host)
		cutField("pod", &pod)
		cutField("job", &job)
		cutField("container", &container)
		clock := ""
		if cutField("time", &clock); clock != "" {
			var err error
			when, err = time.ParseDuration(clock)
			require.NoError(t, err)
		}
		key := strings.Join([]string{node, host, pod, job, container}, " ")
		g := groups[key]
		if g == nil {
			rm := md.ResourceMetrics().AppendEmpty()
			attrs := rm.Resource().Attributes()
			attrs.PutStr(signal.HostName, host)
			attrs.PutStr(signal.K8sNodeName, node)
			n := append(strings.Split(pod, "/"), "", "", "", "")
			put(attrs, signal.K8sNamespaceName, n[0])
			put(attrs, signal.K8sPodName, n[1])
			put(attrs, signal.K8sContainerName, n[2])
			put(attrs, signal.K8sPodUID, n[3])
			put(attrs, signal.HPCJobID, job)
			put(attrs, signal.ContainerName, container)
			g = &group{rm.ScopeMetrics().AppendEmpty().Metrics(), map[string]pmetric.NumberDataPointSlice{}}
			groups[key] = g
		}
		name, value, _ := strings.Cut(fields[1], "=")
		contract, ok := signal.Lookup(name)
		if !ok {
			contract = &signal.Metric{Name: name, Unit: "1"}
		}
		dps, ok := g.byName[name]
		if !ok {
			m := g.slice.AppendEmpty()
			m.SetName(name)
			m.SetUnit(contract.Unit)
			m.SetDescription(contract.Description)
			if contract.Kind == signal.Gauge {
				dps = m.SetEmptyGauge().DataPoints()
			} else {
				m.SetEmptySum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
				m.Sum().SetIsMonotonic(contract.Kind == signal.Counter)
				dps = m.Sum().DataPoints()
			}
			g.byName[name] = dps
		}
		dp := dps.AppendEmpty()
		dp.SetTimestamp(pcommon.Timestamp(when))
		if fields[0] != "-" {
			dp.Attributes().PutStr(signal.HardwareID, fields[0])
			if board, instance, ok := strings.Cut(fields[0], "/gi"); ok {
				dp.Attributes().PutStr(signal.HardwareParent, board)
				dp.Attributes().PutStr(signal.MIGInstanceID, instance)
			}
		}
		for _, kv := range fields[2:] {
			k, v, _ := strings.Cut(kv, "=")
			if k == "since" {
				d, err := time.ParseDuration(v)
				require.NoError(t, err)
				dp.SetStartTimestamp(pcommon.Timestamp(d))
				continue
			}
			dp.Attributes().PutStr(k, v)
		}
		switch {
		case value == "stale":
			dp.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		case contract.Int:
			i, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			dp.SetIntValue(i)
		default:
			f, err := strconv.ParseFloat(value, 64)
			require.NoError(t, err)
			dp.SetDoubleValue(f)
		}
	}
	return md
}

// text returns the string value of an attribute, or "" if the attribute is missing.
func text(m pcommon.Map, key string) string {
	if v, ok := m.Get(key); ok {
		return v.AsString()
	}
	return ""
}

// put sets the attribute with the given key, unless the given value is empty.
func put(attrs pcommon.Map, key, value string) {
	if value != "" {
		attrs.PutStr(key, value)
	}
}

// render returns one line per point, sorted. Each line contains the time, Resource, metric,
// attributes, and value of the point. The host.name attribute is omitted.
func render(md pmetric.Metrics) string {
	var lines []string
	for p := range points.All(md) {
		v := strconv.FormatFloat(points.Value(p.NumberDataPoint), 'g', -1, 64)
		if p.Flags().NoRecordedValue() {
			v = "stale"
		}
		line := fmt.Sprintf("%4gs %s %s=%s %s", time.Duration(p.Timestamp()).Seconds(),
			pointtest.Text(p.Resource.Attributes(), signal.HostName), p.Metric.Name(), v, pointtest.Text(p.Attributes(), signal.HostName))
		if p.StartTimestamp() != 0 {
			line += fmt.Sprintf(" since %gs", time.Duration(p.StartTimestamp()).Seconds())
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// processMetrics processes one batch and returns the result.
func (p *gpuK8s) processMetrics(ctx context.Context, md pmetric.Metrics) (pmetric.Metrics, error) {
	a := &pdatagpu.Arrival{Metrics: md}
	_, err := pdatagpu.Sections(p.section()).Process(ctx, a)
	return a.Metrics, err
}
