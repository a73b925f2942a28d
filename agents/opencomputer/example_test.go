package opencomputer_test

import (
	"fmt"

	"github.com/deskhand/deskhand/agents/eventlog"
	"github.com/deskhand/deskhand/agents/opencomputer"
)

func Example() {
	entries := []eventlog.Event{
		{Dir: eventlog.Client, Kind: "session/new", Payload: []byte(`{"id":1,"params":{"cwd":"/work"}}`)},
		{Dir: eventlog.Agent, Kind: "response:session/new", Payload: []byte(`{"id":1,"result":{"sessionId":"s1"}}`)},
	}
	var s opencomputer.State
	for _, entry := range entries { // the session's stream, in order
		for _, line := range s.Apply(entry) {
			fmt.Printf("%s\n", line)
		}
	}
	// Output: {"type":"ready"}
}
