package computer_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deskhand/deskhand/agents/computer"
	"github.com/deskhand/deskhand/desktop"
)

// An MCP client moves the pointer of a desktop.
func Example() {
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	s, err := computer.NewServer(desk, computer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(s) // a program uses http.Handle("/mcp", s)
	defer web.Close()

	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	move := &mcp.CallToolParams{Name: "mouse_move", Arguments: map[string]any{"coordinate": []int{100, 200}}}
	if _, err := session.CallTool(ctx, move); err != nil {
		log.Fatal(err)
	}
	pointer, err := desk.Pointer(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pointer.X, pointer.Y) // in pixels of the screen, which is larger than the picture
	// Output: 106 212
}
