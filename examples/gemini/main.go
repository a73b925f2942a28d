// Command gemini lets a model of Google use a desktop. It starts the desktop itself:
// GEMINI_API_KEY=... go run . "Open a terminal and tell me the kernel's version"
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
	contents := []any{map[string]any{"role": "user", "parts": []any{map[string]any{"text": os.Args[1]}}}}
	for turn := (computer.Turn{}); !turn.Done; contents = append(contents, turn.Messages...) {
		request := must(json.Marshal(map[string]any{"tools": []any{must(server.Tool(computer.Gemini, ""))}, "contents": contents}))
		post := must(http.NewRequest(http.MethodPost, cmp.Or(os.Getenv("GOOGLE_GEMINI_BASE_URL"), "https://generativelanguage.googleapis.com")+"/v1beta/models/"+cmp.Or(os.Getenv("MODEL"), "gemini-3.5-flash")+":generateContent", bytes.NewReader(request)))
		post.Header = http.Header{"Content-Type": {"application/json"}, "X-Goog-Api-Key": {os.Getenv("GEMINI_API_KEY")}}
		answer := must(io.ReadAll(must(http.DefaultClient.Do(post)).Body))
		turn = must(server.Turn(context.Background(), computer.Gemini, answer))
		fmt.Print(turn.Text)
	}
}
