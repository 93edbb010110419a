package workflows

import "time"

// pace says when an app tells its parent of what there is to tell. Temporal takes 10,000 signals to a run and 51,200 events of it, so who
// always has something to tell does it the rarer the longer it goes on. An example, of a run that has told something all the time: after
// a minute it does so once a second, after an hour once a minute. Who had nothing to tell for a while is heard at once.
type pace struct {
	beside int           // how many apps tell the same parent, 0 in a run of before, which may have told more than is told now
	most   time.Duration // the longest wait, 0 for any

	told int
	last time.Duration // the wait of before, as reports has it
	due  time.Duration // at which age of the run as much was told as may be until then
}

// wait is how long what is to be told has to wait, in a run of an age that had nothing to tell for so long. It is false when nothing more
// may be told.
func (p *pace) wait(age, idle time.Duration) (wait time.Duration, ok bool) {
	if p.most == 0 && p.told*p.beside > mostReports {
		return 0, false
	}
	p.told++
	if idle > p.last { // nobody waits long for the first news
		p.last = 0
	}
	p.last = reports.After(p.last)
	if p.most > 0 {
		p.due = min(p.due, age+p.most)
	}
	wait = max(p.last, p.due-age)
	p.due += max(reports.Most, p.due/reportPart*time.Duration(max(p.beside, reportingApps))/reportingApps)
	return wait, true
}

// stillAfter is how long batches are looked at before one counts as still, in an app of an age: longer than they wait with what they have
// to tell.
func stillAfter(age time.Duration) time.Duration {
	return max(patience, min(age/(reportPart/2), longestStill))
}
