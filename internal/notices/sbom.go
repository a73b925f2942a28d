package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deskhand/deskhand/internal/cyclonedx"
)

// newComponent describes a module of Go (kind golang) or a package of npm (kind npm) under
// licences.
func newComponent(kind, module, version string, ids ...string) cyclonedx.Component {
	c := cyclonedx.Library(kind, module, version, "")
	for _, id := range ids {
		var l cyclonedx.Licence
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
	d := cyclonedx.Document{Component: newComponent("golang", "github.com/deskhand/deskhand", version, "Apache-2.0")}
	d.Component.Type = "application"
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		d.Timestamp = time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	}
	d.Components = append(d.Components, newComponent("golang", "std", strings.TrimPrefix(runtime.Version(), "go"), "BSD-3-Clause"))
	for _, n := range notices {
		var ids []string
		for _, f := range n.files {
			ids = append(ids, f.ids...)
		}
		d.Components = append(d.Components, newComponent(n.kind, n.module, n.version, ids...))
	}
	return d.Write(to)
}
