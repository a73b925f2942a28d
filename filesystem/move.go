package filesystem

import "context"

// MoveOptions say how a move is done.
type MoveOptions struct {
	// Overwrite replaces what is at the destination. Without it the move
	// fails with fs.ErrExist when there is something.
	Overwrite bool
}

// Move moves a file, a symbolic link or a directory.
func (f *FS) Move(ctx context.Context, from, to string, options MoveOptions) error {
	const op = "move"
	if err := f.enter(); err != nil {
		return f.fail(op, from, err)
	}
	defer f.leave()
	source, err := f.locateEntry(from)
	if err != nil {
		return f.fail(op, from, err)
	}
	target, err := f.locateEntry(to)
	if err != nil {
		return f.fail(op, to, err)
	}
	return f.fail(op, source.path, f.move(ctx, source, target, options))
}

func (f *FS) move(ctx context.Context, source, target place, options MoveOptions) error {
	if err := f.alive(ctx); err != nil {
		return err
	}
	from, fromName, err := openParent(source)
	if err != nil {
		return err
	}
	defer from.close()
	to, toName, err := openParent(target)
	if err != nil {
		return err
	}
	defer to.close()
	return from.rename(fromName, to, toName, 0)
}
