package accessibility_test

import (
	"context"
	"fmt"
	"log"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/accessibility"
)

func Example() {
	ctx := context.Background()
	d, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	tree, err := accessibility.Start(ctx, accessibility.Config{Desktop: d})
	if err != nil {
		log.Fatal(err)
	}
	defer tree.Close()
	if _, err := d.Launch(ctx, desktop.Launch{App: "zenity", Args: []string{"--question", "--text=Continue?"}, Wait: true}); err != nil {
		log.Fatal(err)
	}
	e, err := tree.Wait(ctx, accessibility.Condition{Match: accessibility.Match{Role: "button", Name: "~^Y"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Role, e.Name)
	// Output: button Yes
}
