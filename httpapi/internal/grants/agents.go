package grants

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// agentTokens are the tokens with which agents that run here use desktops. They are
// kept in memory alone: the agents end with this server.
type agentTokens struct {
	mu     sync.Mutex                      // guards the fields below
	grants map[context.Context]*agentToken // by the agent's process
}

type agentToken struct {
	value string
	grant *Grant
}

// token returns the token by which an agent's process uses a desktop, and only that.
// It ends with the process. newest is the id of the desktop's newest recording.
func (t *agentTokens) token(process context.Context, desktopID, agent, newest string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g, ok := t.grants[process]; ok {
		return g.value
	}
	value := "dha_" + rand.Text()
	g := &Grant{
		ID: newTokenID(), Name: agent, Scope: ScopeAgent, Desktop: desktopID,
		made: time.Now(), NewestRecording: newest, Hash: hashOf(value), actorID: AgentActor(agent).ID,
	}
	g.Created = g.made.UTC()
	g.ctx, g.end = context.WithCancel(process)
	if t.grants == nil {
		t.grants = map[context.Context]*agentToken{}
	}
	t.grants[process] = &agentToken{value, g}
	context.AfterFunc(process, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.grants, process)
	})
	return value
}

// AgentActor is the actor of an agent that runs here and uses a desktop.
func AgentActor(agent string) desktop.Actor {
	return desktop.Actor{Kind: desktop.ActorAgent, Name: agent, ID: "agent_" + agent}
}

// find returns the grant of a token, or nil.
func (t *agentTokens) find(value string) *Grant {
	if !strings.HasPrefix(value, "dha_") {
		return nil
	}
	hash := hashOf(value)
	for _, g := range t.list() {
		if g.Hash == hash {
			return g
		}
	}
	return nil
}

// list returns the valid tokens in the order of their making.
func (t *agentTokens) list() []*Grant {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*Grant
	for _, g := range t.grants {
		if !g.grant.Over() {
			list = append(list, g.grant)
		}
	}
	slices.SortFunc(list, func(a, b *Grant) int { return a.Created.Compare(b.Created) })
	return list
}

// revoke ends a token. It returns false if there is none with that id. The process
// gets no other one.
func (t *agentTokens) revoke(id string) bool {
	for _, g := range t.list() {
		if g.ID == id {
			g.end()
			return true
		}
	}
	return false
}

// forget ends the tokens of a desktop that was deleted. A process whose token was revoked
// gets no other one.
func (t *agentTokens) forget(desktopID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for process, g := range t.grants {
		if g.grant.Desktop == desktopID && !g.grant.Over() {
			delete(t.grants, process)
			g.grant.end()
		}
	}
}
