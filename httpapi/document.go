package httpapi

import _ "embed"

// committedDocument is the golden file of a test which fails unless it is byte
// for byte what a server of this version makes from its types and serves.
//
//go:embed testdata/openapi.json
var committedDocument string

// OpenAPI is the OpenAPI 3.1 document of this version, as a server has it at
// /openapi.json. It needs no server, and making it costs a copy: a program can
// begin with it.
func OpenAPI() []byte { return []byte(committedDocument) }
