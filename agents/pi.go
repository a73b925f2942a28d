package agents

import (
	"bytes"
	"strconv"
)

// agentPi is the agent whose messages are changed as sandbox-agent changes them.
const agentPi = "pi"

// piRequest returns a request as Pi's adapter accepts it: with a number as protocolVersion, and
// with mcpServers.
func piRequest(e *envelope) *envelope {
	if !e.params.exists() || e.raw[e.params.from] != '{' {
		return e
	}
	var line []byte
	switch e.method {
	case methodInitialize:
		at := e.find(e.params, "protocolVersion")
		version, err := strconv.ParseFloat(stringValue(e.bytes(at)), 64)
		if err != nil || version < 0 || version > 1000 {
			return e
		}
		line = e.with(edit{at, strconv.AppendInt(nil, int64(version), 10)})
	case "session/new", "session/load", "session/resume", "session/fork":
		if e.find(e.params, "mcpServers").exists() {
			return e
		}
		line = e.with(edit{e.params, setMember(e.bytes(e.params), "mcpServers", []byte("[]"))})
	default:
		return e
	}
	changed, err := parse(line)
	if err != nil {
		return e
	}
	return changed
}

const piHint = "this usually means that no API key is configured: set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or another provider's key in the environment of the server"

// withPiHint adds a hint to an error of Pi that a missing API key causes.
func withPiHint(answer []byte) []byte {
	e, err := parse(answer)
	if err != nil || !e.failure.exists() || e.raw[e.failure.from] != '{' {
		return answer
	}
	failure := e.bytes(e.failure)
	text := bytes.ToLower(failure)
	if !bytes.Contains(text, []byte("api key")) && !bytes.Contains(text, []byte("authentication required")) && !bytes.Contains(text, []byte("(reading 'api')")) {
		return answer
	}
	data := []byte("{}")
	f := envelope{raw: failure}
	if at := f.find(span{0, len(failure)}, "data"); at.exists() && string(f.bytes(at)) != "null" {
		data = f.bytes(at)
	}
	if data[0] != '{' {
		return answer
	}
	return e.with(edit{e.failure, setMember(failure, "data", setMember(data, "hint", jsonString(piHint)))})
}
