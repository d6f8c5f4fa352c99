package gpudata

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestABoardIsSharedByTheHoldersOfItsInstances(t *testing.T) {
	f := &Frame{Place: Place{Node: "n1"}, Time: 1}
	holds := func(id string, h Holder) {
		u := f.Device(id).User(h)
		u.Holds, u.Strategy = true, signal.SharingNone
	}
	board := f.Device("GPU-1")
	for _, id := range []string{"GPU-1/gi7", "GPU-1/gi8"} {
		f.Device(id).Parent = "GPU-1"
	}
	a, b := Holder{Namespace: "ns", Pod: "a", UID: "u"}, Holder{Namespace: "ns", Pod: "b"}
	holds("GPU-1", Holder{Namespace: "ns", Pod: "a"})
	holds("GPU-1", Holder{Job: "7"})
	holds("GPU-1/gi7", a)
	holds("GPU-1/gi7", b)
	holds("GPU-1/gi8", b)
	f.Device("GPU-1/gi8").User(a) // the user with holder a uses the instance but does not hold it

	f.Share(&Attribution{})
	share := func(d *DeviceFrame) (who []string) {
		for _, u := range d.Sharers {
			who = append(who, u.Holder.Pod+u.Holder.Job+" "+u.Strategy)
		}
		return who
	}
	assert.Equal(t, []string{"a none", "7 none", "b mig"}, share(board), "each once")
	assert.Equal(t, []string{"b none"}, share(f.Device("GPU-1/gi8")))
}

// The number of users must not change which holders are the same.
func TestAUserIsFoundByEveryHolderThatIsTheSame(t *testing.T) {
	for _, others := range []int{0, 100} {
		d := (&Frame{Place: Place{Node: "n1"}, Time: 1}).Device("GPU-1")
		for i := range others {
			d.User(Holder{Namespace: "ns", Pod: fmt.Sprint("pod-", i)})
			d.User(Holder{Job: fmt.Sprint(1000 + i)})
			d.User(Holder{Name: fmt.Sprint("other-", i)})
		}
		for _, same := range [][]Holder{
			{{Namespace: "ns", Pod: "p", Container: "c"}, {Namespace: "ns", Pod: "p", UID: "u", Container: "c"}},
			{{Job: "7"}, {Job: "7", Name: "slurm"}, {Job: "7", ID: "0123"}},
			{{Name: "web"}, {Name: "web", ID: "abcd"}, {ID: "abcd"}},
		} {
			n := len(d.Users)
			// The second holder has the most attributes, so the others are the same holder.
			want := d.SameUser(same[1])
			for _, h := range same {
				assert.Same(t, want, d.SameUser(h), "%+v beside %d users", h, n)
			}
			assert.Len(t, d.Users, n+1)
		}
	}
}

func TestASeriesKeepsTheHighestOfItsValues(t *testing.T) {
	var s Samples
	s.AddHighest(Sample{Metric: signal.K8sContainerGPUMemoryUsage, Ended: true})
	for _, v := range []float64{1, 3, 2} {
		s.AddHighest(Sample{Metric: signal.K8sContainerGPUMemoryUsage, Value: v})
	}
	s.AddHighest(Sample{Metric: signal.K8sContainerGPUMemoryUsage, Ended: true})
	s.AddHighest(Sample{Metric: signal.K8sContainerGPUUtilization, Value: 1})
	assert.Equal(t, []Sample{
		{Metric: signal.K8sContainerGPUMemoryUsage, Value: 3}, {Metric: signal.K8sContainerGPUUtilization, Value: 1},
	}, s.All())
}

func TestCompleteSetsMissingFields(t *testing.T) {
	d := Description{Model: "H100", Allocation: Allocation{Claim: "mine"}}
	d.Complete(&Description{Model: "A100", Profile: "1g.10gb", Allocation: Allocation{Claim: "other", Driver: "gpu.nvidia.com", Pool: "n1", Device: "gpu-0"}})
	assert.Equal(t, Description{
		Model: "H100", Profile: "1g.10gb",
		Allocation: Allocation{Claim: "mine", Driver: "gpu.nvidia.com", Pool: "n1", Device: "gpu-0"},
	}, d)
}

// A client can send any number of users and processes, so lookups must not search through all of
// them.
func TestManyUsersAndProcessesAreFoundLikeFew(t *testing.T) {
	d := (&Frame{}).Device("GPU-1")
	holder := func(i int) Holder {
		return Holder{Namespace: "ns", Pod: fmt.Sprint("pod-", i), UID: fmt.Sprint("uid-", i), Container: "c"}
	}
	const n = 20_000
	for i := range n {
		d.User(holder(i)).Holds = true
		d.Process(fmt.Sprint(i)).Holder = holder(i)
	}
	for i := range n {
		h := holder(i)
		require.Equal(t, h, d.User(h).Holder)
		h.UID = ""
		require.Equal(t, holder(i), d.SameUser(h).Holder, "the UID is unknown")
		require.Equal(t, holder(i), d.Process(fmt.Sprint(i)).Holder)
	}
	assert.Len(t, d.Users, n)
	assert.Len(t, d.Processes, n)
	require.Equal(t, Holder{Namespace: "ns", Pod: "pod-1", Container: "c"}, d.User(Holder{Namespace: "ns", Pod: "pod-1", Container: "c"}).Holder,
		"another user matches exactly")
	assert.Len(t, d.TakeUsers(), n+1)
	assert.Empty(t, d.Users)
	assert.NotNil(t, d.User(holder(1)))
	assert.Len(t, d.Users, 1)
}

func TestWhoHoldsADevice(t *testing.T) {
	job := NewOwner(Ownership{WorkloadKind: "Job", Workload: "llama"})
	pod := func(name string) Holder { return Holder{Namespace: "team", Pod: name} }
	for name, c := range map[string]struct {
		users          []User
		known, decided bool // known: the holders are known; decided: gpu_k8s has determined the holders
		workload       Workload
		held, isKnown  bool
	}{
		"nobody is known":               {known: true, decided: true, isKnown: true},
		"nothing is known":              {decided: true},
		"two pods of one job":           {users: []User{{Holder: pod("a"), Owner: job, Holds: true}, {Holder: pod("b"), Owner: job, Holds: true}}, workload: Workload{Namespace: "team", Kind: "Job", Name: "llama"}, held: true, isKnown: true},
		"pods of two workloads":         {users: []User{{Holder: pod("a"), Owner: job, Holds: true}, {Holder: pod("b"), Holds: true}}, held: true, isKnown: true},
		"a container that only uses it": {users: []User{{Holder: pod("a")}}},
		"a batch job":                   {users: []User{{Holder: Holder{Job: "7"}, Holds: true}}, workload: Workload{Kind: "job", Name: "7"}, held: true, isKnown: true},
		"labels that gpu_k8s rejects":   {users: []User{{Holder: pod("a"), Holds: true}}, decided: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Frame{}
			d := f.Device("GPU-1")
			for i := range c.users {
				d.AddUser(&c.users[i])
			}
			d.HoldersKnown = c.known
			if c.decided {
				f.Attribution = &Attribution{}
			}
			workload, held, known := f.HeldBy(d)
			assert.Equal(t, c.workload, workload)
			assert.Equal(t, []bool{c.held, c.isKnown}, []bool{held, known})
		})
	}
}
