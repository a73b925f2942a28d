// Command anthropic lets a model of Anthropic use a desktop. It starts the desktop itself:
// ANTHROPIC_API_KEY=... go run . "Open a terminal and tell me the kernel's version"
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	desk := must(desktop.Start(context.Background(), desktop.Config{}))
	defer desk.Close()
	server := must(computer.NewServer(desk, computer.Config{}))
	messages := []any{map[string]any{"role": "user", "content": os.Args[1]}}
	for turn := (computer.Turn{}); !turn.Done; messages = append(messages, turn.Messages...) {
		request := must(json.Marshal(map[string]any{"model": cmp.Or(os.Getenv("MODEL"), "claude-opus-4-5"), "max_tokens": 4096, "tools": []any{must(server.Tool(computer.Anthropic, ""))}, "messages": messages}))
		post := must(http.NewRequest(http.MethodPost, cmp.Or(os.Getenv("ANTHROPIC_BASE_URL"), "https://api.anthropic.com")+"/v1/messages", bytes.NewReader(request)))
		post.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {os.Getenv("ANTHROPIC_API_KEY")}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"computer-use-2025-11-24"}}
		answer := must(io.ReadAll(must(http.DefaultClient.Do(post)).Body))
		turn = must(server.Turn(context.Background(), computer.Anthropic, answer))
		fmt.Print(turn.Text)
	}
}
