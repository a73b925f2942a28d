package registry_test

import (
	"context"
	"fmt"
	"log"

	"github.com/deskhand/deskhand/agents/registry"
)

func Example() {
	r, err := registry.New(registry.Config{
		Custom: []registry.Custom{{ID: "mine", Command: []string{"cat", "-u"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	agent, err := r.Agent("claude")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(agent.ID, agent.Name)

	// Prepare installs an agent of the table if necessary. The command line speaks
	// ACP on its standard input and output.
	cmd, err := r.Prepare(context.Background(), "mine", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cmd.Agent, cmd.Args)
	// Output:
	// claude Claude Code
	// mine [-u]
}
