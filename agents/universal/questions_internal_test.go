package universal

import (
	"fmt"
	"strings"

	"github.com/deskhand/deskhand/agents/eventlog"
)

// question returns an agent's question with n options.
func question(id, n int, kind, title string) eventlog.Event {
	options := make([]string, n)
	for i := range options {
		options[i] = fmt.Sprintf(`{"optionId":"%d-%d","name":"n%d","kind":"allow_once"}`, id, i, i)
	}
	return eventlog.Event{
		Seq: int64(id + 1), Process: "life", Dir: eventlog.Agent, Kind: "session/request_permission",
		Payload: fmt.Appendf(nil, `{"id":%d,"params":{"toolCall":{"toolCallId":"t","kind":%q,"title":%q},"options":[%s]}}`, id, kind, title, strings.Join(options, ",")),
	}
}
