package universal_test

import (
	"context"
	"fmt"
	"log"

	"github.com/deskhand/deskhand/agents"
	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/universal"
)

func Example() {
	ctx := context.Background()
	entries, err := eventlog.Open(ctx, eventlog.Config{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = entries.Close() }()
	err = entries.Commit(ctx, func(tx *eventlog.Tx) error {
		_, err := tx.Append(eventlog.Event{
			Stream: agents.SessionStream("mine"), Session: "mine", Dir: eventlog.Client, Kind: "session/prompt",
			Payload: []byte(`{"id":1,"params":{"prompt":[{"type":"text","text":"hello"}]}}`),
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	p := universal.NewProjector(entries)
	defer p.Close()
	events, more, err := p.Session("mine").Events(ctx, 0, 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range events {
		fmt.Println(e.Sequence, e.Type)
	}
	fmt.Println(more)
	// Output:
	// 1 turn.started
	// 2 item.started
	// 3 item.delta
	// 4 item.completed
	// false
}

// A State makes the same events without a log, and stores nothing.
func ExampleState() {
	s := universal.NewState("mine")
	entry := eventlog.Event{
		Seq: 1, Dir: eventlog.Client, Kind: "session/prompt", Payload: []byte(`{"id":1,"params":{"prompt":[]}}`),
	}
	for _, e := range s.Apply(entry) {
		fmt.Println(e.Sequence, e.Type)
	}
	// Output:
	// 1 turn.started
	// 2 item.started
	// 3 item.completed
}
