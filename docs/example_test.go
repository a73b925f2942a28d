package docs_test

import (
	"bufio"
	"fmt"
	"log"

	"github.com/deskhand/deskhand/docs"
)

func Example() {
	page, err := docs.Files.Open("first-steps.md")
	if err != nil {
		log.Fatal(err)
	}
	defer page.Close()
	lines := bufio.NewScanner(page)
	lines.Scan()
	fmt.Println(lines.Text())
	// Output: # First steps
}
