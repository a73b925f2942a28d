package desktop_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/deskhand/deskhand/desktop"
)

// A program types into a terminal and takes a screenshot.
func Example() {
	defer os.Remove("desk.png") // the example leaves no file behind
	ctx := context.Background()
	desk, err := desktop.Start(ctx, desktop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer desk.Close()
	if _, err := desk.Launch(ctx, desktop.Launch{App: "xterm", Wait: true}); err != nil {
		log.Fatal(err)
	}
	if err := desk.Type(ctx, desktop.Type{Text: "echo こんにちは 😀\n"}); err != nil {
		log.Fatal(err)
	}
	shot, err := desk.Screenshot(ctx, desktop.ScreenshotOptions{Settle: 200 * time.Millisecond, SettleTimeout: 2 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("desk.png", shot.Data, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(shot.Size.Width, "x", shot.Size.Height)
	// Output: 1440 x 900
}
