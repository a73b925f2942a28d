package agents

import (
	"strings"
	"testing"
)

// TestPiRequest changes the requests that Pi's adapter would refuse, and no others.
func TestPiRequest(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"id":1,"method":"initialize","params":{"protocolVersion":"1.0","a":1}}`: `{"id":1,"method":"initialize","params":{"protocolVersion":1,"a":1}}`,
		`{"id":1,"method":"session/new","params":{"cwd":"/"}}`:                    `{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`,
		`{"id":1,"method":"session/load","params":{}}`:                            `{"id":1,"method":"session/load","params":{"mcpServers":[]}}`,
		`{"id":1,"method":"initialize","params":{"protocolVersion":1}}`:           "",
		`{"id":1,"method":"initialize","params":{"protocolVersion":"new"}}`:       "",
		`{"id":1,"method":"initialize","params":{}}`:                              "",
		`{"id":1,"method":"initialize"}`:                                          "",
		`{"id":1,"method":"session/new","params":{"mcpServers":[{"name":"x"}]}}`:  "",
		`{"id":1,"method":"session/new","params":[]}`:                             "",
		`{"id":1,"method":"session/prompt","params":{}}`:                          "",
	} {
		e, err := parse([]byte(given))
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = given
		}
		if got := string(piRequest(e).raw); got != want {
			t.Errorf("%s became %s, want %s", given, got, want)
		}
	}
}

func TestPiHint(t *testing.T) {
	t.Parallel()
	for answer, hinted := range map[string]bool{
		`{"id":1,"error":{"code":-32000,"message":"Authentication required: Configure an API key"}}`:                                     true,
		`{"id":1,"error":{"code":-32603,"message":"Internal","data":{"details":"Cannot read properties of undefined (reading 'api')"}}}`: true,
		`{"id":1,"error":{"code":-32603,"message":"Internal"}}`:                                                                          false,
		`{"id":1,"result":{"text":"an API key"}}`:                                                                                        false,
	} {
		got := string(withPiHint([]byte(answer)))
		if strings.Contains(got, `"hint":"this usually means that no API key`) != hinted || !hinted && got != answer {
			t.Errorf("%s became %s", answer, got)
		}
	}
}
