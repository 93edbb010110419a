package workflows

import "time"

// pace says when an app tells its parent of what there is to tell, or a batch its app. Temporal takes 10,000 signals to a run and 51,200 events of it,
// so who always has something to tell does it the rarer the longer it goes on. An example, of a run that has told something all the time: after
// a minute it does so once a second, after an hour once a minute. Who had nothing to tell for a while is heard at once.
type pace struct {
	// beside is how many tell the same parent, 0 in a run of before, which may have told more than is told now.
	beside int
	batch  bool // it is a batch that tells its app: it never waits long, as others go by what it tells, see passOver

	told int
	last time.Duration // the wait of before, as reports has it
	due  time.Duration // at which age of the run as much was told as may be until then
}

// wait is how long what is to be told has to wait, in a run of an age that had nothing to tell for so long. It is false when nothing more
// may be told.
func (p *pace) wait(age, idle time.Duration) (wait time.Duration, ok bool) {
	if p.spent() {
		return 0, false
	}
	p.told++
	if idle > p.last { // nobody waits long for the first news
		p.last = 0
	}
	p.last = reports.After(p.last)
	if p.batch {
		p.due = min(p.due, age+rarer(longestReport, p.beside))
	}
	wait = max(p.last, p.due-age)
	p.due += p.next()
	return wait, true
}

// next is the time for which a report is good.
func (p *pace) next() time.Duration {
	if p.batch {
		return rarer(max(reports.Most, p.due/reportPart), p.beside)
	}
	return max(reports.Most, p.due/reportPart*time.Duration(max(p.beside, reportingApps))/reportingApps)
}

// spent says whether all is told that may be. A batch keeps one report back, see quiet.
func (p *pace) spent() bool {
	if p.batch {
		return (p.told+2)*p.beside > mostOfBatches
	}
	return p.told*p.beside > mostReports
}

// rarer is a time between reports of batches, or between looks at what they have told, in an app that has so many of them.
func rarer(d time.Duration, batches int) time.Duration {
	return d * time.Duration(max(batches, reportingBatches)) / reportingBatches
}

// stillAfter is how long so many batches are looked at before one counts as still, in an app of an age: longer than they wait with what they have
// to tell.
func stillAfter(age time.Duration, batches int) time.Duration {
	return max(rarer(max(patience, min(age/(reportPart/2), longestStill)), batches), age/stillPart)
}
