package desktop

import (
	"bytes"
	"cmp"
	"context"

	"github.com/deskhand/deskhand/internal/x11"
)

// Clipboard reads a selection as contentType: TypeText or TypePNG. An empty sel is the
// clipboard, and an empty contentType is TypeText. The caller must not modify the data.
// Selections are read one at a time.
//
// It returns ErrNoClipboardContent if there is nothing of that type. It fails if the
// program that has the content does not answer for ten seconds, or if there are more than
// 32 MiB; these errors wrap no Err variable. For a viewer, or the person of [WithPerson], the
// limit is 1 MiB, because clients of viewers fetch content without being asked. The whole call
// takes at most 15 s.
func (d *Desktop) Clipboard(ctx context.Context, sel Selection, contentType string) (Content, error) {
	sel = cmp.Or(sel, Clipboard)
	name, err := selectionName(sel)
	if err != nil {
		return Content{}, err
	}
	if contentType, err = checkType(contentType); err != nil {
		return Content{}, err
	}
	return call(ctx, &d.lifecycle, "read "+string(sel), clipboardLimit, func(ctx context.Context, s *session) (Content, error) {
		if !d.cfg.paced(ActorFrom(ctx)) {
			if err := s.input.Quiesce(ctx); err != nil {
				return Content{}, err
			}
		}
		most := x11.MaxContent
		if IsPerson(ctx) {
			most = maxViewed
		}
		select {
		case d.reading <- struct{}{}:
			defer func() { <-d.reading }()
		case <-ctx.Done():
			return Content{}, ctx.Err()
		}
		data, err := s.clipboard.Get(ctx, name, contentType, most)
		return Content{Type: contentType, Data: data}, err
	})
}

// maxViewed is how many bytes of a selection a person gets.
const maxViewed = 1 << 20

// SetClipboard puts content on the selections, or on the clipboard if there are none. It
// stays there until a program copies something else, or the desktop ends. It returns an
// *InvalidError if the data is not of its type, or larger than 32 MiB.
func (d *Desktop) SetClipboard(ctx context.Context, c Content, to ...Selection) error {
	if err := c.Validate(); err != nil {
		return err
	}
	contentType, err := checkType(c.Type)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		to = []Selection{Clipboard}
	}
	names := make([]x11.SelectionName, len(to))
	for i, sel := range to {
		if names[i], err = selectionName(sel); err != nil {
			return err
		}
	}
	data := bytes.Clone(c.Data)
	a := &Action{Name: ActionSetClipboard, Length: len(data)}
	return d.act(ctx, "set clipboard", clipboardLimit, a, func(ctx context.Context, s *session) error {
		for _, name := range names {
			if err := s.clipboard.Set(ctx, name, x11.Content{Type: contentType, Data: data}); err != nil {
				return err
			}
		}
		return nil
	})
}

func selectionName(s Selection) (x11.SelectionName, error) {
	switch s {
	case Clipboard, "":
		return x11.SelectionClipboard, nil
	case Primary:
		return x11.SelectionPrimary, nil
	}
	return x11.SelectionClipboard, &InvalidError{"selection", "must be clipboard or primary"}
}

func selectionOf(n x11.SelectionName) Selection {
	if n == x11.SelectionPrimary {
		return Primary
	}
	return Clipboard
}

func checkType(t string) (string, error) {
	switch t {
	case "", "text/plain", TypeText:
		return TypeText, nil
	case TypePNG:
		return TypePNG, nil
	}
	return t, &InvalidError{"Type", "must be " + TypeText + " or " + TypePNG}
}
