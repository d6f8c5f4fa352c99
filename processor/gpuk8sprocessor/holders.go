package gpuk8sprocessor

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// attributionMetrics contains the metrics whose samples identify holders or users, and the metrics
// that are needed to validate usage.
var attributionMetrics = map[*signal.Metric]bool{
	signal.GPUDeviceHolder:            true,
	signal.K8sContainerGPUMemoryUsage: true, signal.K8sContainerGPUUtilization: true,
	signal.HwGPUMemoryUsage: true, signal.HwGPUMemoryLimit: true, signal.HwGPUUtilization: true,
	signal.ProcessGPUMemoryUsage: true, signal.ProcessGPUUtilization: true, signal.GPUProcessCount: true,
}

// attribute sets the holders of each device, and finds the containers of users and processes.
func (p *gpuK8s) attribute(frames []*gpudata.Frame, now time.Time) (c batchCounts) {
	ownDevices := map[string]gpudata.Description{}
	for _, f := range frames {
		list := &attribution.UserList{Time: f.Time, Devices: map[string]attribution.DeviceUsers{}}
		p.nodes.With(f.Place, now, func(n *nodeState) {
			p.jobs.deleteExpired(n, now)
			for _, d := range f.Devices {
				if d.Observed && p.isOwnNode(f) {
					ownDevices[d.Device.ID()] = d.Description
				}
				p.setProcessHolders(n, now, d, list, &c)
			}
			if len(list.Devices) > 0 {
				n.users.Store(list)
			}
		})
	}
	if len(ownDevices) > 0 {
		p.tracker.StoreDevices(now, ownDevices)
	}
	hostType, labels := p.tracker.Node()
	for _, f := range frames {
		partitioned := map[string]bool{} // boards with instances
		for _, d := range f.Devices {
			if d.Parent != "" && d.Present() {
				partitioned[d.Parent] = true
			}
		}
		p.nodes.With(f.Place, now, func(n *nodeState) {
			for _, d := range f.Devices {
				p.setHolders(n, now, f, d, partitioned[d.Device.ID()], &c)
			}
		})
		if p.isOwnNode(f) {
			f.HostType = cmp.Or(hostType, f.HostType)
			if labels != nil {
				f.NodeLabels = labels
			}
			p.setOwners(f)
		}
		f.Share(&p.attribution)
		for _, d := range f.Devices {
			shareAsHolders(d)
		}
		p.nodes.With(f.Place, now, func(n *nodeState) { n.placement.StoreFrame(now, f) })
	}
	for _, f := range frames {
		p.nodes.With(f.Place, now, func(n *nodeState) { p.assignDevices(n, f, &c) })
	}
	return c
}

// setOwners sets the owner, such as a Deployment, of each pod that uses a device in the frame.
func (p *gpuK8s) setOwners(f *gpudata.Frame) {
	for _, d := range f.Devices {
		for _, u := range d.Users {
			u.Owner = cmp.Or(p.tracker.Owner(u.Holder.UID), u.Owner)
		}
		for _, process := range d.Processes {
			process.Owner = cmp.Or(p.tracker.Owner(process.Holder.UID), process.Owner)
		}
	}
}

// isOwnNode reports whether the frame comes from the node whose kubelet the processor reads.
func (p *gpuK8s) isOwnNode(f *gpudata.Frame) bool {
	return p.cfg.NodeName != "" && f.Place.Node == p.cfg.NodeName
}

// setProcessHolders finds the container of each process on the device, except processes for which
// the input already names a pod. If the frame contains a process list for the device,
// setProcessHolders also adds the device's users to the given UserList. If no process belongs to a
// container or a job, the device has no users.
func (p *gpuK8s) setProcessHolders(n *nodeState, now time.Time, d *gpudata.DeviceFrame, list *attribution.UserList, c *batchCounts) {
	listed := d.Listed
	var users []gpudata.Holder
	for _, process := range d.Processes {
		if process.Holder.Pod != "" {
			continue
		}
		user, found := process.Holder, true
		samples := process.Samples.All()
		if user.IsZero() || user.InPod() {
			user, found = p.tracker.Container(user.UID, process.ContainerID)
		}
		switch {
		case found && !p.jobs.admit(n, now, user):
			process.Holder = gpudata.Holder{}
			c.refused++
		case found:
			process.Holder = user
		case process.Holder.UID != "":
			c.unknown += int64(len(samples))
		}
		if !process.IsListed() {
			continue
		}
		listed = true
		// Exporters and other monitoring agents run processes on every device but do not hold
		// devices.
		if found && !exporters.IsMonitoringAgent(user) && !p.tracker.Reserves(user) {
			users = append(users, user)
		}
	}
	if listed {
		list.Devices[d.Device.ID()] = attribution.DeviceUsers{Users: users, Empty: d.Listed && d.Count == 0 && len(d.Processes) == 0}
	}
}

