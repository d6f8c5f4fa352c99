package diagnose

import "slices"

// Names records the holder in a row: the job, which may be empty, and whether the row names a
// container.
func (d *Device) Names(job string, container bool) {
	d.container = d.container || container
	if job != "" && !slices.Contains(d.jobs, job) {
		d.jobs = append(d.jobs, job)
	}
}

// moveJobsToBoard removes a job from the holders of the instances if all instances of a board have
// the same job, because the job then holds the board.
func (d *Device) moveJobsToBoard() {
	if !d.scrape.exporter().RepeatsJobs || len(d.instances) < 2 || len(d.instances[0].jobs) == 0 {
		return
	}
	for _, in := range d.instances {
		slices.Sort(in.jobs)
		if !slices.Equal(in.jobs, d.instances[0].jobs) {
			return
		}
	}
	for _, in := range d.instances {
		in.hostsWithHolders, in.ambiguous = in.container, true
	}
}
