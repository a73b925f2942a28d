package agents_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/registry"
)

func Example() {
	ctx := context.Background()
	events, err := eventlog.Open(ctx, eventlog.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	known, err := registry.New(registry.Config{Mock: []string{"/nonexistent"}}) // the mock agent runs in this program
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = known.Close() }()
	h, err := agents.Start(ctx, agents.Config{Log: events, Registry: known})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	dir, err := os.Getwd()
	if err != nil {
		log.Fatal(err)
	}
	if _, err := h.CreateSession(ctx, "mine", agents.SessionOptions{Agent: "mock", Cwd: dir}); err != nil {
		log.Fatal(err)
	}
	turn, err := h.Prompt(ctx, "mine", []byte(`[{"type":"text","text":"hello"}]`))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := turn.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	s, err := h.Session(ctx, "mine")
	fmt.Println(s.State, err)
	// Output: idle <nil>
}