// setHolders sets the holders of a device. The partitioned parameter is true if the device is a
// board that has MIG instances.
func (p *gpuK8s) setHolders(n *nodeState, now time.Time, f *gpudata.Frame, d *gpudata.DeviceFrame, partitioned bool, c *batchCounts) {
	isOwn, id := p.isOwnNode(f), d.Device.ID()
	var entry *attribution.Entry
	if isOwn {
		if entry = p.tracker.Lookup(id, f.Time); entry != nil {
			d.Complete(&entry.Facts)
		}
		if partitioned {
			entry = entry.Cut()
		}
	}
	check := newUsageCheck(d)
	input := d.TakeUsers()
	var labels, users []attribution.Holding
	observed, replicas, reserved := d.Observed, false, false
	for _, u := range input {
		h, ended := u.Holder, false
		if isOwn && p.tracker.Reserves(h) || catalogue.IsReservation(h) {
			// The holders are the pods in the reservation pod's group, but the labels do not
			// identify the group.
			observed, reserved = observed || u.Holds, reserved || u.Holds
			continue
		}
		if isOwn && h.Pod != "" {
			h.UID, ended = p.tracker.Pod(h.Namespace, h.Pod, h.UID, f.Time)
		}
		if u.Holds {
			observed = true
			if !ended {
				labels = append(labels, attribution.Holding{Holder: h, Allocation: u.Allocation, Replicas: u.Replicas})
				replicas = replicas || u.Strategy == signal.SharingTimeSlicing
			}
		}
		if !p.jobs.admit(n, now, h) {
			c.refused++
			continue
		}
		if check.addUsage(d, u, h, &c.dropped) && !ended {
			users = append(users, attribution.Holding{Holder: h})
		}
	}
	jobsKnown := true
	if reserved {
		labels = nil
	} else if len(labels) == 0 {
		// Read the job mapping files only if there are no labels. An exporter that reads the job
		// mapping files adds job labels itself.
		var jobs []string
		jobs, jobsKnown = p.mapping.jobsOn(d, f.Time)
		for _, job := range jobs {
			if !p.jobs.admit(n, now, gpudata.Holder{Job: job}) {
				c.refused++
			}
			labels = append(labels, attribution.Holding{Holder: gpudata.Holder{Job: job}})
			observed = observed || d.Observed
		}
	}
	processUsers, empty := n.users.Users(id, f.Time)
	for _, h := range processUsers {
		if !p.tracker.HasEnded(h.UID, f.Time) {
			users = append(users, attribution.Holding{Holder: h})
		}
	}
	decision := attribution.Decide(entry, f.Time, labels, users, replicas)
	refused := slices.ContainsFunc(decision.Holders, func(h attribution.Holding) bool { return !p.jobs.admit(n, now, h.Holder) })
	if refused {
		// If a job is refused, all holders of the device must be unknown. If the other holders were
		// reported as known, they would be charged for the refused job's share.
		decision = attribution.Decision{}
	}
	isFree := empty && jobsKnown && !refused && p.cfg.outsideKubernetes()
	holdersKnown := decision.HoldersKnown || isFree
	d.HoldersKnown = observed && (holdersKnown || len(decision.Holders) > 0)
	for i := range decision.Holders {
		h := &decision.Holders[i]
		u := d.User(h.Holder)
		u.Holds, u.Source, u.Strategy, u.Allocation = true, decision.Source, decision.Strategy, h.Allocation
		u.Replicas = h.Replicas
	}
	for _, u := range d.Users { // Keep the owners that the input contains.
		for _, from := range input {
			if u.Holder.Same(from.Holder) {
				u.Owner = cmp.Or(u.Owner, from.Owner)
			}
		}
	}
}

// shareAsHolders sets the sharing strategy of users that are not holders. If a sharer of the device
// (see [gpudata.Frame.Share]) is the same container as the user, the user gets the sharer's
// strategy. Otherwise, the user's strategy is unknown.
func shareAsHolders(d *gpudata.DeviceFrame) {
	for _, u := range d.Users {
		if u.Holds {
			continue
		}
		u.Strategy = signal.SharingUnknown
		if s := d.Sharer(u.Holder); s != nil {
			u.Strategy = s.Strategy
		}
	}
}
