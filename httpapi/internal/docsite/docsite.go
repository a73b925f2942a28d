// Package docsite has the routes of the documentation: package docs at /docs/, as HTML and
// as Markdown, and its index for language models at /llms.txt.
//
// No token is needed. The pages are the same in every copy of a version of the program,
// and have nothing of the server that sends them.
package docsite

import (
	"path"
	"sync"

	"github.com/gofiber/fiber/v2"

	"github.com/deskhand/deskhand/docs"
	"github.com/deskhand/deskhand/httpapi/internal/rest"
)

// policy lets pages use nothing but the style sheet and the icon of this server. It
// forbids scripts, forms and frames.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// siteFiles has the files of the site by their paths.
var siteFiles = sync.OnceValues(func() (map[string]*rest.StaticFile, error) {
	site, err := docs.Site()
	if err != nil {
		return nil, err
	}
	files := map[string]*rest.StaticFile{}
	for name, data := range site {
		kind := name
		if path.Ext(name) == "" {
			kind = ".html"
		}
		if files["/"+name], err = rest.NewStaticFile(kind, data); err != nil {
			return nil, err
		}
	}
	return files, nil
})

// Register adds the routes. They are not in the OpenAPI document.
func Register(api *rest.API) {
	for _, route := range []string{"/docs", "/docs/*", "/llms.txt"} {
		api.Router().Get(route, serve)
	}
}

func serve(c *fiber.Ctx) error {
	files, err := siteFiles()
	if err != nil {
		return err
	}
	f := files[c.Path()]
	switch {
	case f == nil && files[c.Path()+"/"] != nil:
		// The relative links of an index need the slash at the end of its address.
		return c.Redirect(path.Base(c.Path()) + "/")
	case f == nil:
		return fiber.ErrNotFound
	}
	c.Set(fiber.HeaderContentSecurityPolicy, policy)
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	f.Send(c)
	return nil
}
