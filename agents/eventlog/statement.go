package eventlog

// statement is some SQL that both databases understand, with $1, $2... for its
// arguments: int64, string, []byte, *int or nil.
type statement struct {
	sql  string
	args []any
}
