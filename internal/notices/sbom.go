package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bom is the part of a CycloneDX 1.5 document that writeBOM writes.
type bom struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    bomMetadata `json:"metadata"`
	Components  []component `json:"components"`
}

type bomMetadata struct {
	Timestamp string    `json:"timestamp,omitempty"`
	Component component `json:"component"`
}

type component struct {
	Type     string       `json:"type"`
	Ref      string       `json:"bom-ref"`
	Name     string       `json:"name"`
	Version  string       `json:"version"`
	PURL     string       `json:"purl"`
	Licences []bomLicence `json:"licenses"`
}

type bomLicence struct {
	Licence struct {
		ID   string `json:"id,omitempty"`   // of SPDX
		Name string `json:"name,omitempty"` // of what SPDX does not list
	} `json:"license"`
}

// newComponent describes a Go module under licences.
func newComponent(kind, module, version string, ids ...string) component {
	purl := "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: kind, Ref: purl, Name: module, Version: version, PURL: purl}
	for _, id := range ids {
		var l bomLicence
		if l.Licence.ID = id; !slices.Contains(allowed, id) || strings.HasPrefix(id, "GooglePatent") {
			l.Licence.ID, l.Licence.Name = "", id
		}
		if !slices.Contains(c.Licences, l) {
			c.Licences = append(c.Licences, l)
		}
	}
	return c
}

// writeBOM writes the linked modules as a CycloneDX document. Its time is
// SOURCE_DATE_EPOCH, so that the same release gives the same document.
func writeBOM(to io.Writer, version string, notices []notice) error {
	d := bom{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		d.Metadata.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	d.Metadata.Component = newComponent("application", "github.com/deskhand/deskhand", version, "Apache-2.0")
	d.Components = append(d.Components, newComponent("library", "std", strings.TrimPrefix(runtime.Version(), "go"), "BSD-3-Clause"))
	for _, n := range notices {
		var ids []string
		for _, f := range n.files {
			ids = append(ids, f.ids...)
		}
		d.Components = append(d.Components, newComponent("library", n.module, n.version, ids...))
	}
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	return e.Encode(d)
}
