package browser_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/browser"
)

// A program starts a browser on a desktop.
func Example() {
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	b, err := browser.Start(ctx, browser.Config{Desktop: desk, URL: "data:text/html,<title>Hello</title>"})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	name, _, _ := strings.Cut(b.Version().Product, "/")
	fmt.Println(name)
	// Output: Chrome
}
