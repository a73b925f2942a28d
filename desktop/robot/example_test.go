//go:build robotgo

package robot_test

import (
	"context"
	"fmt"
	"log"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/robot"
)

func Example() {
	ctx := context.Background()
	d, err := robot.Start(ctx, robot.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Move(ctx, desktop.Move{At: desktop.Point{X: 100, Y: 100}}); err != nil {
		log.Fatal(err)
	}
	shot, err := d.Screenshot(ctx, desktop.ScreenshotOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(shot.Format, err)
	// Output: png <nil>
}
