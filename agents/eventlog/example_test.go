package eventlog_test

import (
	"context"
	"fmt"

	"github.com/deskhand/deskhand/agents/eventlog"
)

func Example() {
	ctx := context.Background()
	log, err := eventlog.Open(ctx, eventlog.Config{}) // in memory
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = log.Close() }()
	err = log.Commit(ctx, func(tx *eventlog.Tx) error {
		prompt := eventlog.Event{Stream: "ses:1", Session: "1", Dir: eventlog.Client, Kind: "session/prompt", Payload: []byte(`{"text":"hello"}`)}
		if _, err := tx.Append(prompt); err != nil {
			return err
		}
		return tx.PutSession(eventlog.Session{ID: "1", Agent: "mock", State: eventlog.Running})
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	events, err := log.Follow("ses:1", 0).Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		fmt.Printf("%d %s %s %s\n", e.Seq, e.Dir, e.Kind, e.Payload)
	}
	// Output: 1 client session/prompt {"text":"hello"}
}
