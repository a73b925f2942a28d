package folder

import "context"

// Acting returns Files that work with the rights of another user. do runs a function
// with these rights and returns its error, as supervise.User.Do does. If do is nil,
// Acting returns [Local].
//
// The edit function of Update runs with these rights, too.
func Acting(do func(func() error) error) Files {
	if do == nil {
		return Local{}
	}
	return acting(do)
}

// acting does the work of Local, each call of which stays in its goroutine.
type acting func(func() error) error

var _ Files = acting(nil)

func (a acting) Read(dir, name string, limit int64) (text []byte, err error) {
	err = a(func() (err error) {
		text, err = Local{}.Read(dir, name, limit)
		return err
	})
	return text, err
}

func (a acting) Update(ctx context.Context, dir, name string, limit int64, edit func([]byte) ([]byte, error)) error {
	return a(func() error { return Local{}.Update(ctx, dir, name, limit, edit) })
}

func (a acting) List(dir, name string, depth, limit int) (all []Entry, err error) {
	err = a(func() (err error) {
		all, err = Local{}.List(dir, name, depth, limit)
		return err
	})
	return all, err
}

func (a acting) WriteTree(dir, name string, files []File) error {
	return a(func() error { return Local{}.WriteTree(dir, name, files) })
}

func (a acting) RemoveAll(dir, name string) error {
	return a(func() error { return Local{}.RemoveAll(dir, name) })
}
