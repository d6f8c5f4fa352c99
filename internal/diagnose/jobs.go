package diagnose

import "slices"

// RecordNames records the holders that a row names. The job parameter is the batch job, or "" if
// the row names none. The container parameter is true if the row names a container.
func (d *Device) RecordNames(job string, container bool) {
	d.container = d.container || container
	if job != "" && !slices.Contains(d.jobs, job) {
		d.jobs = append(d.jobs, job)
	}
}

// If batch jobs hold the entire board, moveJobsToBoard stops counting them as holders of the
// board's MIG instances.
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
		in.hasHolder, in.ambiguous = in.container, true
	}
}
