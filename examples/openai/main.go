// Command openai lets a model of OpenAI use a desktop. It starts the desktop itself:
// OPENAI_API_KEY=... go run . "Open a terminal and tell me the kernel's version"
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
	input := []any{map[string]any{"role": "user", "content": os.Args[1]}}
	for turn := (computer.Turn{}); !turn.Done; input = append(input, turn.Messages...) {
		request := must(json.Marshal(map[string]any{"model": cmp.Or(os.Getenv("MODEL"), "gpt-5.4"), "truncation": "auto", "tools": []any{must(server.Tool(computer.OpenAI, ""))}, "input": input}))
		post := must(http.NewRequest(http.MethodPost, cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1")+"/responses", bytes.NewReader(request)))
		post.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + os.Getenv("OPENAI_API_KEY")}}
		answer := must(io.ReadAll(must(http.DefaultClient.Do(post)).Body))
		turn = must(server.Turn(context.Background(), computer.OpenAI, answer))
		fmt.Print(turn.Text)
	}
}
