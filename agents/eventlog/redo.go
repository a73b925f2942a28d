package eventlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	redoSuffix  = "-redo"   // behind the name of the database
	redoHalf    = 256 << 10 // bytes
	redoHead    = 16        // of a record
	redoReserve = 4 << 20   // bytes behind the halves
)

// redoLog is a file, beside that of the database, with commits that the
// database may not have yet: to append a few hundred bytes takes a tenth of the
// time of a transaction, which then has many commits at once.
//
// It has two halves, of which one is written while the database is given what
// the other has. A half is a sequence of records: a CRC-32C of what follows and
// of the database's own id, the size of the body, the number of the commit (in
// little-endian order: 4, 4, 8 bytes), and the body, statements. Numbers go on
// from one record to the next, so that an older one, which a half still has
// behind the newest, is not taken for a newer one. The database has the number of
// the last commit that it was given. See [MySQL's redo log] for a large one.
//
// Behind the halves is a reserve of space: when the disk is full, it is given up,
// and the database has room for what was acknowledged.
//
// [MySQL's redo log]: https://dev.mysql.com/doc/refman/8.4/en/innodb-redo-log.html
type redoLog struct {
	f    *os.File // nil: the database is in memory
	seed uint32   // CRC of the database's id
	half int      // that is written
	at   int      // in it
	buf  []byte
}

// redoRecord is what a record has.
type redoRecord struct {
	number     int64
	statements []statement
	cut        bool // it does not fit into its half, and has no statements
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openRedo opens the log of a database with that id. If sync, what is appended
// is on the disk.
func openRedo(path, id string, sync bool) (*redoLog, error) {
	r := &redoLog{}
	r.sign(id)
	if path == "" {
		return r, nil
	}
	f, err := os.OpenFile(path+redoSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fillFile(f, 2*redoHalf); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return nil, errors.Join(err, f.Close())
	}
	if sync {
		// From now on each write waits for the disk. Reopened, since fcntl cannot
		// set it.
		err = f.Close()
		if err == nil {
			f, err = os.OpenFile(path+redoSuffix, os.O_RDWR|unix.O_DSYNC, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	r.f = f
	return r, nil
}

// fillFile writes zeros up to a size: later writes then change no metadata, nor
// do they need space.
func fillFile(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	if _, err := f.WriteAt(make([]byte, size-info.Size()), info.Size()); err != nil {
		return err
	}
	return f.Sync()
}

// reserve takes the space that release gives up.
func (r *redoLog) reserve() error {
	if r.f == nil {
		return nil
	}
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Fallocate(int(r.f.Fd()), 0, 2*redoHalf, redoReserve)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = r.f.WriteAt(make([]byte, redoReserve), 2*redoHalf)
	}
	if err != nil {
		return errors.Join(err, r.release())
	}
	return nil
}

func (r *redoLog) release() error {
	if r.f == nil {
		return nil
	}
	return r.f.Truncate(2 * redoHalf)
}

func (r *redoLog) close() error {
	if r.f == nil {
		return nil
	}
	return r.f.Close()
}

// fits tells whether the half that is written has room for so many bytes more.
func (r *redoLog) fits(size int) bool { return r.at+redoHead+size <= redoHalf }

// append writes a record. There must be room for it.
func (r *redoLog) append(number int64, all []statement) error {
	b := append(r.buf[:0], make([]byte, redoHead)...)
	b = encodeStatements(b, all)
	r.buf = b
	if !r.fits(len(b) - redoHead) {
		return errRedoFull
	}
	r.head(b, number)
	if r.f != nil {
		if _, err := r.f.WriteAt(b, int64(r.half*redoHalf+r.at)); err != nil {
			return err
		}
	}
	r.at += len(b)
	return nil
}

// errRedoFull says that a record does not fit.
var errRedoFull = errors.New("the redo log is full")

// sign makes the records to come those of a database with that id.
func (r *redoLog) sign(id string) { r.seed = crc32.Checksum([]byte(id), castagnoli) }

// head fills in the head of a record.
func (r *redoLog) head(b []byte, number int64) {
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-redoHead))
	binary.LittleEndian.PutUint64(b[8:], uint64(number))
	binary.LittleEndian.PutUint32(b, crc32.Update(r.seed, castagnoli, b[4:]))
}

// turn begins with a half anew.
func (r *redoLog) turn(half int) { r.half, r.at = half, 0 }

// after returns the records that follow a commit, as far as they go on without a
// gap, and those that are dropped because they are behind one, or are damaged.
func (r *redoLog) after(last int64) (all, dropped []redoRecord, err error) {
	if r.f == nil {
		return nil, nil, nil
	}
	b := make([]byte, 2*redoHalf)
	if _, err := r.f.ReadAt(b, 0); err != nil {
		return nil, nil, err
	}
	for half := range 2 {
		records, err := r.read(b[half*redoHalf:(half+1)*redoHalf], last)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, records...)
	}
	slices.SortFunc(all, func(a, b redoRecord) int { return int(a.number - b.number) })
	for i := range all {
		if all[i].number != last+1+int64(i) || all[i].cut {
			return all[:i], all[i:], nil // what is between was damaged, or lost with the machine
		}
	}
	return all, nil, nil
}

// read returns the records of a half that follow a commit, also those behind a
// damaged one. It looks for them at each byte, since the size of that one may be
// wrong. Behind the last one are older records, and perhaps one that was not
// written to its end because the process was killed.
func (r *redoLog) read(b []byte, last int64) (all []redoRecord, err error) {
	next, place := last+1, len(b) // of the next record: its number, and what is left from its head on
	for b = candidate(b, next); b != nil; b = candidate(b[1:], next) {
		size := binary.LittleEndian.Uint32(b[4:])
		number := int64(binary.LittleEndian.Uint64(b[8:]))
		switch {
		case number < next: // none, or an older one
		case uint64(size) > uint64(len(b)-redoHead):
			if number == next && len(b) == place { // no record is written that does not fit
				all = append(all, redoRecord{number: number, cut: true})
			}
		case crc32.Update(r.seed, castagnoli, b[4:redoHead+size]) == binary.LittleEndian.Uint32(b):
			statements, err := decodeStatements(b[redoHead : redoHead+size])
			if err != nil {
				return nil, fmt.Errorf("redo log, commit %d: %w", number, err)
			}
			all = append(all, redoRecord{number: number, statements: statements})
			next, place = number+1, len(b)-redoHead-int(size)
			b = b[redoHead+size-1:]
		}
	}
	return all, nil
}

// candidate returns the part of b that begins at the first place where a record's
// number can be: a nonzero number with the upper bytes of next. Most of a half is
// zeros or text, which this skips quickly.
func candidate(b []byte, next int64) []byte {
	upper := binary.LittleEndian.AppendUint64(nil, uint64(next))[5:]
	for len(b) >= redoHead {
		i := bytes.Index(b[13:], upper)
		if i < 0 {
			return nil
		}
		if b = b[i:]; binary.LittleEndian.Uint64(b[8:]) != 0 {
			return b
		}
		b = b[len(b)-15-len(bytes.TrimLeft(b[8:], "\x00")):] // until one of the number's bytes is not 0
	}
	return nil
}
