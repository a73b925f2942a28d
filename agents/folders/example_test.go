package folders_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/deskhand/deskhand/agents/folders"
)

// A user approves an MCP server that came with a folder.
func Example() {
	ctx := context.Background()
	project, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(project)
	file := filepath.Join(project, ".sandbox-agent/config/mcp.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"search": {"url": "https://search.example/mcp"}}`), 0o644); err != nil {
		log.Fatal(err)
	}

	store, err := folders.Open(folders.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	found, err := store.Entry(ctx, project, folders.MCP, "search")
	fmt.Println(found.Approved, err)
	if err := store.Approve(ctx, project, folders.MCP, "search", found.Hash); err != nil {
		log.Fatal(err)
	}
	found, err = store.Entry(ctx, project, folders.MCP, "search")
	fmt.Println(found.Approved, err)
	// Output:
	// false <nil>
	// true <nil>
}
