package agents

import (
	"strconv"
	"sync/atomic"
)

// call is a message to the agent, from a client or from the host itself.
type call struct {
	env    *envelope
	weight int64
	reply  chan reply // gets one

	internal  bool             // from the host: clients do not see its answer
	origin    string           // of the session that it makes
	want      string           // the id that this session gets; empty: the agent's
	opens     *attachedSession // the session that it loads or resumes; nil: see attached
	continues string           // the session whose history the made or opened session has; empty: none
	edits     []byte           // what the agent gets instead of env.raw; nil: that
	policy    *Policy          // of the session that it makes
	title     string           // the same
	skills    string           // the same: the hash of its own skills
	goesOn    bool             // it is refused unless the session that it names is attached
	givenUp   atomic.Bool      // a late answer makes or opens no session any more
	accepted  chan struct{}    // nil, or closed once it is in the log
	replayed  int              // updates that it caused and clients did not get
	problems  []string         // what of the configuration did not work

	outID    int64            // its id as the agent knows it
	session  string           // the id of the session that it names
	attached *attachedSession // that session; nil: it is not attached
	asked    int64            // its number in the session's stream; 0: it is not there
	seq      int64            // the number of its answer in the server's stream; 0: it is not there
}

// reply is the end of a call: the answer, or nothing for what has none.
type reply struct {
	raw []byte
	err error
}

// maxPending is how many requests may wait for an agent's answers.
const maxPending = 4096

// pendingCalls holds the requests that the agent has not answered, by the ids that
// the agent knows. agentProcess.run owns it.
type pendingCalls struct {
	lastID int64
	byID   map[int64]*call
}

// add gives a request an id of the host's own: clients choose theirs without
// knowing of each other. It returns the id as JSON.
func (p *pendingCalls) add(c *call) (id []byte) {
	p.lastID++
	c.outID = p.lastID
	p.byID[c.outID] = c
	return strconv.AppendInt(nil, c.outID, 10)
}

func (p *pendingCalls) remove(c *call) { delete(p.byID, c.outID) }

// answeredBy returns the request with the id that a response has, or nil.
func (p *pendingCalls) answeredBy(id []byte) *call {
	n, err := strconv.ParseInt(idKey(id), 10, 64)
	if err != nil {
		return nil
	}
	return p.byID[n]
}

// opening returns the session that a request loads or resumes, or nil.
func (c *call) opening() *attachedSession {
	if c.opens != nil {
		return c.opens
	}
	return c.attached
}

// outgoingID returns the agent's id of the newest request that a client gave an id.
func (p *pendingCalls) outgoingID(id []byte) (out int64, ok bool) {
	key := idKey(id)
	for n, c := range p.byID {
		if n > out && !c.internal && idKey(c.env.bytes(c.env.id)) == key {
			out, ok = n, true
		}
	}
	return out, ok
}
