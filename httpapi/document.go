package httpapi

import (
	"bytes"
	_ "embed"
)

// committedDocument is the golden file of a test which fails unless it is byte
// for byte what huma makes from the types of this version.
//
//go:embed testdata/openapi.json
var committedDocument []byte

// OpenAPI returns a copy of the OpenAPI 3.1 document of this version, which a server
// serves at /openapi.json. It needs no server.
func OpenAPI() []byte { return bytes.Clone(committedDocument) }
