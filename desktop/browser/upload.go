package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Upload chooses files for a file field.
type Upload struct {
	Tab string `json:"tab,omitempty"`
	Element
	Files []string `json:"files"` // absolute paths, or paths in the desktop's home
}

// Upload chooses files for a file field, without a dialog. It returns an *InvalidError for a file
// that is not below the desktop's home or one of Config.UploadDirs, or not a regular file, and
// for more than 100 files.
func (b *Browser) Upload(ctx context.Context, u Upload) error {
	var files []string
	err := b.ext.AsUser(func() (err error) { // the answer must not tell what only this program's user may know
		files, err = b.uploadable(u.Files)
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := Milliseconds(pageLimit).limit(ctx, "upload", 0)
	defer cancel()
	r, err := b.resolve(ctx, u.Tab, u.Element)
	if err != nil {
		return explain(ctx, err)
	}
	return explain(ctx, b.act(ctx, "upload", u.Element.String(), func(ctx context.Context) error {
		if err := b.focus(ctx, u.Element, r); err != nil {
			return err
		}
		contextID, err := b.world(ctx, r.frame)
		if err != nil {
			return err
		}
		var v struct{ Result remoteObject }
		err = b.call(ctx, r.frame.session, "Runtime.evaluate", map[string]any{
			"expression": fmt.Sprintf("deskhand.get(%d)", r.number), "contextId": contextID,
		}, &v)
		if err != nil {
			return err
		}
		return b.call(ctx, r.frame.session, "DOM.setFileInputFiles", map[string]any{"files": files, "objectId": v.Result.ObjectID}, nil)
	}))
}

// maxUploads bounds the files of an Upload.
const maxUploads = 100

func (b *process) uploadable(paths []string) ([]string, error) {
	if len(paths) > maxUploads {
		return nil, &InvalidError{"Files", fmt.Sprintf("must be at most %d", maxUploads)}
	}
	var dirs []string
	for _, dir := range append([]string{b.home}, b.cfg.UploadDirs...) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	files := []string{}
	for _, path := range paths {
		// The same for all: a client must not learn which files of the server's user exist.
		refused := &InvalidError{"Files", fmt.Sprintf("has %s, which is no file in the desktop's home or below a root of the server", path)}
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.home, path)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, refused
		}
		below := func(dir string) bool {
			rel, err := filepath.Rel(dir, real)
			return err == nil && filepath.IsLocal(rel)
		}
		if !slices.ContainsFunc(dirs, below) {
			return nil, refused
		}
		if info, err := os.Stat(real); err != nil || !info.Mode().IsRegular() {
			return nil, refused
		}
		files = append(files, real)
	}
	return files, nil
}
