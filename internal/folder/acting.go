package folder

import "context"

// Files reads and writes below directories. The zero value works with the rights of the
// calling thread.
type Files struct {
	do func(func() error) error // nil for the calling thread
}

// Acting returns Files that work with the rights of another user. do runs a function with these
// rights and returns its error, as supervise.User.Do does.
func Acting(do func(func() error) error) Files { return Files{do} }

func (f Files) run(work func() error) error {
	if f.do == nil {
		return work()
	}
	return f.do(work)
}

// Read returns the content of a regular file of at most limit bytes.
func (f Files) Read(dir, name string, limit int64) (text []byte, err error) {
	err = f.run(func() (err error) {
		text, err = read(dir, name, limit)
		return err
	})
	return text, err
}

// Update replaces a file by the text that edit returns, atomically. It holds an advisory lock
// (flock) on the file's directory, for which it waits until ctx ends, and ten seconds at most.
// If there is no file, old is nil, dir and the directories below it are made, and the file gets
// the mode 0600. If edit returns nil or an error, the file does not change. edit runs with the
// rights of f.
func (f Files) Update(ctx context.Context, dir, name string, limit int64, edit func(old []byte) ([]byte, error)) error {
	return f.run(func() error { return update(ctx, dir, name, limit, edit) })
}

// List returns the regular files below a folder. It skips links, folders named .git, and
// folders that are nested deeper than depth. The error is ErrTooMany if there are more than
// limit entries.
func (f Files) List(dir, name string, depth, limit int) (all []Entry, err error) {
	err = f.run(func() (err error) {
		all, err = list(dir, name, depth, limit)
		return err
	})
	return all, err
}

// WriteTree makes a folder of files, completely or not at all. It replaces a file, link or
// folder of that name, as RemoveAll removes it. It ends with ctx.
func (f Files) WriteTree(ctx context.Context, dir, name string, files []File) error {
	return f.run(func() error { return writeTree(ctx, dir, name, files) })
}

// RemoveAll removes a file, a link, or a folder and its content. It returns nil if the name
// does not exist. It ends with ctx, and entries that were removed before stay removed.
func (f Files) RemoveAll(ctx context.Context, dir, name string) error {
	return f.run(func() error { return removeAll(ctx, dir, name) })
}
