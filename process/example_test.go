package process_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
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
	fmt.Printf("%q, exit status %d\n", r.Stdout, *r.Exit.Code)
	// Output: "hello\n", exit status 3
}

// A program in the background gets input, and its output is read.
func ExampleManager_Start() {
	ctx := context.Background()
	m, err := process.New(process.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	p, err := m.Start(process.Spec{Command: "sort"})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := p.Write(ctx, []byte("pear\napple\n")); err != nil {
		log.Fatal(err)
	}
	if err := p.CloseInput(); err != nil {
		log.Fatal(err)
	}
	r := p.Log().Follow(0)
	for {
		entries, gap, err := r.Next(ctx)
		if gap.Bytes > 0 {
			fmt.Println("too slow, lost", gap.Bytes, "bytes")
		}
		for _, e := range entries {
			fmt.Printf("%s: %s", e.Stream, e.Data)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	<-p.Done()
	fmt.Println("exit status", *p.Info().Exit.Code)
	// Output:
	// stdout: apple
	// pear
	// exit status 0
}

// A program runs in a terminal, whose size is changed.
func ExampleProcess_Resize() {
	m, err := process.New(process.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	p, err := m.Start(process.Spec{Command: "sh", Args: []string{"-c", "stty size; read line; stty size"}, Terminal: true, Cols: 132, Rows: 43})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Resize(80, 24); err != nil {
		log.Fatal(err)
	}
	if _, err := p.Write(context.Background(), []byte("\n")); err != nil {
		log.Fatal(err)
	}
	<-p.Done()
	var shown strings.Builder
	for _, e := range p.Log().Entries(process.Query{Stream: process.Terminal}) {
		shown.Write(e.Data)
	}
	fmt.Println(strings.HasSuffix(shown.String(), "24 80\r\n"))
	// Output: true
}
