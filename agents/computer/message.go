package computer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of a message. The SDK repeats parts of a message in its errors, and writes up to five bytes
// for each of them.
const (
	// maxRequest bounds a message. The largest ones have a text for the clipboard.
	maxRequest = 8 << 20

	// maxEnvelope bounds what a message has in addition to the arguments of a tool.
	maxEnvelope = 256 << 10

	// maxName bounds the name of a tool, and each member of a message that is not an object.
	maxName = 1 << 10
)

// checkMessage returns an error for a message of which the SDK would repeat a large part.
func checkMessage(text []byte) error {
	if text = bytes.TrimLeft(text, " \t\r\n"); bytes.HasPrefix(text, []byte("[")) {
		return errors.New("the body must be one message, and is a list: send the messages of a batch one by one")
	}
	var m members
	if json.Unmarshal(text, &m) != nil {
		return errors.New("the body must be a JSON object")
	}
	for _, name := range []string{"jsonrpc", "id", "method"} {
		if len(m[name]) > maxName {
			return fmt.Errorf("%s: must have at most %d bytes", name, maxName)
		}
	}
	var params members
	if raw := m["params"]; raw != nil && json.Unmarshal(raw, &params) != nil {
		return errors.New("params: must be an object")
	}
	if len(params["name"]) > maxName {
		return fmt.Errorf("params.name: must have at most %d bytes", maxName)
	}
	if len(text) <= maxEnvelope {
		return nil
	}
	var method string
	_ = json.Unmarshal(m["method"], &method) // another value is not the method below
	if method != "tools/call" || len(text)-len(params["arguments"]) > maxEnvelope {
		return fmt.Errorf("the message must have at most %d bytes in addition to the arguments of a tool", maxEnvelope)
	}
	if json.Unmarshal(m["params"], new(mcp.CallToolParamsRaw)) != nil {
		return errors.New("params: must be those of a call of a tool")
	}
	return nil
}
