package diagnose

import "slices"

// RecordNames records the holders that a row names. The job parameter is the batch job, or "" if
// the row names none. The hasContainer parameter is true if the row names a container.
func (d *Device) RecordNames(job string, hasContainer bool) {
	d.hasContainer = d.hasContainer || hasContainer
	if job != "" && !slices.Contains(d.jobs, job) {
		d.jobs = append(d.jobs, job)
	}
}

// If batch jobs hold the entire board, ignoreJobsOfBoard stops counting them as holders of the
// board's MIG instances.
func (d *Device) ignoreJobsOfBoard() {
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
		in.hasHolder, in.ambiguous = in.hasContainer, true
	}
}
