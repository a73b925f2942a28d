package grants

import (
	"context"
	"errors"
	"log/slog"
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
	first, end := context.WithCancel(t.Context())
	second := context.WithValue(t.Context(), struct{}{}, "second")
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
