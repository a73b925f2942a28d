package desktops

import (
	"context"
	"encoding/json"

	"github.com/deskhand/deskhand/desktop/batch"
	"github.com/deskhand/deskhand/desktop/browser"
)

// batchBrowser is the browser of a desktop for lists of actions.
type batchBrowser struct {
	area *Area
	id   string
}

// Do implements batch.Browser.
func (b batchBrowser) Do(ctx context.Context, a batch.Browse) (json.RawMessage, error) {
	inst, err := b.area.fleet.Find(b.id)
	if err != nil {
		return nil, err
	}
	running, err := inst.Browser()
	if err != nil {
		return nil, err
	}
	return running.Do(ctx, a.Do, a.Args)
}

// useBrowser calls a command of the browser of a desktop for an agent. It starts the browser if
// none runs.
func useBrowser(area *Area, id string) func(ctx context.Context, command string, args json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, command string, args json.RawMessage) (json.RawMessage, error) {
		inst, err := area.fleet.Find(id)
		if err != nil {
			return nil, err
		}
		b, _, err := inst.StartBrowser(ctx, browser.Config{UploadDirs: area.cfg.UploadDirs})
		if err != nil {
			return nil, err
		}
		return b.Do(ctx, command, args)
	}
}
