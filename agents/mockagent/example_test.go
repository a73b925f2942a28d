package mockagent_test

import (
	"context"
	"log"
	"os"
	"strings"

	"github.com/deskhand/deskhand/agents/mockagent"
)

// A client sends a request that ACP does not have.
func Example() {
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"hello"}` + "\n")
	if err := mockagent.Run(context.Background(), in, os.Stdout, mockagent.Config{}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"jsonrpc":"2.0","method":"mock/echo","params":{"message":{"jsonrpc":"2.0","id":1,"method":"hello"}}}
	// {"id":1,"jsonrpc":"2.0","result":{"echoed":{"jsonrpc":"2.0","id":1,"method":"hello"}}}
}
