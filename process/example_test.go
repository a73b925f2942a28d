package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/deskhand/deskhand/process"
)

func Example() {
	ctx := context.Background()
	m, err := process.New(process.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	r, err := m.Run(ctx, process.Spec{Command: "sh", Args: []string{"-c", "echo hello; exit 3"}}, process.RunOptions{Timeout: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s exit %d\n", r.Stdout, *r.Exit.Code)
	// Output:
	// hello
	//  exit 3
}

// A shell in a terminal: what is typed, and what it shows.
func ExampleManager_Start() {
	ctx := context.Background()
	m, err := process.New(process.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	p, err := m.Start(process.Spec{Command: "sh", Args: []string{"-c", "stty -echo; read line; echo you typed $line"}, Terminal: true, Cols: 132, Rows: 43})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.Write(ctx, []byte("ls\n")); err != nil {
		log.Fatal(err)
	}
	shown := ""
	for r := p.Log().Follow(0); ; {
		entries, _, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, e := range entries {
			shown += string(e.Data)
		}
	}
	fmt.Println(p.Info().Running)
	_ = shown // "you typed ls", and before it "ls" if that came before stty
	// Output: false
}
