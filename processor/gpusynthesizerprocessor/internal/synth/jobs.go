package synth

import "slices"

// addJob adds a job that is named in a row.
func (a *accumulator) addJob(job string) {
	if job == "" {
		return
	}
	if i, known := slices.BinarySearch(a.jobs, job); !known {
		a.jobs = slices.Insert(a.jobs, i, job)
	}
}

// dropBoardJobs removes the jobs from the instances if the exporter lists all jobs of the board on
// the rows of every instance. In that case, it is unknown which instance each job uses.
func (a *accumulator) dropBoardJobs() {
	if a.device.of.JobsOfBoard == nil || len(a.instances[0].jobs) == 0 {
		return
	}
	jobs := make([][]string, len(a.instances))
	for i, in := range a.instances {
		jobs[i] = in.jobs
	}
	if !a.device.of.JobsOfBoard(jobs) {
		return
	}
	for _, in := range a.instances {
		in.dropHolders(func(h *holder) bool { return h.Job != "" })
	}
}

// dropHolders removes all matching holders, together with their usage.
func (a *accumulator) dropHolders(which func(*holder) bool) {
	kept := 0
	for i := range a.holders {
		at := kept
		if which(&a.holders[i]) {
			at = -1
		} else {
			a.holders[kept] = a.holders[i]
			kept++
		}
		for k := range a.usage {
			if u := &a.usage[k]; u.holder == i {
				u.holder = at
			}
		}
	}
	a.holders = a.holders[:kept]
	a.usage = slices.DeleteFunc(a.usage, func(u usage) bool { return u.holder < 0 })
}
