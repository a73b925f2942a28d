package grants

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/deskhand/deskhand/desktop/fleet"
)

func newTestTokens(t *testing.T) *Store {
	t.Helper()
	all, err := fleet.Open(t.Context(), fleet.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	tokens := New(Config{
		StateDir: all.StateDir(), Logger: slog.New(slog.DiscardHandler),
		NewestRecording: func(string) (string, error) { return "rec_0", nil },
	})
	t.Cleanup(func() {
		tokens.Close()
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	return tokens
}

// TestTokensExpireInSleep: a token whose time has passed by the wall clock is over, and
// what it is used for ends, although little time has passed in this program.
func TestTokensExpireInSleep(t *testing.T) {
	t.Parallel()
	tokens := newTestTokens(t)
	g := &Grant{Scope: ScopeAdmin}
	value, err := tokens.Create(g, time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	if found := tokens.Find(value); found != g {
		t.Fatalf("the token is %v", found)
	}
	tokens.mu.Lock()
	g.Expires = time.Now().Round(0).Add(-time.Second)
	tokens.setAlarm() // as the clock does when the system resumes
	tokens.mu.Unlock()
	select {
	case <-g.ctx.Done():
	case <-time.After(time.Minute):
		t.Error("what the token is used for goes on")
	}
	if tokens.Find(value) != nil {
		t.Error("the token is accepted")
	}
	if list, err := tokens.List(); err != nil || len(list) != 0 {
		t.Errorf("tokens are listed: %v, %v", list, err)
	}
}

// TestTokenOfProcess: a process has one token, which ends with it and when it is revoked.
func TestTokenOfProcess(t *testing.T) {
	t.Parallel()
	tokens := newTestTokens(t)
	token := func(process context.Context) string {
		t.Helper()
		value, err := tokens.AgentToken(process, "main", "mock")
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	type key struct{}
	first, end := context.WithCancel(t.Context())
	second := context.WithValue(t.Context(), key{}, "second")
	one, two := token(first), token(second)
	if one == two || token(first) != one {
		t.Errorf("the tokens %q and %q of two processes", one, two)
	}
	g := tokens.Find(one)
	end()
	<-g.ctx.Done()
	if tokens.Find(one) != nil {
		t.Error("the token of a process that has ended is accepted")
	}
	if err := tokens.Revoke(tokens.Find(two).ID); err != nil {
		t.Fatal(err)
	}
	if tokens.Find(two) != nil {
		t.Error("a token that was revoked is accepted")
	}
	if token(second) != two {
		t.Error("a process whose token was revoked gets another one")
	}
	if err := tokens.Revoke("tok_NONE"); !errors.Is(err, ErrNotFound) {
		t.Errorf("revoke of no token: %v", err)
	}
}

// TestTokensAreBounded makes tokens until there are too many.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	tokens := newTestTokens(t)
	g := &Grant{Scope: ScopeView}
	if _, err := tokens.Create(g, time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	tokens.mu.Lock()
	tokens.making = 998 // as if other requests made them
	tokens.mu.Unlock()
	last := &Grant{Scope: ScopeView}
	if _, err := tokens.Create(last, time.Hour, nil); err != nil {
		t.Errorf("token 1000: %v", err)
	}
	_, err := tokens.Create(&Grant{Scope: ScopeView}, time.Hour, nil)
	if _, ok := errors.AsType[*LimitError](err); !ok || !strings.Contains(err.Error(), "1000") {
		t.Errorf("token 1001: %v, want a LimitError", err)
	}
	if err := tokens.Revoke(last.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Create(&Grant{Scope: ScopeView}, time.Hour, nil); err != nil {
		t.Errorf("after the end of another token: %v", err)
	}
}

// TestRevokedAgentGetsNoToken: a process whose token was revoked gets no other one, also after the
// desktop was deleted and made again.
func TestRevokedAgentGetsNoToken(t *testing.T) {
	t.Parallel()
	var tokens agentTokens
	value := tokens.token(t.Context(), "two", "agent", "rec_0")
	if !tokens.revoke(tokens.find(value).ID) {
		t.Fatal("the token is not there")
	}
	tokens.forget("two")
	if again := tokens.token(t.Context(), "two", "agent", "rec_0"); tokens.find(again) != nil {
		t.Errorf("after %q was revoked the process gets %q", value, again)
	}
	other, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := tokens.token(other, "two", "agent", "rec_0")
	tokens.forget("two")
	if again := tokens.token(other, "two", "agent", "rec_0"); again == first || tokens.find(again) == nil {
		t.Errorf("a process whose token %q ended with its desktop gets %q", first, again)
	}
}
