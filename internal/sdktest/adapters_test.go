package sdktest

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/deskhand/deskhand/internal/testx11"
)

//go:embed adapters
var adapters embed.FS

// providerTypes are the types that the packages of a provider have for a call, a result and
// the definition of the computer tool.
type providerTypes struct{ imports, call, result, tool string }

// environment finds a value of an enumeration, which TypeScript does not take as a string.
var environment = regexp.MustCompile(`"(ENVIRONMENT_\w+)"`)

// TestAdapters executes the transcripts of all providers over HTTP, and has the compiler of
// TypeScript check calls, results and definitions against the types of the providers'
// packages.
func TestAdapters(t *testing.T) {
	t.Parallel()
	if reference {
		t.Skip("the reference server has no adapters")
	}
	testx11.Require(t, "node", "npm", "Xvfb", "openbox", "dbus-daemon")
	modules, err := installFrom(t.Context(), adapters, "adapters")
	if err != nil {
		t.Fatal(err)
	}
	server := startServer(t, modules, Config{})
	dir := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	config, err := adapters.ReadFile("adapters/tsconfig.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tsconfig.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	request(t, server, http.MethodPost, "/v1/desktop/start", []byte(`{"width":1000,"height":500}`))
	for provider, types := range map[string]providerTypes{
		"anthropic": {
			`import type Anthropic from "@anthropic-ai/sdk";`,
			"Anthropic.Beta.BetaComputerToolUseBlock", "Anthropic.Beta.BetaToolResultBlockParam", "Anthropic.Beta.BetaToolUnion",
		},
		"openai": {
			`import type OpenAI from "openai";`,
			"OpenAI.Responses.ResponseComputerToolCall", "OpenAI.Responses.ResponseInputItem.ComputerCallOutput", "OpenAI.Responses.Tool",
		},
		"gemini": {
			`import { Environment, type FunctionCall, type FunctionResponse, type Tool } from "@google/genai";`, "FunctionCall", "FunctionResponse", "Tool",
		},
	} {
		checked := typescript(t, server, provider, types)
		if err := os.WriteFile(filepath.Join(dir, provider+".ts"), checked, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	generate(t, dir, filepath.Join(modules, ".bin", "tsc"), "-p", ".")
}

// typescript returns a program with the calls of a provider's transcripts, their results and
// the definitions of the tool as constants of the provider's types.
func typescript(t *testing.T, server *Server, provider string, types providerTypes) []byte {
	t.Helper()
	transcripts, err := os.ReadFile("../../agents/computer/testdata/" + provider + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Call  json.RawMessage
		Fails bool
	}
	if err := json.Unmarshal(transcripts, &all); err != nil {
		t.Fatal(err)
	}
	var ts bytes.Buffer
	fmt.Fprintln(&ts, types.imports)
	if provider == "gemini" {
		fmt.Fprintln(&ts, `import type { Interactions } from "@google/genai";`)
	}
	for i, c := range all {
		call, result := types.call, types.result
		var kind struct {
			Type    string
			Toolset string `json:"toolset_name"`
			CallID  string `json:"call_id"`
		}
		if err := json.Unmarshal(c.Call, &kind); err != nil {
			t.Fatal(err)
		}
		if provider == "gemini" && kind.Type == "function_call" {
			call, result = "Interactions.FunctionCallStep", "Interactions.FunctionResultStep"
		}
		answer := request(t, server, http.MethodPost, "/v1/desktop/computer/"+provider, c.Call)
		whole := provider == "gemini" || kind.CallID != "" || kind.Type == "tool_use" // not the input alone
		if whole {
			fmt.Fprintf(&ts, "export const result%d: %s = %s;\n", i, result, answer)
		}
		// The block of the single tool has an unknown input. The acknowledgement of a check is
		// added to the call.
		if whole && !c.Fails && (provider != "anthropic" || kind.Toolset != "") && !bytes.Contains(c.Call, []byte("acknowledge")) {
			fmt.Fprintf(&ts, "export const call%d: %s = %s;\n", i, call, c.Call)
		}
	}
	versions := map[string][]string{
		"anthropic": {"", "20241022", "20250124", "20251124", "20260801"}, "openai": {"", "computer", "computer_use_preview"},
		"gemini": {"", "desktop", "browser", "interactions"},
	}
	for i, v := range versions[provider] {
		tool := types.tool
		if v == "interactions" {
			tool = "Interactions.Tool"
		}
		definition := request(t, server, http.MethodGet, "/v1/desktop/computer/"+provider+"?version="+v, nil)
		fmt.Fprintf(&ts, "export const tool%d: %s = %s;\n", i, tool, environment.ReplaceAll(definition, []byte("Environment.$1")))
	}
	return ts.Bytes()
}

// request sends a request that must succeed, and returns the answer's body.
func request(t *testing.T, server *Server, method, path string, body []byte) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+server.Token)
	r.Header.Set("Content-Type", "application/json")
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	answer, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.StatusCode >= http.StatusBadRequest || !strings.HasPrefix(w.Header.Get("Content-Type"), "application/json") {
		t.Fatalf("%s %s %s: %s %s", method, path, body, w.Status, answer)
	}
	return answer
}
