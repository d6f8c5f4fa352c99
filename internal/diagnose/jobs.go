package diagnose

import "slices"

// RecordNames records which holders a row names: the batch job, which may be empty, and whether the
// row names a container.
func (d *Device) RecordNames(job string, container bool) {
	d.container = d.container || container
	if job != "" && !slices.Contains(d.jobs, job) {
		d.jobs = append(d.jobs, job)
	}
}

// moveJobsToBoard stops counting batch jobs as holders of the MIG instances if the jobs hold the
// entire board.
func (d *Device) moveJobsToBoard() {
	if d.scrape.exporter().JobsOfBoard == nil {
		return
	}
	jobs := make([][]string, len(d.instances))
	for i, in := range d.instances {
		slices.Sort(in.jobs)
		jobs[i] = in.jobs
	}
	if !d.scrape.exporter().JobsOfBoard(jobs) {
		return
	}
	for _, in := range d.instances {
		in.hostsWithHolders, in.ambiguous = in.container, true
	}
}
