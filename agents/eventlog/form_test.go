package eventlog_test

import (
	"encoding/base64"
	"math/rand/v2"
)

// picture is the base64 of n bytes of noise, the same each time.
func picture(n int) []byte {
	data := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1, 2, 3})
	_, _ = random.Read(data)
	return base64.StdEncoding.AppendEncode(nil, data)
}
