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

// OpenAPI is the OpenAPI 3.1 document of this version, as a server has it at
// /openapi.json. It needs no server, and making it costs a copy: a program can
// begin with it.
func OpenAPI() []byte { return bytes.Clone(committedDocument) }
