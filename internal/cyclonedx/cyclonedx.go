// Package cyclonedx writes CycloneDX 1.5 documents (https://cyclonedx.org).
//
// # Usage
//
//	d := cyclonedx.Document{Component: cyclonedx.Component{Type: "container", Name: "deskhand"}}
//	d.Components = append(d.Components, cyclonedx.Library("npm", "ws", "8.18.0", ""))
//	err := d.Write(os.Stdout)
package cyclonedx

import (
	"encoding/json"
	"io"
	"net/url"
	"strings"
)

// Document describes a component and the components that it contains.
type Document struct {
	Timestamp  string // RFC 3339, or empty
	Component  Component
	Components []Component
}

// Component is a program, a library or a container.
type Component struct {
	Type     string    `json:"type"`
	Ref      string    `json:"bom-ref,omitempty"`
	Name     string    `json:"name"`
	Version  string    `json:"version,omitempty"`
	PURL     string    `json:"purl,omitempty"`
	Licences []Licence `json:"licenses,omitempty"`
}

// Licence is a licence with an identifier of SPDX, or another with a name.
type Licence struct {
	Licence struct {
		ID   string `json:"id,omitempty"`
		Name string `json:"name,omitempty"`
	} `json:"license"`
}

// Library returns a component with the package URL
// (https://github.com/package-url/purl-spec) of its kind, name and version. query is
// appended to the URL and may be empty.
func Library(kind, name, version, query string) Component {
	escaped := strings.ReplaceAll(url.QueryEscape(name), "%2F", "/")
	purl := "pkg:" + kind + "/" + escaped + "@" + url.QueryEscape(version)
	if query != "" {
		purl += "?" + query
	}
	return Component{Type: "library", Ref: purl, Name: name, Version: version, PURL: purl}
}

// Write writes the document as indented JSON.
func (d Document) Write(w io.Writer) error {
	type metadata struct {
		Timestamp string    `json:"timestamp,omitempty"`
		Component Component `json:"component"`
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []Component `json:"components"`
	}{"CycloneDX", "1.5", 1, metadata{d.Timestamp, d.Component}, d.Components})
}
