package secrets_test

import (
	"fmt"
	"log"

	"github.com/deskhand/deskhand/desktop"
	"github.com/deskhand/deskhand/desktop/secrets"
)

// A desktop types a password that its callers know by name.
func Example() {
	store := secrets.New()
	if err := store.Set("BANK_PASSWORD", "correct horse"); err != nil {
		log.Fatal(err)
	}
	cfg := desktop.Config{SecretValue: store.Value}
	// d, err := desktop.Start(ctx, cfg)
	// err = d.Type(ctx, desktop.Type{SecretName: "BANK_PASSWORD"})
	_, known := cfg.SecretValue("BANK_PASSWORD")
	fmt.Println(known, store.List()[0].Name)
	fmt.Printf("%v %+v %#v\n", store, store, store)
	// Output:
	// true BANK_PASSWORD
	// secrets secrets secrets
}
