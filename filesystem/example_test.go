package filesystem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"

	"github.com/deskhand/deskhand/filesystem"
)

func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()

	f, err := filesystem.Open(filesystem.Config{Roots: []filesystem.Root{{Name: "work", Path: dir}}})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	n, err := f.Write(ctx, "notes/today.txt", strings.NewReader("buy milk\n"), filesystem.WriteOptions{})
	fmt.Println(n, err)
	if err := f.Move(ctx, "notes/today.txt", "done/yesterday.txt", filesystem.MoveOptions{}); err != nil {
		log.Fatal(err)
	}
	listing, err := f.List(ctx, "", filesystem.ListOptions{Recursive: true})
	for _, e := range listing.Entries {
		fmt.Println(e.Type, strings.TrimPrefix(e.Path, dir))
	}
	fmt.Println(err)

	_, err = f.Stat("/etc/passwd")
	fmt.Println(errors.Is(err, filesystem.ErrOutside))
	_, err = f.Stat("notes/today.txt")
	fmt.Println(errors.Is(err, fs.ErrNotExist))
	// Output:
	// 9 <nil>
	// directory /done
	// file /done/yesterday.txt
	// directory /notes
	// <nil>
	// true
	// true
}

// A file is replaced only if no other writer has replaced it since it was read.
func ExampleFS_Write() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	f, err := filesystem.Open(filesystem.Config{Home: dir})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	if _, err := f.Write(ctx, "count", strings.NewReader("1"), filesystem.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	file, err := f.OpenFile("count")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	fmt.Printf("%s %v\n", content, err)

	for range 2 {
		_, err = f.Write(ctx, "count", strings.NewReader("2"), filesystem.WriteOptions{IfMatch: file.ETag()})
		fmt.Println(err == nil, errors.Is(err, filesystem.ErrChanged))
	}
	// Output:
	// 1 <nil>
	// true false
	// false true
}
