package diagnose

import "slices"

// Names notes whom a row names: a job, which may be empty, and maybe a container that holds the
// device.
func (d *Device) Names(job string, container bool) {
	d.container = d.container || container
	if job != "" && !slices.Contains(d.jobs, job) {
		d.jobs = append(d.jobs, job)
	}
}

// judgeJobs makes jobs that all instances of the board name alike no holders of the instances:
// they are the board's.
func (d *Device) judgeJobs() {
	if !d.scrape.of().RepeatsJobs || len(d.instances) < 2 || len(d.instances[0].jobs) == 0 {
		return
	}
	for _, in := range d.instances {
		slices.Sort(in.jobs)
		if !slices.Equal(in.jobs, d.instances[0].jobs) {
			return
		}
	}
	for _, in := range d.instances {
		in.held, in.untold = in.container, true
	}
}
