package registry

// told is how far the last install of an agent was.
type told struct {
	Progress
	number  uint64        // of this progress, from 1
	changed chan struct{} // closed with the next one
}

// tell keeps a progress for those who follow.
func (r *Registry) tell(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.told[p.Agent]
	if t.changed != nil {
		close(t.changed)
	}
	r.told[p.Agent] = told{p, t.number + 1, make(chan struct{})}
}

// Progress tells how far the last install of an agent is, or was, whoever began
// it. number tells one progress from the next, zero is before the first;
// changed is closed when there is another. Who follows may miss some in
// between, never the last. Of an agent that does not exist, there is none.
func (r *Registry) Progress(id string) (p Progress, number uint64, changed <-chan struct{}) {
	if _, err := r.find(id); err != nil {
		return p, 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.told[id]
	if t.changed == nil {
		t.changed = make(chan struct{})
		r.told[id] = t
	}
	return t.Progress, t.number, t.changed
}

// Over says whether an install has ended.
func (s Stage) Over() bool { return s == StageDone || s == StageFailed }
