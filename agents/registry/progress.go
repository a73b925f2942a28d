package registry

// progress is the progress of the last install of an agent.
type progress struct {
	Progress
	number  uint64        // counts from 1
	changed chan struct{} // closed at the next progress
}

func (r *Registry) setProgress(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.installs[p.Agent]
	if t.changed != nil {
		close(t.changed)
	}
	r.installs[p.Agent] = progress{p, t.number + 1, make(chan struct{})}
}

// Progress returns the progress of the last install of an agent, by any caller. number
// counts the reports of progress; it is zero before the first install. changed is closed at
// the next report, and nil for an unknown agent. A follower may miss intermediate reports,
// but never the last.
func (r *Registry) Progress(id string) (p Progress, number uint64, changed <-chan struct{}) {
	if _, err := r.find(id); err != nil {
		return p, 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.installs[id]
	if t.changed == nil {
		t.changed = make(chan struct{})
		r.installs[id] = t
	}
	return t.Progress, t.number, t.changed
}

// Over reports whether an install has ended.
func (s Stage) Over() bool { return s == StageDone || s == StageFailed }
